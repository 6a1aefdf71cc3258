// The stores of one frontend in a PostgreSQL database, for tests.
#ifndef KINORA_TESTS_SERVER_FRONTEND_POSTGRES_STORE_CLIENT_H_
#define KINORA_TESTS_SERVER_FRONTEND_POSTGRES_STORE_CLIENT_H_

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "server/frontend/postgres/postgres_stores.h"
#include "tests/testing/postgres_server.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/wait_for.h"

namespace kinora {

inline constexpr absl::Duration kLease = absl::Seconds(30);

inline v1::CreateVideoRequest RequestNamed(const std::string& request_id) {
  v1::CreateVideoRequest request;
  request.set_model("m");
  request.set_request_id(request_id);
  request.set_detach(true);
  request.mutable_generation()->set_prompt("a red kite");
  return request;
}

inline v1::VideoEvent StageEvent(const std::string& stage) {
  v1::VideoEvent event;
  event.mutable_stage()->set_stage(stage);
  return event;
}

// One frontend's stores, with calls that block.
class StoreClient {
 public:
  StoreClient(const std::string& url, const FrontendId& id, PostgresOptions options = {}) : id_(id) {
    options.driver = &PostgresServer::Driver();
    options.url = url;
    options.rules.frontend = id;
    options.listener = [this](const v1::VideoEvent& event) {
      absl::MutexLock lock(&mu_);
      heard_[event.video_id()].push_back(event.sequence());
    };
    auto opened = PostgresStores::Open(options);
    KINORA_CHECK(opened.ok()) << opened.status();
    stores_ = *std::move(opened);
  }

  PostgresStores& stores() { return *stores_; }
  JobStore& jobs() { return stores_->jobs(); }
  // The sequences of the events of a job in the order in which they were heard.
  std::vector<int64_t> Heard(const JobId& id) {
    absl::MutexLock lock(&mu_);
    return heard_[id];
  }

  absl::StatusOr<Created> Create(const v1::CreateVideoRequest& request) {
    return WaitFor<Created>([&](auto done) { jobs().Create(request, request.generation(), 1, std::move(done)); });
  }
  absl::StatusOr<Claimed> Claim(const JobId& id) {
    return WaitFor<Claimed>([&](auto done) { jobs().Claim(id, id_, kLease, std::move(done)); });
  }
  absl::Status Append(const Attempt& attempt, const std::string& stage) {
    return WaitForStatus([&](auto done) { jobs().Append(attempt, StageEvent(stage), std::move(done)); });
  }
  absl::StatusOr<std::optional<v1::ResumeMark>> PutResumePoint(const Attempt& attempt, int step) {
    v1::ResumePoint point;
    point.set_id(absl::StrCat("point", step));
    point.set_step(step);
    return WaitFor<std::optional<v1::ResumeMark>>(
        [&](auto done) { jobs().PutResumePoint(attempt, point, std::move(done)); });
  }
  absl::StatusOr<v1::Video> Requeue(const Attempt& attempt, const Release& release) {
    return WaitFor<v1::Video>([&](auto done) { jobs().Requeue(attempt, release, std::move(done)); });
  }
  absl::Status Finish(const Attempt& attempt) {
    return WaitForStatus([&](auto done) { jobs().Finish(attempt, Outcome(), std::move(done)); });
  }
  absl::StatusOr<v1::Video> Get(const JobId& id) {
    return WaitFor<v1::Video>([&](auto done) { jobs().Get(id, std::move(done)); });
  }
  absl::StatusOr<JobHistory> History(const JobId& id) {
    return WaitFor<JobHistory>([&](auto done) { jobs().EventsAfter(id, 0, std::move(done)); });
  }
  std::vector<UnfinishedJob> LostRuns() {
    auto jobs_found = WaitFor<std::vector<UnfinishedJob>>([&](auto done) { jobs().LostRuns(id_, std::move(done)); });
    EXPECT_THAT(jobs_found, IsOk());
    return jobs_found.ok() ? *std::move(jobs_found) : std::vector<UnfinishedJob>();
  }
  void AwaitLostRun() {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (LostRuns().empty() && absl::Now() < end) std::this_thread::yield();
    EXPECT_THAT(LostRuns(), testing::SizeIs(1));
  }

 private:
  const FrontendId id_;
  absl::Mutex mu_;
  std::map<JobId, std::vector<int64_t>> heard_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<PostgresStores> stores_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_FRONTEND_POSTGRES_STORE_CLIENT_H_
