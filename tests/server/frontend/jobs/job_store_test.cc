#include "server/frontend/jobs/job_store.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/jobs/sqlite_catalogue_store.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::Duration kLease = absl::Seconds(30);

// Runs on a file and in memory.
class JobStoreTest : public testing::TestWithParam<bool> {
 protected:
  JobStoreTest() {
    auto opened = SqliteJobStore::Open(
        GetParam() ? directory_.File("jobs.db") : ":memory:", {.max_lost_groups = 2, .default_ttl = absl::Hours(1)},
        clock_, [this](const v1::VideoEvent& event) { heard_.push_back(event); });
    KINORA_CHECK(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    catalogue_ = std::make_unique<SqliteCatalogueStore>(store_->file());
  }

  absl::StatusOr<Created> Create(const v1::CreateVideoRequest& request) {
    v1::Generation effective = request.generation();
    effective.set_seed(7);
    return WaitFor<Created>([&](Done<Created> done) { store_->Create(request, effective, 2.5, std::move(done)); });
  }
  JobId CreateOne(const std::string& prompt = "a kite") {
    v1::CreateVideoRequest request;
    request.mutable_generation()->set_prompt(prompt);
    auto created = Create(request);
    KINORA_CHECK(created.ok()) << created.status();
    return created->video.id();
  }
  absl::StatusOr<Claimed> Claim(const JobId& id, const char* owner = "me") {
    return WaitFor<Claimed>([&](Done<Claimed> done) { store_->Claim(id, owner, kLease, std::move(done)); });
  }
  Attempt ClaimOne(const JobId& id) {
    auto claimed = Claim(id);
    KINORA_CHECK(claimed.ok()) << claimed.status();
    return claimed->attempt;
  }
  absl::StatusOr<v1::Video> Get(const JobId& id) {
    return WaitFor<v1::Video>([&](Done<v1::Video> done) { store_->Get(id, std::move(done)); });
  }
  absl::StatusOr<v1::Video> Cancel(const JobId& id) {
    return WaitFor<v1::Video>([&](Done<v1::Video> done) { store_->Cancel(id, std::move(done)); });
  }
  absl::StatusOr<v1::Video> Requeue(const Attempt& attempt, bool lost) {
    return WaitFor<v1::Video>([&](Done<v1::Video> done) {
      store_->Requeue(attempt, {.why = "signal 9", .lost_group = lost}, std::move(done));
    });
  }
  absl::StatusOr<std::optional<v1::ResumeMark>> PutPoint(const Attempt& attempt, const std::string& id, int step = 3) {
    v1::ResumePoint point;
    point.set_id(id);
    point.set_stage(v1::STAGE_DENOISE);
    point.set_part(1);
    point.set_step(step);
    point.set_total_steps(8);
    point.set_fraction(0.25);
    return WaitFor<std::optional<v1::ResumeMark>>(
        [&](auto done) { store_->PutResumePoint(attempt, point, std::move(done)); });
  }
  absl::Status Finish(const Attempt& attempt, const Outcome& outcome) {
    return WaitForStatus([&](Finished done) { store_->Finish(attempt, outcome, std::move(done)); });
  }
  absl::Status Append(const Attempt& attempt, const v1::VideoEvent& event) {
    return WaitForStatus([&](Finished done) { store_->Append(attempt, event, std::move(done)); });
  }
  absl::StatusOr<JobHistory> History(const JobId& id, int64_t after = 0) {
    return WaitFor<JobHistory>([&](Done<JobHistory> done) { store_->EventsAfter(id, after, std::move(done)); });
  }
  absl::StatusOr<JobPage> List(const ListOptions& options) {
    return WaitFor<JobPage>([&](Done<JobPage> done) { store_->List(options, std::move(done)); });
  }
  std::vector<JobId> Sweep() {
    auto hidden = WaitFor<std::vector<JobId>>(
        [&](Done<std::vector<JobId>> done) { store_->SweepExpired(clock_.Now(), std::move(done)); });
    KINORA_CHECK(hidden.ok()) << hidden.status();
    return *hidden;
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  std::vector<v1::VideoEvent> heard_;  // from the listener on the store's writer thread; read after a call has returned
  std::unique_ptr<SqliteJobStore> store_;
  std::unique_ptr<SqliteCatalogueStore> catalogue_;
};

TEST_P(JobStoreTest, TheLastSpeedsOfEachPlaceAreKeptOldestFirst) {
  const auto speeds = [&](const char* place) {
    return WaitFor<v1::SpeedHistory>([&](auto done) { catalogue_->Speeds(place, std::move(done)); });
  };
  const auto add = [&](const char* place, double seconds) {
    v1::RunSpeed run;
    run.add_stages()->set_seconds(seconds);
    ASSERT_THAT(WaitForStatus([&](auto done) { catalogue_->AddSpeed(place, run, std::move(done)); }), IsOk());
  };
  add("there", -1);
  for (int i = 0; i < CatalogueStore::kSpeedsKept + 5; ++i) add("here", i);
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::SpeedHistory here, speeds("here"));
  ASSERT_THAT(here.runs(), SizeIs(CatalogueStore::kSpeedsKept));
  for (int i = 0; i < here.runs_size(); ++i) EXPECT_EQ(here.runs(i).stages(0).seconds(), i + 5);
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::SpeedHistory there, speeds("there"));
  ASSERT_THAT(there.runs(), SizeIs(1));
  EXPECT_EQ(there.runs(0).stages(0).seconds(), -1);
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::SpeedHistory nowhere, speeds("nowhere"));
  EXPECT_THAT(nowhere.runs(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, JobStoreTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "File" : "Memory"; });

