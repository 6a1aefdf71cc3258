// Flipped bits in jobs.db: reading returns what was stored, or an error, but never other data.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/frontend/inputs/sqlite_input_records.h"
#include "server/frontend/jobs/sqlite_catalogue_store.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/server/frontend/jobs/sample_jobs.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DamagedRecords : public testing::Test {
 protected:
  DamagedRecords() {
    {
      auto store = Open();
      KINORA_CHECK(store.ok()) << store.status();
      MakeSampleJobs(**store, clock_);
      sound_ = All(**store);
      const auto page = WaitFor<JobPage>(
          [&](auto done) { (*store)->List({.page_size = 100, .page_token = {}, .states = {}}, std::move(done)); });
      for (const v1::Video& video : page->videos) ids_.push_back(video.id());
    }
    bytes_ = ReadFile(path_);
  }

  absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open() {
    return SqliteJobStore::Open(path_, {}, clock_, [](const v1::VideoEvent&) {});
  }

  // Returns everything that a frontend reads from a store, as strings. Omits damaged records.
  std::set<std::string> All(SqliteJobStore& store) {
    SqliteCatalogueStore catalogue(store.file());
    SqliteInputRecords records(store.file());
    std::set<std::string> all;
    const auto page = WaitFor<JobPage>(
        [&](auto done) { store.List({.page_size = 100, .page_token = {}, .states = {}}, std::move(done)); });
    if (page.ok()) {
      for (const v1::Video& video : page->videos) AddJob(store, video, all);
    }
    const auto jobs = WaitFor<std::vector<UnfinishedJob>>([&](auto done) { store.Unfinished(std::move(done)); });
    for (const UnfinishedJob& job : jobs.ok() ? *jobs : std::vector<UnfinishedJob>()) {
      all.insert(absl::StrCat("unfinished ", job.video.SerializeAsString(), job.scheduling.SerializeAsString(),
                              job.attempt.number, job.attempt.owner, absl::FormatTime(job.lease_expiry), job.detach));
    }
    const auto models = WaitFor<std::vector<v1::ModelInfo>>([&](auto done) { catalogue.Models(std::move(done)); });
    for (const v1::ModelInfo& model : models.ok() ? *models : std::vector<v1::ModelInfo>()) {
      all.insert("model " + model.SerializeAsString());
    }
    const auto inputs = WaitFor<std::vector<InputRecord>>([&](auto done) { records.Inputs(std::move(done)); });
    for (const InputRecord& input : inputs.ok() ? *inputs : std::vector<InputRecord>()) {
      all.insert(absl::StrCat("input ", input.sha256, input.bytes, input.media_type, absl::FormatTime(input.expiry)));
    }
    const auto speeds = WaitFor<v1::SpeedHistory>([&](auto done) { catalogue.Speeds(kSamplePlace, std::move(done)); });
    if (speeds.ok()) {
      for (const v1::RunSpeed& run : speeds->runs()) all.insert("speed " + run.SerializeAsString());
    }
    // Jobs that a sweep would remove together with their artifacts.
    const auto hidden =
        WaitFor<std::vector<JobId>>([&](auto done) { store.SweepExpired(absl::FromUnixSeconds(0), std::move(done)); });
    for (const JobId& id : hidden.ok() ? *hidden : std::vector<JobId>()) all.insert("hidden " + id);
    return all;
  }

  static void AddJob(JobStore& store, const v1::Video& listed, std::set<std::string>& all) {
    const auto video = WaitFor<v1::Video>([&](auto done) { store.Get(listed.id(), std::move(done)); });
    if (video.ok()) all.insert("job " + video->SerializeAsString());
    if (video.ok() || listed.error().code() != static_cast<int>(absl::StatusCode::kDataLoss)) {
      all.insert("job " + listed.SerializeAsString());
    }
    const auto history = WaitFor<JobHistory>([&](auto done) { store.EventsAfter(listed.id(), 0, std::move(done)); });
    if (!history.ok()) return;
    std::string events;
    for (const v1::VideoEvent& event : history->events) events += event.SerializeAsString();
    all.insert(absl::StrCat("events ", listed.id(), " ", events));
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("jobs.db");
  FakeClock clock_{kSampleStart};
  std::set<std::string> sound_;
  std::vector<JobId> ids_;
  std::string bytes_;
};

TEST_F(DamagedRecords, AFlippedBitIsNeverAnotherRecord) {
  constexpr size_t kStep = 149;  // 27 places per page, and other places on the next page
  int refused = 0, fewer = 0;
  std::string log;
  for (size_t at = 0; at < bytes_.size(); at += kStep) {
    std::string damaged = bytes_;
    damaged[at] ^= static_cast<char>(1 << at / kStep % 8);
    for (const char* suffix : {"-wal", "-shm", ".commits"}) fs::remove(path_ + suffix);
    WriteFile(path_, damaged);
    testing::internal::CaptureStderr();
    const auto store = Open();
    log += testing::internal::GetCapturedStderr();
    if (!store.ok()) {
      ++refused;
      continue;
    }
    const std::set<std::string> read = All(**store);
    fewer += read.size() < sound_.size() ? 1 : 0;
    for (const std::string& record : read) ASSERT_TRUE(sound_.contains(record)) << "byte " << at << ": " << record;
    int lost = 0, strange = 0;  // ids not found; ids listed that did not exist (a flipped bit in an id causes both)
    for (const JobId& id : ids_) {
      const auto video = WaitFor<v1::Video>([&](auto done) { (*store)->Get(id, std::move(done)); });
      lost += absl::IsNotFound(video.status()) ? 1 : 0;
    }
    const auto page = WaitFor<JobPage>(
        [&](auto done) { (*store)->List({.page_size = 100, .page_token = {}, .states = {}}, std::move(done)); });
    ASSERT_THAT(page, IsOk());
    for (const v1::Video& video : page->videos) {
      strange += std::find(ids_.begin(), ids_.end(), video.id()) == ids_.end() ? 1 : 0;
    }
    ASSERT_LE(lost, strange) << "byte " << at;
  }
  EXPECT_GT(fewer, 10) << "or this shows nothing";
  EXPECT_LT(refused, static_cast<int>(bytes_.size() / kStep) / 3) << "one record must not take all others with it";
  EXPECT_THAT(log, HasSubstr("event=job_damaged"));
}

}  // namespace
}  // namespace kinora
