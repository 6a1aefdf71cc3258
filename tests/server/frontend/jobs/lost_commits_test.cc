// Starting a store whose log was damaged, truncated or removed while no process ran. Acknowledged jobs never disappear
// silently, and the state after a power failure still starts.
#include "server/frontend/jobs/lost_commits.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "server/frontend/jobs/wal_frames.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace {
std::atomic<bool> sync_fails = false;
}

// Also replaces the function for SQLite, because the linker finds it before the C library's.
extern "C" int fdatasync(int fd) {
  if (!sync_fails) return static_cast<int>(syscall(SYS_fdatasync, fd));
  errno = EIO;
  return -1;
}

namespace kinora {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kJobs = 17;
constexpr size_t kLogHeader = 32, kFrame = 24 + 4096;
const char* const kFiles[] = {"jobs.db", "jobs.db-wal", "jobs.db.commits"};

absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(const std::string& path, int64_t accept_lost_commits = 0) {
  return SqliteJobStore::Open(path, {}, Clock::Real(), [](const v1::VideoEvent&) {},
                              {.accept_lost_commits = accept_lost_commits});
}

absl::StatusOr<JobId> Create(JobStore& store) {
  auto created = WaitFor<Created>([&](Done<Created> done) { store.Create({}, {}, 0, std::move(done)); });
  if (!created.ok()) return created.status();
  return created->video.id();
}

int CountJobs(JobStore& store) {
  const auto jobs = WaitFor<std::vector<UnfinishedJob>>([&](auto done) { store.Unfinished(std::move(done)); });
  KINORA_CHECK(jobs.ok()) << jobs.status();
  return static_cast<int>(jobs->size());
}

// The files that kill -9 leaves after each of kJobs acknowledged jobs: name -> bytes.
using Files = std::map<std::string, std::string>;

Files ReadFiles(const TemporaryDirectory& directory) {
  Files files;
  for (const char* name : kFiles) {
    if (fs::exists(directory.File(name))) files[name] = ReadFile(directory.File(name));
  }
  return files;
}

const std::vector<Files>& Killed() {
  static const auto* killed = [] {
    auto* after = new std::vector<Files>;
    TemporaryDirectory directory;
    auto store = Open(directory.File("jobs.db"));
    KINORA_CHECK(store.ok()) << store.status();
    for (int i = 0; i < kJobs; ++i) {
      KINORA_CHECK(Create(**store).ok());
      after->push_back(ReadFiles(directory));
    }
    return after;
  }();
  return *killed;
}

class LostCommits : public testing::Test {
 protected:
  void Put(const Files& files) {
    for (const char* name : {"jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db.commits"}) fs::remove(File(name));
    for (const auto& [name, bytes] : files) WriteFile(File(name), bytes);
  }
  std::string File(const std::string& name) const { return directory_.File(name); }
  absl::Status Start() { return Open(File("jobs.db")).status(); }
  // The start fails and changes no file.
  void ExpectRefused(const Files& files) {
    Put(files);
    EXPECT_THAT(Start(),
                StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("jobs.db"), HasSubstr("acknowledged"),
                                                            HasSubstr("kinora-frontend --accept-lost-commits="))));
    for (const auto& [name, bytes] : files) EXPECT_EQ(ReadFile(File(name)), bytes) << name;
    EXPECT_EQ(fs::exists(File("jobs.db")), files.contains("jobs.db"));
  }
  void ExpectJobs(const Files& files, int jobs) {
    Put(files);
    KINORA_ASSERT_OK_AND_ASSIGN(const auto store, Open(File("jobs.db")));
    EXPECT_EQ(CountJobs(*store), jobs);
    EXPECT_THAT(Create(*store), IsOk());
  }

  TemporaryDirectory directory_;
};

TEST_F(LostCommits, WhatKillNineLeavesIsWhole) {
  for (int i = 0; i < kJobs; ++i) ExpectJobs(Killed()[i], i + 1);
}

TEST_F(LostCommits, ABitOfTheLogThatFlippedIsFoundWhereverItIs) {
  const std::string& log = Killed().back().at("jobs.db-wal");
  std::vector<size_t> places;
  for (size_t at = 0; at < kLogHeader; ++at) places.push_back(at);
  for (size_t at = kLogHeader; at < kLogHeader + 24; ++at) places.push_back(at);  // a frame's header
  for (size_t at = kLogHeader + 5000; at < log.size(); at += 9973) places.push_back(at);
  places.push_back(log.size() - 1);
  for (const size_t at : places) {
    SCOPED_TRACE(at);
    Files files = Killed().back();
    files["jobs.db-wal"][at] ^= 1 << at % 8;
    ExpectRefused(files);
  }
}

TEST_F(LostCommits, ALogThatIsCutOrGoneIsFound) {
  const size_t whole = Killed().back().at("jobs.db-wal").size();
  for (const size_t left : {size_t{0}, size_t{10}, kLogHeader, kLogHeader + 3 * kFrame, whole / 2, whole - 1}) {
    SCOPED_TRACE(left);
    Files files = Killed().back();
    files["jobs.db-wal"].resize(left);
    ExpectRefused(files);
  }
  for (const std::vector<const char*>& gone :
       {std::vector<const char*>{"jobs.db-wal"}, {"jobs.db"}, {"jobs.db", "jobs.db-wal"}}) {
    Files files = Killed().back();
    for (const char* name : gone) files.erase(name);
    ExpectRefused(files);
  }
}