TEST_P(JobStoreTest, AJobGoesFromQueuedToCompletedAndEachStepIsAnEventInOrder) {
  v1::CreateVideoRequest request;
  request.set_model("m");
  request.mutable_generation()->set_prompt("a kite");
  (*request.mutable_labels())["team"] = "blue";
  KINORA_ASSERT_OK_AND_ASSIGN(const Created created, Create(request));
  EXPECT_FALSE(created.replayed);
  EXPECT_EQ(created.video.state(), v1::Video::QUEUED);
  EXPECT_EQ(created.video.effective().seed(), 7u);
  EXPECT_EQ(created.video.labels().at("team"), "blue");
  EXPECT_EQ(created.video.attempt(), 0);

  clock_.Advance(absl::Seconds(3));
  KINORA_ASSERT_OK_AND_ASSIGN(const Claimed claimed, Claim(created.video.id()));
  EXPECT_EQ(claimed.attempt.number, 1);
  EXPECT_EQ(claimed.video.state(), v1::Video::RUNNING);

  v1::VideoEvent stage;
  stage.mutable_stage()->set_stage("denoise");
  EXPECT_THAT(Append(claimed.attempt, stage), IsOk());
  v1::VideoEvent finalizing;
  finalizing.mutable_state()->set_state(v1::Video::FINALIZING);
  finalizing.mutable_state()->mutable_resolved()->set_precision("f32");
  EXPECT_THAT(Append(claimed.attempt, finalizing), IsOk());

  Outcome outcome;
  outcome.artifacts.emplace_back().set_id("video.mp4");
  outcome.usage.set_device_seconds(5);
  EXPECT_THAT(Finish(claimed.attempt, outcome), IsOk());

  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video video, Get(created.video.id()));
  EXPECT_EQ(video.state(), v1::Video::COMPLETED);
  EXPECT_EQ(video.resolved().precision(), "f32");
  EXPECT_EQ(video.usage().queue_seconds(), 3);
  EXPECT_EQ(video.usage().device_seconds(), 5);
  EXPECT_EQ(FromProto(video.expire_time()), clock_.Now() + absl::Hours(1));
  EXPECT_EQ(video.artifacts(0).expire_time().seconds(), video.expire_time().seconds());

  KINORA_ASSERT_OK_AND_ASSIGN(const JobHistory history, History(video.id()));
  std::vector<v1::VideoEvent::EventCase> kinds;
  for (const auto& event : history.events) {
    EXPECT_EQ(event.sequence(), static_cast<int64_t>(kinds.size()) + 1);
    kinds.push_back(event.event_case());
  }
  EXPECT_THAT(kinds, ElementsAre(v1::VideoEvent::kState, v1::VideoEvent::kState, v1::VideoEvent::kStage,
                                 v1::VideoEvent::kState, v1::VideoEvent::kTerminal));
  ASSERT_EQ(heard_.size(), history.events.size());
  for (size_t i = 0; i < heard_.size(); ++i)
    EXPECT_EQ(heard_[i].SerializeAsString(), history.events[i].SerializeAsString());
  KINORA_ASSERT_OK_AND_ASSIGN(const JobHistory rest, History(video.id(), 3));
  EXPECT_THAT(rest.events, SizeIs(2));
  EXPECT_EQ(rest.last_sequence, 5);
}

