// Stores written by older versions (data/jobs.vN.db, see sample_jobs.h), opened by this one. Every job exists and
// continues, whatever interrupts the migration. A store that cannot be opened stays unchanged.
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/inputs/sqlite_input_records.h"
#include "server/frontend/jobs/job_rows.h"
#include "server/frontend/jobs/job_schema.h"
#include "server/frontend/jobs/sqlite_catalogue_store.h"
#include "server/frontend/jobs/sqlite_frontend_records.h"
#include "tests/server/frontend/jobs/sample_jobs.h"
#include "tests/testing/full_disk.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::string Committed(int64_t version) {
  return ReadFile(absl::StrCat(KINORA_SOURCE_DIR, "/tests/server/frontend/data/jobs.v", version, ".db"));
}

absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(const std::string& path, Clock& clock) {
  return SqliteJobStore::Open(path, {}, clock, [](const v1::VideoEvent&) {});
}

// Runs SQL as another program could.
absl::Status Sql(const std::string& path, const std::string& sql) {
  sqlite3* handle = nullptr;
  int code = sqlite3_open(path.c_str(), &handle);
  if (code == SQLITE_OK) code = sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr);
  absl::Status status = code == SQLITE_OK ? absl::OkStatus() : absl::InternalError(sqlite3_errmsg(handle));
  sqlite3_close(handle);
  return status;
}

int64_t VersionOf(const std::string& path) {
  auto database = Database::Open(path);
  KINORA_CHECK(database.ok()) << database.status();
  auto version = (*database)->Prepare("PRAGMA user_version");
  KINORA_CHECK(version.ok() && version->Row().ok()) << version.status();
  return version->Int(0);
}

std::map<std::string, v1::Video> VideosByRequest(JobStore& store) {
  auto page = WaitFor<JobPage>(
      [&](auto done) { store.List({.page_size = 100, .page_token = {}, .states = {}}, std::move(done)); });
  KINORA_CHECK(page.ok()) << page.status();
  std::map<std::string, v1::Video> videos;
  for (v1::Video& video : page->videos) videos[video.request_id()] = std::move(video);
  return videos;
}

std::map<std::string, UnfinishedJob> UnfinishedByRequest(JobStore& store) {
  auto jobs = WaitFor<std::vector<UnfinishedJob>>([&](auto done) { store.Unfinished(std::move(done)); });
  KINORA_CHECK(jobs.ok()) << jobs.status();
  std::map<std::string, UnfinishedJob> by_request;
  for (UnfinishedJob& job : *jobs) by_request[job.video.request_id()] = std::move(job);
  return by_request;
}

void ExpectEverythingIsThere(SqliteJobStore& store) {
  SqliteCatalogueStore catalogue(store.file());
  const auto videos = VideosByRequest(store);
  EXPECT_EQ(videos.size(), VisibleSampleJobs().size());
  for (const SampleJob& job : VisibleSampleJobs()) {
    SCOPED_TRACE(job.request_id);
    ASSERT_TRUE(videos.contains(job.request_id));
    const v1::Video& video = videos.at(job.request_id);
    EXPECT_EQ(video.state(), job.state);
    EXPECT_EQ(video.attempt(), job.attempt);
    EXPECT_EQ(video.effective().prompt(), job.request_id);
    EXPECT_EQ(video.labels().at("sample"), job.request_id);
    KINORA_ASSERT_OK_AND_ASSIGN(const JobHistory history, WaitFor<JobHistory>([&](auto done) {
                                  store.EventsAfter(video.id(), 0, std::move(done));
                                }));
    EXPECT_THAT(history.events, SizeIs(job.events));
    EXPECT_EQ(history.last_sequence, job.events);
  }
  EXPECT_EQ(videos.at("completed").artifacts(0).bytes(), 123456);
  EXPECT_EQ(videos.at("completed").resolved().precision(), "bf16");
  EXPECT_EQ(ErrorReason(FromRpcStatus(videos.at("failed").error())), "DISK_FULL");
  KINORA_ASSERT_OK_AND_ASSIGN(
      const auto models, WaitFor<std::vector<v1::ModelInfo>>([&](auto done) { catalogue.Models(std::move(done)); }));
  ASSERT_THAT(models, SizeIs(2));
  EXPECT_EQ(models[1].digests().at("transformer"), "0123456789abcdef");
}