TEST_F(LostCommits, TheFlagStartsWithWhatIsLeftAndAcceptsNoOtherLoss) {
  Files files = Killed().back();
  files["jobs.db-wal"].resize(files["jobs.db-wal"].size() / 2);
  Put(files);
  const std::string refusal(Start().message());
  int64_t lost = 0;
  ASSERT_TRUE(absl::SimpleAtoi(refusal.substr(refusal.find("commits=") + 8, 2), &lost)) << refusal;
  EXPECT_THAT(Open(File("jobs.db"), lost - 1), StatusIs(absl::StatusCode::kDataLoss));
  testing::internal::CaptureStderr();
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto store, Open(File("jobs.db"), lost));
    EXPECT_GT(CountJobs(*store), 0);
    EXPECT_LT(CountJobs(*store), kJobs);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("event=commits_lost"));
  Files later;
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto store, Open(File("jobs.db")));  // accepting once is enough
    ASSERT_THAT(Create(*store), IsOk());
    later = ReadFiles(directory_);
  }
  later.erase("jobs.db-wal");
  Put(later);
  EXPECT_THAT(Open(File("jobs.db"), lost), StatusIs(absl::StatusCode::kDataLoss)) << "the flag was left there";
}

// The last commit's fsync has not returned: its pages may be on the disk in any order or not at all, and the mark is
// the previous commit's.
TEST_F(LostCommits, APowerCutThatTearsAnUnacknowledgedCommitStillStarts) {
  const Files& before = Killed()[kJobs - 2];
  const std::string& log = Killed().back().at("jobs.db-wal");
  const size_t synced = before.at("jobs.db-wal").size();
  ASSERT_GE(log.size(), synced + 3 * kFrame);
  for (size_t frame = synced; frame < log.size(); frame += kFrame) {
    SCOPED_TRACE(frame);
    Files files = before;
    files["jobs.db-wal"] = std::string(log).replace(frame, kFrame, kFrame, '\0');
    ExpectJobs(files, kJobs - 1);
    files["jobs.db-wal"] = std::string(log, 0, frame + 100);
    ExpectJobs(files, kJobs - 1);
    std::string only = before.at("jobs.db-wal");
    only.resize(log.size());
    files["jobs.db-wal"] = only.replace(frame, kFrame, log, frame, kFrame);
    ExpectJobs(files, kJobs - 1);
  }
}

// After a power failure the mark may be old, and a copy of the folder may have none.
TEST_F(LostCommits, WithoutAMarkDamageIsFoundIfCommitsLieBehindIt) {
  for (const bool none : {true, false}) {
    Files files = Killed().back();
    files["jobs.db.commits"] = Killed()[2].at("jobs.db.commits");
    if (none) files.erase("jobs.db.commits");
    ExpectJobs(files, kJobs);
    for (const size_t at :
         {size_t{17}, kLogHeader + 30, kLogHeader + 4 * kFrame + 17, files["jobs.db-wal"].size() / 2}) {
      SCOPED_TRACE(at);
      Files damaged = files;
      damaged["jobs.db-wal"][at] ^= 4;
      ExpectRefused(damaged);
    }
  }
}

TEST_F(LostCommits, AMarkThatIsNoneOrAnotherStoresIsSaidAndLeftAside) {
  for (const std::string& text : {std::string(), std::string(54, '\0'), std::string("x"), std::string(1000, '1')}) {
    Files files = Killed().back();
    files["jobs.db.commits"] = text;
    testing::internal::CaptureStderr();
    ExpectJobs(files, kJobs);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("event=commit_mark_unreadable"));
    ASSERT_THAT(Start(), IsOk());
    KINORA_ASSERT_OK_AND_ASSIGN(const auto store, Open(File("jobs.db")));
    EXPECT_EQ(CountJobs(*store), kJobs + 1);
  }
  Put({});
  KINORA_ASSERT_OK_AND_ASSIGN(auto other, Open(File("jobs.db")));
  ASSERT_THAT(Create(*other), IsOk());
  other.reset();
  Files files = ReadFiles(directory_);
  files["jobs.db.commits"] = Killed().back().at("jobs.db.commits");
  testing::internal::CaptureStderr();
  ExpectJobs(files, 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("event=commit_mark_of_another_store"));
}

TEST_F(LostCommits, TheMarkNeverRunsAheadOfAnFsync) {
  Put({});
  KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(File("jobs.db")));
  ASSERT_THAT(Create(*store), IsOk());
  const std::string mark = ReadFile(File("jobs.db.commits"));
  sync_fails = true;
  EXPECT_THAT(Create(*store), StatusIs(absl::StatusCode::kUnavailable));
  sync_fails = false;
  EXPECT_EQ(ReadFile(File("jobs.db.commits")), mark);
  const Files killed = ReadFiles(directory_);
  ASSERT_THAT(Create(*store), IsOk());
  EXPECT_NE(ReadFile(File("jobs.db.commits")), mark);
  store.reset();
  EXPECT_THAT(Start(), IsOk());
  Put(killed);
  EXPECT_THAT(Start(), IsOk());
}

TEST_F(LostCommits, ACheckpointLosesNoCount) {
  Put({});
  {
    KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(File("jobs.db")));
    for (int i = 0; i < 300; ++i) ASSERT_THAT(Create(*store), IsOk());  // the log restarts meanwhile
    const Files killed = ReadFiles(directory_);
    ASSERT_LT(killed.at("jobs.db-wal").size(), 300 * 6 * kFrame);
    TemporaryDirectory after;
    for (const auto& [name, bytes] : killed) WriteFile(after.File(name), bytes);
    KINORA_ASSERT_OK_AND_ASSIGN(auto again, Open(after.File("jobs.db")));
    EXPECT_EQ(CountJobs(*again), 300);
  }
  ASSERT_THAT(Start(), IsOk());
}

}  // namespace
}  // namespace kinora