TEST_P(JobStoreTest, TheSameRequestIdGivesTheSameJobAndOtherContentIsRefused) {
  v1::CreateVideoRequest request;
  request.set_request_id("key-1");
  request.mutable_generation()->set_prompt("a kite");
  for (const char* label : {"a", "b", "c"}) (*request.mutable_labels())[label] = label;
  KINORA_ASSERT_OK_AND_ASSIGN(const Created first, Create(request));
  request.set_detach(true);  // not part of the content
  KINORA_ASSERT_OK_AND_ASSIGN(const Created again, Create(request));
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.video.id(), first.video.id());

  request.mutable_generation()->set_prompt("a red kite");
  const auto refused = Create(request);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("key-1")));
  EXPECT_EQ(ErrorReason(refused.status()), "REQUEST_ID_REUSED");
  KINORA_ASSERT_OK_AND_ASSIGN(const JobPage page, List({.page_size = 10}));
  EXPECT_THAT(page.videos, SizeIs(1));
}

TEST_P(JobStoreTest, OnlyTheCurrentAttemptMayWrite) {
  const JobId id = CreateOne();
  const Attempt first = ClaimOne(id);
  EXPECT_THAT(Claim(id), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Requeue(first, true), IsOk());
  const Attempt second = ClaimOne(id);
  EXPECT_EQ(second.number, 2);
  v1::VideoEvent stage;
  stage.mutable_stage()->set_stage("late");
  EXPECT_THAT(Append(first, stage), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Finish(first, {}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Requeue(first, true), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Finish({.id = id, .number = 2, .owner = "another"}, {}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Finish(second, {}), IsOk());
  EXPECT_THAT(Finish(second, {}), StatusIs(absl::StatusCode::kAborted));
}

TEST_P(JobStoreTest, AResumePointIsShownAndOutlivesItsAttemptUntilItIsReplaced) {
  const JobId id = CreateOne();
  const Attempt first = ClaimOne(id);
  const size_t events = heard_.size();
  KINORA_ASSERT_OK_AND_ASSIGN(std::optional<v1::ResumeMark> replaced, PutPoint(first, "a"));
  EXPECT_FALSE(replaced);
  EXPECT_EQ(heard_.size(), events) << "it is no event";
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video shown, Get(id));
  EXPECT_EQ(shown.resume_point().ShortDebugString(), "stage: \"denoise_1\" step: 3 total_steps: 8 fraction: 0.25");
  EXPECT_THAT(Requeue(first, /*lost=*/true), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const Claimed second, Claim(id));
  ASSERT_TRUE(second.resume);
  EXPECT_EQ(second.resume->attempt(), 1);
  EXPECT_EQ(second.resume->point().id(), "a");
  KINORA_ASSERT_OK_AND_ASSIGN(replaced, PutPoint(second.attempt, "b", 5));
  EXPECT_EQ(replaced->point().id(), "a");
  KINORA_ASSERT_OK_AND_ASSIGN(const JobPage page, List({.page_size = 1, .page_token = "", .states = {}}));
  EXPECT_EQ(page.videos.at(0).resume_point().step(), 5);
  EXPECT_EQ(v1::Video::GetReflection()->GetUnknownFields(page.videos.at(0)).field_count(), 0) << "shown to clients";
}

TEST_P(JobStoreTest, OnlyTheCurrentAttemptStoresAResumePoint) {
  const JobId id = CreateOne();
  const Attempt first = ClaimOne(id);
  const auto refused = StatusIs(absl::StatusCode::kAborted);
  EXPECT_THAT(PutPoint({.id = id, .number = 1, .owner = "another"}, "a"), refused);
  EXPECT_THAT(Requeue(first, true), IsOk());
  EXPECT_THAT(PutPoint(first, "a"), refused) << "it waits";
  const Attempt second = ClaimOne(id);
  EXPECT_THAT(PutPoint(first, "a"), refused);
  EXPECT_THAT(PutPoint(second, "a"), IsOk());
  EXPECT_THAT(Finish(second, {}), IsOk());
  EXPECT_THAT(PutPoint(second, "b"), refused) << "it has ended";
}

TEST_P(JobStoreTest, AResumePointIsDroppedWhenItIsToldToAndWhenTheJobEnds) {
  const JobId id = CreateOne();
  const Attempt first = ClaimOne(id);
  EXPECT_THAT(PutPoint(first, "a"), IsOk());
  const auto release = [&](const Attempt& attempt) {
    return WaitFor<v1::Video>([&](auto done) {
      store_->Requeue(attempt, {.why = "signal 9", .drop_earlier_point = true, .preempted = true}, std::move(done));
    });
  };
  KINORA_ASSERT_OK_AND_ASSIGN(v1::Video video, release(first));
  EXPECT_TRUE(video.has_resume_point()) << "its own";
  KINORA_ASSERT_OK_AND_ASSIGN(video, release(ClaimOne(id)));
  EXPECT_FALSE(video.has_resume_point());
  EXPECT_EQ(video.preemptions(), 2);
  KINORA_ASSERT_OK_AND_ASSIGN(const Claimed third, Claim(id));
  EXPECT_FALSE(third.resume);
  EXPECT_THAT(PutPoint(third.attempt, "c"), IsOk());
  EXPECT_THAT(PutPoint(third.attempt, ""), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(video, Get(id));
  EXPECT_FALSE(video.has_resume_point()) << "without an ID: at the beginning";
  EXPECT_THAT(PutPoint(third.attempt, "d"), IsOk());
  EXPECT_THAT(Requeue(third.attempt, false), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(video, Cancel(id));
  EXPECT_FALSE(video.has_resume_point());
  EXPECT_FALSE(heard_.back().terminal().has_resume_point());
}

TEST_P(JobStoreTest, LostGroupsCountAndTheSecondOneFailsTheJob) {
  const JobId id = CreateOne();
  KINORA_ASSERT_OK_AND_ASSIGN(v1::Video video, Requeue(ClaimOne(id), /*lost=*/true));
  EXPECT_EQ(video.state(), v1::Video::QUEUED);
  EXPECT_EQ(video.attempt(), 1);
  KINORA_ASSERT_OK_AND_ASSIGN(video, Requeue(ClaimOne(id), /*lost=*/false));  // a drain does not count
  EXPECT_EQ(video.state(), v1::Video::QUEUED);
  KINORA_ASSERT_OK_AND_ASSIGN(video, Requeue(ClaimOne(id), /*lost=*/true));
  EXPECT_EQ(video.state(), v1::Video::FAILED);
  const absl::Status error = FromRpcStatus(video.error());
  EXPECT_THAT(error, StatusIs(absl::StatusCode::kAborted, HasSubstr("signal 9")));
  EXPECT_EQ(ErrorReason(error), "WORKER_GROUP_LOST");
  EXPECT_EQ(heard_.back().event_case(), v1::VideoEvent::kTerminal);
}

TEST_P(JobStoreTest, CancelEndsAQueuedJobAndAsksTheOwnerOfARunningOne) {
  const JobId queued = CreateOne(), running = CreateOne();
  KINORA_ASSERT_OK_AND_ASSIGN(v1::Video video, Cancel(queued));
  EXPECT_EQ(video.state(), v1::Video::CANCELLED);
  EXPECT_THAT(Claim(queued), StatusIs(absl::StatusCode::kFailedPrecondition));
  KINORA_ASSERT_OK_AND_ASSIGN(video, Cancel(queued));  // again: unchanged
  EXPECT_EQ(video.state(), v1::Video::CANCELLED);

  const Attempt attempt = ClaimOne(running);
  KINORA_ASSERT_OK_AND_ASSIGN(video, Cancel(running));
  EXPECT_EQ(video.state(), v1::Video::RUNNING);
  KINORA_ASSERT_OK_AND_ASSIGN(
      const Lease lease, WaitFor<Lease>([&](Done<Lease> done) { store_->Renew(attempt, kLease, std::move(done)); }));
  EXPECT_TRUE(lease.cancel_requested);
  EXPECT_EQ(lease.expiry, clock_.Now() + kLease);
  KINORA_ASSERT_OK_AND_ASSIGN(video, Requeue(attempt, true));  // its group died; a cancelled job does not run again
  EXPECT_EQ(video.state(), v1::Video::CANCELLED);
}

TEST_P(JobStoreTest, AQueuedJobCanFailAndARunningOneCannotFromOutside) {
  const JobId id = CreateOne(), running = CreateOne();
  const auto error = ToRpcStatus(absl::DeadlineExceededError("deadline"));
  const auto fail = [&](const JobId& job) {
    return WaitFor<v1::Video>([&](Done<v1::Video> done) { store_->FailQueued(job, error, std::move(done)); });
  };
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Video video, fail(id));
  EXPECT_EQ(video.state(), v1::Video::FAILED);
  EXPECT_EQ(video.error().code(), 4);
  ClaimOne(running);
  EXPECT_THAT(fail(running), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_P(JobStoreTest, ListsPagesNewestFirstAndFiltersByState) {
  std::vector<JobId> ids(5);
  for (JobId& id : ids) id = CreateOne();
  ASSERT_THAT(Cancel(ids[1]), IsOk());
  std::vector<JobId> seen;
  std::string token;
  int pages = 0;
  do {
    KINORA_ASSERT_OK_AND_ASSIGN(const JobPage page, List({.page_size = 2, .page_token = token}));
    for (const auto& video : page.videos) seen.push_back(video.id());
    token = page.next_page_token;
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(pages, 3);
  EXPECT_THAT(seen, ElementsAre(ids[4], ids[3], ids[2], ids[1], ids[0]));
  KINORA_ASSERT_OK_AND_ASSIGN(const JobPage cancelled, List({.page_size = 5, .states = {v1::Video::CANCELLED}}));
  ASSERT_THAT(cancelled.videos, SizeIs(1));
  EXPECT_EQ(cancelled.videos[0].id(), ids[1]);
  EXPECT_EQ(cancelled.next_page_token, "");
  KINORA_ASSERT_OK_AND_ASSIGN(const JobPage waiting, List({.page_size = 3, .states = {v1::Video::QUEUED}}));
  ASSERT_THAT(waiting.videos, SizeIs(3));
  EXPECT_EQ(waiting.videos[2].id(), ids[2]);
  KINORA_ASSERT_OK_AND_ASSIGN(
      const JobPage older,
      List({.page_size = 3, .page_token = waiting.next_page_token, .states = {v1::Video::QUEUED, v1::Video::RUNNING}}));
  ASSERT_THAT(older.videos, SizeIs(1));
  EXPECT_EQ(older.videos[0].id(), ids[0]);
  for (const char* bad : {"x", "before-", "before--3", "before-1;DROP TABLE jobs"}) {
    EXPECT_THAT(List({.page_size = 2, .page_token = bad}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
  }
}

TEST_P(JobStoreTest, ListsThoseWhoseIdsBeginSo) {
  const JobId id = CreateOne();
  CreateOne();
  for (const size_t length : {12, 32}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const JobPage page, List({.page_size = 5, .id_prefix = id.substr(0, length)}));
    ASSERT_THAT(page.videos, SizeIs(1));
    EXPECT_EQ(page.videos[0].id(), id);
  }
  for (const std::string& none : {id + "0", std::string("%"), std::string("_"), std::string(1, '\0')}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const JobPage page, List({.page_size = 5, .id_prefix = none}));
    EXPECT_THAT(page.videos, SizeIs(0)) << none;
  }
}

TEST_P(JobStoreTest, ListsThoseThatHaveAllTheLabelsHoweverRareTheyAre) {
  v1::CreateVideoRequest request;
  (*request.mutable_labels())["team"] = "film";
  (*request.mutable_labels())["scene"] = "3";
  KINORA_ASSERT_OK_AND_ASSIGN(const Created wanted, Create(request));
  (*request.mutable_labels())["scene"] = "4";
  ASSERT_THAT(Create(request), IsOk());
  for (int i = 0; i < 1100; ++i) CreateOne();  // more than one page examines
  const auto all = [&](const std::map<std::string, std::string>& labels) {
    std::vector<JobId> seen;
    std::string token;
    do {
      const auto page = List({.page_size = 5, .page_token = token, .labels = labels});
      KINORA_CHECK(page.ok()) << page.status();
      for (const auto& video : page->videos) seen.push_back(video.id());
      token = page->next_page_token;
    } while (!token.empty());
    return seen;
  };
  EXPECT_THAT(all({{"team", "film"}, {"scene", "3"}}), ElementsAre(wanted.video.id()));
  EXPECT_THAT(all({{"team", "film"}}), SizeIs(2));
  EXPECT_THAT(all({{"team", "fil"}}), SizeIs(0));
  EXPECT_THAT(all({{"crew", "film"}}), SizeIs(0));
}

TEST_P(JobStoreTest, APageStaysBelowWhatAClientTakes) {
  for (int i = 0; i < 150; ++i) CreateOne(std::string(16 << 10, 'p'));
  KINORA_ASSERT_OK_AND_ASSIGN(const JobPage first, List({.page_size = 500}));
  size_t bytes = 0;
  for (const v1::Video& video : first.videos) bytes += video.ByteSizeLong();
  EXPECT_LT(bytes, size_t{3} << 20);
  KINORA_ASSERT_OK_AND_ASSIGN(const JobPage second, List({.page_size = 500, .page_token = first.next_page_token}));
  EXPECT_EQ(first.videos.size() + second.videos.size(), 150u);
}

TEST_P(JobStoreTest, DeleteHidesAtOnceAndPurgeForgets) {
  v1::CreateVideoRequest request;
  request.set_request_id("key");
  KINORA_ASSERT_OK_AND_ASSIGN(const Created created, Create(request));
  const JobId& id = created.video.id();
  const auto remove = [&] { return WaitForStatus([&](Finished done) { store_->Delete(id, std::move(done)); }); };
  EXPECT_THAT(remove(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cancel it first")));
  ASSERT_THAT(Cancel(id), IsOk());
  EXPECT_THAT(remove(), IsOk());
  EXPECT_THAT(Get(id), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(History(id), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(remove(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Sweep(), ElementsAre(id));  // its artifacts still have to be removed
  EXPECT_THAT(WaitForStatus([&](Finished done) { store_->Purge(id, std::move(done)); }), IsOk());
  EXPECT_THAT(Sweep(), IsEmpty());
  KINORA_ASSERT_OK_AND_ASSIGN(const Created anew, Create(request));  // the key was removed with the record
  EXPECT_FALSE(anew.replayed);
}

TEST_P(JobStoreTest, AnExpiredJobIsNotFoundWithTheReason) {
  const JobId id = CreateOne(), running = CreateOne();
  ASSERT_THAT(Cancel(id), IsOk());
  ClaimOne(running);
  EXPECT_THAT(Sweep(), IsEmpty());
  clock_.Advance(absl::Minutes(61));
  EXPECT_THAT(Sweep(), ElementsAre(id));
  EXPECT_EQ(ErrorReason(Get(id).status()), "EXPIRED");
  EXPECT_THAT(WaitForStatus([&](Finished done) { store_->Purge(id, std::move(done)); }), IsOk());
  EXPECT_THAT(Get(id), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(ErrorReason(Get(id).status()), "EXPIRED");
  EXPECT_EQ(ErrorReason(Get("never").status()), "");
  EXPECT_THAT(Get(running), IsOk());  // unfinished jobs never expire
}

TEST_P(JobStoreTest, TheTimeToLiveOfARequestWinsOverTheDefault) {
  v1::CreateVideoRequest request;
  request.mutable_output()->mutable_ttl()->set_seconds(60);
  KINORA_ASSERT_OK_AND_ASSIGN(const Created created, Create(request));
  ASSERT_THAT(Cancel(created.video.id()), IsOk());
  clock_.Advance(absl::Seconds(59));
  EXPECT_THAT(Sweep(), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Sweep(), ElementsAre(created.video.id()));
}

TEST_P(JobStoreTest, ManyCallsAtOnceAllFinishOnce) {
  constexpr int kJobs = 200;
  absl::Mutex mu;
  std::map<JobId, int> answers;
  for (int i = 0; i < kJobs; ++i) {
    store_->Create({}, {}, 0, [&](absl::StatusOr<Created> created) {
      absl::MutexLock lock(&mu);
      ++answers[created->video.id()];
    });
  }
  store_->Flush();
  absl::MutexLock lock(&mu);
  EXPECT_THAT(answers, SizeIs(kJobs));
}

TEST_P(JobStoreTest, ACallThatFailsLeavesItsNeighboursInTheCommitAlone) {
  const JobId id = CreateOne();
  absl::StatusOr<v1::Video> a, b, c;
  store_->Cancel("nobody", [&](absl::StatusOr<v1::Video> video) { a = std::move(video); });
  store_->Cancel(id, [&](absl::StatusOr<v1::Video> video) { b = std::move(video); });
  store_->Cancel("nobody either", [&](absl::StatusOr<v1::Video> video) { c = std::move(video); });
  store_->Flush();
  EXPECT_THAT(a, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(b, IsOk());
  EXPECT_THAT(c, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Get(id)->state(), v1::Video::CANCELLED);
}

TEST_P(JobStoreTest, KeepsModels) {
  v1::ModelInfo model;
  model.set_id("tiny");
  model.set_kind("dev");
  for (const char* kind : {"dev", "distilled"}) {
    model.set_kind(kind);
    ASSERT_THAT(WaitForStatus([&](Finished done) { catalogue_->PutModel(model, std::move(done)); }), IsOk());
  }
  KINORA_ASSERT_OK_AND_ASSIGN(
      const auto models, WaitFor<std::vector<v1::ModelInfo>>([&](auto done) { catalogue_->Models(std::move(done)); }));
  ASSERT_THAT(models, SizeIs(1));
  EXPECT_EQ(models[0].kind(), "distilled");
}

}  // namespace
}  // namespace kinora