void ExpectSpeeds(SqliteJobStore& store, int runs) {
  SqliteCatalogueStore catalogue(store.file());
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::SpeedHistory history, WaitFor<v1::SpeedHistory>([&](auto done) {
                                catalogue.Speeds(kSamplePlace, std::move(done));
                              }));
  ASSERT_THAT(history.runs(), SizeIs(runs));
  for (int i = 0; i < runs; ++i) EXPECT_EQ(history.runs(i).stages(0).seconds(), 1.5 + i);
}

void ExpectInputs(SqliteJobStore& store, size_t count) {
  SqliteInputRecords records(store.file());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto inputs,
                              WaitFor<std::vector<InputRecord>>([&](auto done) { records.Inputs(std::move(done)); }));
  ASSERT_THAT(inputs, SizeIs(count));
  if (count == 0) return;
  EXPECT_EQ(inputs[0].sha256, std::string(64, 'a'));
  EXPECT_EQ(inputs[0].bytes, 123);
  EXPECT_EQ(inputs[0].media_type, "image/png");
  EXPECT_EQ(inputs[0].expiry, kSampleStart + absl::Hours(24));
}

// The frontend that held the client of the tied job is gone.
void ExpectTies(SqliteJobStore& store, Clock& clock) {
  SqliteFrontendRecords frontends(store.file(), clock);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto lost, WaitFor<std::vector<JobId>>([&](auto done) {
                                frontends.TakeLostClients("of the test", std::move(done));
                              }));
  EXPECT_THAT(lost, testing::ElementsAre(UnfinishedByRequest(store).at("queued, tied").video.id()));
}

void ExpectUnfinishedAreAsTheyWere(JobStore& store) {
  const auto jobs = UnfinishedByRequest(store);
  EXPECT_THAT(jobs, SizeIs(6));
  for (const auto& [name, job] : jobs) {
    const bool runs = job.video.state() != v1::Video::QUEUED;
    EXPECT_EQ(job.attempt.number, runs ? 1 : 0) << name;
    EXPECT_EQ(job.attempt.owner, runs ? kSampleOwner : "") << name;
    EXPECT_EQ(job.lease_expiry > kSampleStart, runs || name == "queued again") << name;
    EXPECT_EQ(job.detach, name != "queued, tied");
    EXPECT_EQ(job.scheduling.priority(), 3);
    EXPECT_TRUE(job.scheduling.has_deadline());
  }
}

// Makes the calls of a frontend after its start, and checks that request ids and purged jobs are still known.
void ExpectEverythingGoesOn(JobStore& store, FakeClock& clock) {
  auto jobs = UnfinishedByRequest(store);
  for (const char* name : {"running", "running, to be cancelled", "finalizing"}) {
    const auto requeued = WaitFor<v1::Video>(
        [&](auto done) { store.Requeue(jobs.at(name).attempt, {.why = "restarted"}, std::move(done)); });
    ASSERT_THAT(requeued, IsOk()) << name;
    EXPECT_EQ(requeued->state() == v1::Video::CANCELLED, std::string(name) == "running, to be cancelled");
  }
  for (const auto& [name, unfinished] : UnfinishedByRequest(store)) {
    SCOPED_TRACE(name);
    const UnfinishedJob& job = unfinished;
    KINORA_ASSERT_OK_AND_ASSIGN(const Claimed claimed, WaitFor<Claimed>([&](auto done) {
                                  store.Claim(job.video.id(), "embedded", kSampleLease, std::move(done));
                                }));
    EXPECT_EQ(claimed.attempt.number, job.video.attempt() + 1);
    EXPECT_FALSE(claimed.resume);
    v1::ResumePoint point;
    point.set_id("a point");
    point.set_stage(v1::STAGE_DENOISE);
    EXPECT_THAT(WaitFor<std::optional<v1::ResumeMark>>(
                    [&](auto done) { store.PutResumePoint(claimed.attempt, point, std::move(done)); }),
                IsOk());
    EXPECT_THAT(WaitForStatus([&](auto done) { store.Finish(claimed.attempt, {}, std::move(done)); }), IsOk());
  }
  v1::CreateVideoRequest again;
  again.set_request_id("completed");
  EXPECT_THAT(WaitFor<Created>([&](auto done) { store.Create(again, {}, 0, std::move(done)); }),
              StatusIs(absl::StatusCode::kAlreadyExists));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto hidden, WaitFor<std::vector<JobId>>([&](auto done) {
                                store.SweepExpired(clock.Now(), std::move(done));
                              }));
  EXPECT_THAT(hidden, SizeIs(kHiddenSampleJobs));
}

