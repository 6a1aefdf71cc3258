#include "server/frontend/postgres/sql_pool.h"

#include <functional>

#include "server/common/status_details.h"

namespace kinora {

SqlPool::SqlPool(const SqlPoolOptions& options) : options_(options) {
  lanes_.push_back(std::make_unique<Lane>());
  lanes_[0]->writes = false;
  for (int i = 0; i < options_.writers; ++i) lanes_.push_back(std::make_unique<Lane>());
  for (int i = 0; i < options_.readers; ++i) threads_.emplace_back([this] { Run(*lanes_[0]); });
  for (int i = 1; i <= options_.writers; ++i) threads_.emplace_back([this, i] { Run(*lanes_[i]); });
}

void SqlPool::Stop() {
  if (!stop_.HasBeenNotified()) stop_.Notify();
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void SqlPool::Post(Lane& lane, Apply apply, Finished done) {
  absl::MutexLock lock(&mu_);
  lane.tasks.push_back({std::move(apply), std::move(done), options_.session.steady->Now() + options_.patience});
  waiting_ += 1;
}

void SqlPool::Write(std::string_view key, Apply apply, Finished done) {
  const size_t lane = 1 + std::hash<std::string_view>()(key) % static_cast<size_t>(options_.writers);
  Post(*lanes_[lane], std::move(apply), std::move(done));
}

void SqlPool::Read(Apply apply, Finished done) { Post(*lanes_[0], std::move(apply), std::move(done)); }

void SqlPool::Run(Lane& lane) {
  SqlSessionOptions options = options_.session;
  options.stop = &stop_;
  SqlSession session(options);
  const auto work = [&] {
    mu_.AssertHeld();
    return !lane.tasks.empty() || stopping_;
  };
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&work));
      if (lane.tasks.empty()) return;
      task = std::move(lane.tasks.front());
      lane.tasks.pop_front();
    }
    const auto apply = [&task](SqlTransaction& transaction) { return task.apply(transaction); };
    task.done(ForCallers(lane.writes ? session.Write(apply, task.deadline) : session.Read(apply, task.deadline), lane));
    absl::MutexLock lock(&mu_);
    waiting_ -= 1;
  }
}

// libpq's messages have addresses and names.
absl::Status SqlPool::ForCallers(absl::Status status, const Lane& lane) {
  SqlHealth* const health = options_.session.health;
  if (health != nullptr && lane.writes) health->NoteChange(status);
  if (!absl::IsUnavailable(status) || !ErrorReason(status).empty()) return status;
  return absl::UnavailableError("the database is not available; try again later");
}

int SqlPool::calls() const {
  absl::MutexLock lock(&mu_);
  return waiting_;
}

void SqlPool::Flush() {
  const auto idle = [this] {
    mu_.AssertHeld();
    return waiting_ == 0;
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&idle));
}

}  // namespace kinora
