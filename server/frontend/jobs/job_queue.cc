#include "server/frontend/jobs/job_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/common/status_details.h"

namespace kinora {

bool JobQueue::Order::operator()(const QueuedJob& a, const QueuedJob& b) const {
  return std::tuple(-a.priority, a.create_time, a.id) < std::tuple(-b.priority, b.create_time, b.id);
}

JobQueue::JobQueue(int capacity, ChangeListener on_change) : capacity_(capacity), on_change_(std::move(on_change)) {}

absl::Status JobQueue::Reserve() {
  absl::MutexLock lock(&mu_);
  if (closed_) {
    return WithErrorInfo(WithRetryInfo(absl::UnavailableError("the server is draining"), absl::Seconds(5)), "DRAINING");
  }
  if (static_cast<int>(jobs_.size()) + reserved_ >= capacity_) {
    return WithErrorInfo(WithRetryInfo(absl::ResourceExhaustedError(
                                           absl::StrCat("queue_capacity: ", capacity_, " jobs are already waiting")),
                                       absl::Seconds(10)),
                         "QUEUE_FULL", {{"queue_capacity", absl::StrCat(capacity_)}});
  }
  reserved_ += 1;
  return absl::OkStatus();
}

void JobQueue::Unreserve() {
  absl::MutexLock lock(&mu_);
  KINORA_CHECK(reserved_ > 0);
  reserved_ -= 1;
}

void JobQueue::Push(const QueuedJob& job) {
  {
    absl::MutexLock lock(&mu_);
    KINORA_CHECK(reserved_ > 0);
    reserved_ -= 1;
    Insert(job);
  }
  if (on_push_ != nullptr) on_push_();
}

void JobQueue::Requeue(const QueuedJob& job) {
  {
    absl::MutexLock lock(&mu_);
    Insert(job);
  }
  if (on_push_ != nullptr) on_push_();
}

std::optional<QueuedJob> JobQueue::Pop(absl::FunctionRef<bool(const QueuedJob&)> runnable) {
  absl::MutexLock lock(&mu_);
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), runnable);
  if (found == jobs_.end()) return std::nullopt;
  QueuedJob job = *found;
  Erase(found);
  return job;
}

void JobQueue::ClaimNext(WorkRequest request, Done<std::optional<WorkClaim>> done) {
  KINORA_CHECK(store_ != nullptr);
  std::string group;
  std::optional<QueuedJob> job = Pop([&](const QueuedJob& waiting) {
    group = request.group_for(waiting);
    return !group.empty();
  });
  if (!job) return done(std::nullopt);
  const JobId id = job->id;
  const std::string owner = request.owner;
  const absl::Duration lease = request.lease;
  store_->Claim(id, owner, lease,
                [this, request = std::move(request), done = std::move(done), job = *std::move(job),
                 group = std::move(group)](absl::StatusOr<Claimed> claimed) mutable {
                  const absl::Status& status = claimed.status();
                  if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) {
                    absl::MutexLock lock(&mu_);
                    Insert(job);
                  } else if (!status.ok()) {
                    return ClaimNext(std::move(request), std::move(done));
                  }
                  if (!status.ok()) return done(status);
                  done(WorkClaim{.job = std::move(job), .group = std::move(group), .claimed = *std::move(claimed)});
                });
}

void JobQueue::Visit(absl::FunctionRef<bool(const QueuedJob&)> visit) const {
  absl::MutexLock lock(&mu_);
  for (auto job = jobs_.begin(); job != jobs_.end() && visit(*job);) ++job;
}

bool JobQueue::Remove(const std::string& id) {
  absl::MutexLock lock(&mu_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  Erase(found->second);
  return true;
}

int JobQueue::Position(const std::string& id) const {
  absl::MutexLock lock(&mu_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? 0 : static_cast<int>(jobs_.order_of_key(*found->second)) + 1;
}

std::vector<QueuedJob> JobQueue::TakeExpired(absl::Time now) {
  absl::MutexLock lock(&mu_);
  std::vector<QueuedJob> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Jobs::iterator job = by_id_.at(deadlines_.begin()->second);
    expired.push_back(*job);
    Erase(job);
  }
  return expired;
}

absl::Time JobQueue::NextDeadline() const {
  absl::MutexLock lock(&mu_);
  return deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first;
}

int JobQueue::size() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(jobs_.size());
}

void JobQueue::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
}

void JobQueue::Insert(const QueuedJob& job) {
  const auto [at, inserted] = jobs_.insert(job);
  if (!inserted) return;  // requeued twice: keep one
  by_id_[job.id] = at;
  if (job.deadline != absl::InfiniteFuture()) deadlines_.emplace(job.deadline, job.id);
  if (on_change_ != nullptr) on_change_(job, 1);
}

void JobQueue::Erase(Jobs::iterator job) {
  if (on_change_ != nullptr) on_change_(*job, -1);
  by_id_.erase(job->id);
  deadlines_.erase({job->deadline, job->id});
  jobs_.erase(job);
}

}  // namespace kinora