std::string PurgedId(const std::string& path) {
  auto database = Database::Open(path);
  KINORA_CHECK(database.ok()) << database.status();
  auto id = (*database)->Prepare("SELECT id FROM expired");
  KINORA_CHECK(id.ok() && id->Row().value()) << "the sample has no purged job";
  return id->Bytes(0);
}

class JobStoreVersions : public testing::TestWithParam<int64_t> {
 protected:
  JobStoreVersions() { WriteFile(path_, Committed(version_)); }

  bool older() const { return version_ < kSchemaVersion; }
  std::string Copy() const { return absl::StrCat(path_, ".v", version_); }
  void ExpectWhole() {
    KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(path_, clock_));
    ExpectEverythingIsThere(*store);
    ExpectUnfinishedAreAsTheyWere(*store);
    ExpectSpeeds(*store, version_ < 2 ? 0 : 2);
    ExpectInputs(*store, version_ < 3 ? 0 : 1);
    ExpectTies(*store, clock_);
    ExpectEverythingGoesOn(*store, clock_);
  }

  const int64_t version_ = GetParam();
  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("jobs.db");
  FakeClock clock_{kSampleStart + absl::Hours(1)};
};

using OlderJobStore = JobStoreVersions;  // of which a copy is made

INSTANTIATE_TEST_SUITE_P(All, JobStoreVersions, testing::Range(int64_t{1}, kSchemaVersion + 1),
                         [](const auto& info) { return absl::StrCat("Version", info.param); });
INSTANTIATE_TEST_SUITE_P(All, OlderJobStore, testing::Range(int64_t{1}, kSchemaVersion),
                         [](const auto& info) { return absl::StrCat("Version", info.param); });

TEST_P(JobStoreVersions, EveryJobIsThereAndGoesOn) {
  ASSERT_EQ(VersionOf(path_), version_);  // otherwise the test proves nothing
  const std::string purged = PurgedId(path_);
  ExpectWhole();
  EXPECT_EQ(VersionOf(path_), kSchemaVersion);
  EXPECT_EQ(fs::exists(Copy()), older());
  KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(path_, clock_));
  const auto gone = WaitFor<v1::Video>([&](auto done) { store->Get(purged, std::move(done)); });
  EXPECT_EQ(ErrorReason(gone.status()), "EXPIRED");
}

TEST_P(JobStoreVersions, WhatAKilledProcessLeftInItsLogIsThereToo) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "PRAGMA journal_mode = WAL; INSERT INTO expired VALUES ('in the log', 1)", nullptr,
                         nullptr, nullptr),
            SQLITE_OK);
  TemporaryDirectory killed;
  for (const char* suffix : {"", "-wal"}) fs::copy(path_ + suffix, killed.File(std::string("jobs.db") + suffix));
  sqlite3_close(handle);
  ASSERT_GT(fs::file_size(killed.File("jobs.db-wal")), 0u);
  for (const std::string& name : {killed.File("jobs.db"), absl::StrCat(killed.File("jobs.db.v"), version_)}) {
    if (!older() && name != killed.File("jobs.db")) continue;  // no copy is made then
    KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(name, clock_));
    const auto gone = WaitFor<v1::Video>([&](auto done) { store->Get("in the log", std::move(done)); });
    EXPECT_EQ(ErrorReason(gone.status()), "EXPIRED") << name;
  }
}

TEST_P(OlderJobStore, TheCopyIsAStoreOfTheVersionBefore) {
  { ASSERT_THAT(Open(path_, clock_), IsOk()); }
  EXPECT_EQ(VersionOf(Copy()), version_);
  EXPECT_EQ(fs::status(Copy()).permissions() & fs::perms::others_all, fs::perms::none);
  EXPECT_FALSE(fs::exists(Copy() + ".part"));
  fs::rename(Copy(), path_);  // restoring the copy undoes the migration
  ExpectWhole();
}

// So that an earlier version of this schema can take the file back.
TEST(JobRow, IsAVideoToAnyReader) {
  v1::Video video, read;
  video.set_id("a job");
  v1::ResumeMark mark;
  mark.mutable_point()->set_id("a point");
  const std::string row = VideoColumn(video, mark);
  ASSERT_TRUE(read.ParseFromString(row));
  EXPECT_EQ(read.id(), "a job");
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoRow later, ReadVideo("a job", read.SerializeAsString(), /*sound=*/true));
  EXPECT_EQ(later.resume->point().id(), "a point") << "the earlier version has kept it";
  EXPECT_EQ(later.video.SerializeAsString(), video.SerializeAsString());
}

TEST_P(JobStoreVersions, ASecondStartChangesNothing) {
  { ASSERT_THAT(Open(path_, clock_), IsOk()); }
  const std::string after = ReadFile(path_), copy = older() ? ReadFile(Copy()) : "";
  { ASSERT_THAT(Open(path_, clock_), IsOk()); }
  EXPECT_EQ(ReadFile(path_), after);
  EXPECT_EQ(older() ? ReadFile(Copy()) : "", copy);
  ExpectWhole();
}

TEST_P(OlderJobStore, OfTwoStartsAtOnceNoneDoesHarm) {
  pid_t children[2];
  for (pid_t& child : children) {
    child = fork();
    if (child != 0) continue;
    const absl::Status status = Open(path_, clock_).status();
    _exit(status.ok() || absl::IsUnavailable(status) ? 0 : 1);  // a frontend also holds the folder's lock
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  ExpectWhole();
}

// The hook runs in a child, between the copy and the commit of the migration, on each connection that SQLite opens
// there.
std::string copy_to_wait_for;
int DieAtTheCommit(void*) {
  if (fs::exists(copy_to_wait_for)) kill(getpid(), SIGKILL);
  return 0;
}
int SetHook(sqlite3* handle, const char**, const sqlite3_api_routines*) {
  sqlite3_commit_hook(handle, DieAtTheCommit, nullptr);
  return SQLITE_OK;
}

TEST_P(OlderJobStore, AProcessKilledBetweenCopyAndCommitLeavesTheOldStore) {
  copy_to_wait_for = Copy();
  const pid_t child = fork();
  if (child == 0) {
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(SetHook));
    (void)Open(path_, clock_);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it was not killed";
  ASSERT_EQ(VersionOf(path_), version_);
  ASSERT_TRUE(fs::exists(Copy()));
  WriteFile(Copy() + ".part", "of a start that was killed while it copied");
  ExpectWhole();
  EXPECT_FALSE(fs::exists(Copy() + ".part"));
}

TEST_P(OlderJobStore, AStepThatFailsLeavesTheOldStore) {
  ASSERT_THAT(Sql(path_, "CREATE TABLE frontends (x)"), IsOk());
  const std::string before = ReadFile(path_);
  EXPECT_THAT(Open(path_, clock_), StatusIs(absl::StatusCode::kInternal, HasSubstr("frontends already exists")));
  EXPECT_EQ(ReadFile(path_), before);
  EXPECT_EQ(VersionOf(path_), version_);
}

TEST_P(JobStoreVersions, ADamagedFileIsRefusedBeforeItIsCopied) {
  std::string bytes = ReadFile(path_);
  bytes.replace(8192, 4096, 4096, '\0');
  WriteFile(path_, bytes);
  EXPECT_THAT(Open(path_, clock_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("jobs.db")));
  EXPECT_EQ(ReadFile(path_), bytes);
  EXPECT_FALSE(fs::exists(Copy()));
}

// Opens the store on a full disk and copies its files to `after`. Returns an error message, or "".
std::string StartOnFullDisk(const TemporaryDirectory& disk, const std::string& bytes, int64_t version, Clock& clock,
                            const TemporaryDirectory& after) {
  const std::string path = disk.File("jobs.db"), copy = absl::StrCat(path, ".v", version);
  WriteFile(path, bytes);
  const absl::Status status = Open(path, clock).status();
  if (fs::exists(copy + ".part")) return "half a copy is left";
  for (const auto& entry : fs::directory_iterator(disk.path())) {
    fs::copy(entry.path(), after.File(entry.path().filename()));
  }
  WriteFile(after.File("outcome"), status.ok() ? "done" : std::string(status.message()));
  const bool refused_well = absl::IsResourceExhausted(status) && ErrorReason(status) == "DISK_FULL";
  return status.ok() || refused_well ? "" : status.ToString();
}

TEST_P(OlderJobStore, AFullDiskLosesNothingAndSaysWhatIsNeeded) {
  const std::string bytes = ReadFile(path_);
  int untouched = 0, done = 0;
  // From no free space to enough, including disks that fill up during the copy or during the migration.
  for (int64_t room = 0; room <= 256 << 10; room += 16 << 10) {
    SCOPED_TRACE(room);
    TemporaryDirectory disk, after;
    const auto result = OnSmallDisk(disk.path(), static_cast<int64_t>(bytes.size()) + room,
                                    [&] { return StartOnFullDisk(disk, bytes, version_, clock_, after); });
    if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
    ASSERT_EQ(result, SmallDiskResult::kPassed);
    const std::string outcome = ReadFile(after.File("outcome"));
    if (outcome == "done") ++done;
    if (outcome.find(absl::StrCat("keeps schema ", version_)) != std::string::npos) {
      ++untouched;
      EXPECT_EQ(ReadFile(after.File("jobs.db")), bytes);
    }
    fs::remove(after.File("jobs.db-shm"));  // left by a process that has ended
    KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(after.File("jobs.db"), clock_));
    ExpectEverythingIsThere(*store);
    ExpectEverythingGoesOn(*store, clock_);
  }
  EXPECT_GE(untouched, 2);
  EXPECT_GE(done, 2);
}

TEST(JobStoreNewerVersion, IsRefusedUntouchedAndTheWayBackIsSaid) {
  TemporaryDirectory directory;
  FakeClock clock(kSampleStart);
  const std::string path = directory.File("jobs.db");
  WriteFile(path, Committed(kSchemaVersion));
  ASSERT_THAT(Sql(path, "PRAGMA user_version = 99; CREATE TABLE of_version_99 (x)"), IsOk());
  const std::string bytes = ReadFile(path);
  EXPECT_THAT(Open(path, clock),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("jobs.db"), HasSubstr("schema 99"), HasSubstr(absl::StrCat(kSchemaVersion)),
                             HasSubstr("start the newer version again"), Not(HasSubstr("copy")))));
  WriteFile(absl::StrCat(path, ".v", kSchemaVersion), "a copy");
  EXPECT_THAT(Open(path, clock), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr(absl::StrCat("replace it with jobs.db.v", kSchemaVersion))));
  EXPECT_EQ(ReadFile(path), bytes);
}

TEST(JobStoreNewStore, HasTheTablesOfAMigratedOne) {
  TemporaryDirectory directory;
  FakeClock clock(kSampleStart);
  WriteFile(directory.File("old.db"), Committed(1));
  std::vector<std::string> schemas;
  for (const char* name : {"old.db", "new.db"}) {
    { ASSERT_THAT(Open(directory.File(name), clock), IsOk()); }
    KINORA_ASSERT_OK_AND_ASSIGN(auto database, Database::Open(directory.File(name)));
    KINORA_ASSERT_OK_AND_ASSIGN(auto sql, database->Prepare("SELECT group_concat(sql, ';') FROM "
                                                            "(SELECT sql FROM sqlite_schema ORDER BY name)"));
    ASSERT_TRUE(sql.Row().value());
    schemas.push_back(sql.Bytes(0));
  }
  EXPECT_EQ(schemas[0], schemas[1]);
  EXPECT_THAT(schemas[0], HasSubstr("CREATE TABLE speeds"));
  EXPECT_FALSE(fs::exists(directory.File("new.db.v0")));
}

}  // namespace
}  // namespace kinora
