// A job store survives the end of its process, and files that are damaged, locked, read-only, truncated or on a
// full disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/full_disk.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/wait_for.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(const std::string& path) {
  return SqliteJobStore::Open(path, {}, Clock::Real(), [](const v1::VideoEvent&) {});
}

absl::StatusOr<Created> Create(JobStore& store, const std::string& request_id = "") {
  v1::CreateVideoRequest request;
  request.set_request_id(request_id);
  return WaitFor<Created>([&](Done<Created> done) { store.Create(request, {}, 0, std::move(done)); });
}

std::vector<UnfinishedJob> Unfinished(JobStore& store) {
  auto jobs = WaitFor<std::vector<UnfinishedJob>>([&](auto done) { store.Unfinished(std::move(done)); });
  KINORA_CHECK(jobs.ok()) << jobs.status();
  return *jobs;
}

TEST(JobStoreDurability, UnfinishedJobsComeBackOldestFirstWithTheirAttempts) {
  TemporaryDirectory directory;
  JobId queued, running;
  {
    auto store = *Open(directory.File("jobs.db"));
    running = Create(*store, "key")->video.id();
    queued = Create(*store)->video.id();
    const JobId done = Create(*store)->video.id();
    ASSERT_THAT(WaitFor<v1::Video>([&](auto f) { store->Cancel(done, std::move(f)); }), IsOk());
    ASSERT_THAT(WaitFor<Claimed>([&](auto f) { store->Claim(running, "one", absl::Seconds(30), std::move(f)); }),
                IsOk());
  }
  auto store = *Open(directory.File("jobs.db"));
  const auto jobs = Unfinished(*store);
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_EQ(jobs[0].video.id(), running);
  EXPECT_EQ(jobs[0].attempt.number, 1);
  EXPECT_EQ(jobs[0].attempt.owner, "one");
  EXPECT_EQ(jobs[1].video.id(), queued);
  EXPECT_EQ(jobs[1].attempt.number, 0);
  KINORA_ASSERT_OK_AND_ASSIGN(const Created again, Create(*store, "key"));
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.video.id(), running);
}

TEST(JobStoreDurability, EveryJobThatWasAnsweredSurvivesKillNine) {
  TemporaryDirectory directory;
  int ids[2];
  ASSERT_EQ(pipe(ids), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = Open(directory.File("jobs.db"));
    while (store.ok()) {
      const auto created = Create(**store);
      const std::string id = created->video.id();
      if (write(ids[1], id.data(), id.size()) < 0) _exit(1);
    }
    _exit(1);
  }
  close(ids[1]);
  std::vector<JobId> answered;
  char id[32];
  while (answered.size() < 20 && read(ids[0], id, sizeof(id)) == sizeof(id)) answered.emplace_back(id, sizeof(id));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (read(ids[0], id, sizeof(id)) == sizeof(id)) answered.emplace_back(id, sizeof(id));
  close(ids[0]);
  ASSERT_GE(answered.size(), 20u);

  KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(directory.File("jobs.db")));
  for (const JobId& job : answered) {
    EXPECT_THAT(WaitFor<v1::Video>([&](auto done) { store->Get(job, std::move(done)); }), IsOk()) << job;
  }
}

TEST(JobStoreDurability, AFileThatIsNoDatabaseIsNamedAndLeftAlone) {
  TemporaryDirectory directory;
  WriteFile(directory.File("jobs.db"), std::string(5000, 'x'));
  EXPECT_THAT(Open(directory.File("jobs.db")),
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("jobs.db"), HasSubstr("move it"))));
  EXPECT_EQ(ReadFile(directory.File("jobs.db")), std::string(5000, 'x'));
}

TEST(JobStoreDurability, ATruncatedOrDamagedFileIsDataLoss) {
  TemporaryDirectory directory;
  {
    auto store = *Open(directory.File("jobs.db"));
    for (int i = 0; i < 50; ++i) ASSERT_THAT(Create(*store), IsOk());
  }
  const std::string whole = ReadFile(directory.File("jobs.db"));
  ASSERT_GT(whole.size(), 20000u);
  for (const size_t size : {size_t{10}, size_t{4096}, whole.size() / 2, whole.size() - 100}) {
    WriteFile(directory.File("jobs.db"), whole.substr(0, size));
    EXPECT_THAT(Open(directory.File("jobs.db")), StatusIs(absl::StatusCode::kDataLoss)) << size;
  }
  std::string damaged = whole;
  for (size_t i = 4096; i < damaged.size(); i += 512) damaged.replace(i, 16, 16, '\xff');
  WriteFile(directory.File("jobs.db"), damaged);
  EXPECT_THAT(Open(directory.File("jobs.db")), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(JobStoreDurability, AZeroedPageIsDataLossInPlainWords) {
  TemporaryDirectory directory;
  {
    auto store = *Open(directory.File("jobs.db"));
    for (int i = 0; i < 5; ++i) ASSERT_THAT(Create(*store), IsOk());
  }
  std::string damaged = ReadFile(directory.File("jobs.db"));
  damaged.replace(8192, 4096, 4096, '\0');
  WriteFile(directory.File("jobs.db"), damaged);
  EXPECT_THAT(Open(directory.File("jobs.db")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("jobs.db: database disk image is malformed")));
}

// Changes the file as another program could, with its structure intact.
void Sql(const std::string& path, const std::string& sql) {
  sqlite3* handle;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

TEST(JobStoreDurability, AMissingTableOrColumnIsFoundAtTheStart) {
  for (const char* sql : {"DROP TABLE events", "DROP TABLE models", "ALTER TABLE jobs RENAME COLUMN owner TO x"}) {
    TemporaryDirectory directory;
    ASSERT_THAT(Open(directory.File("jobs.db")), IsOk());
    Sql(directory.File("jobs.db"), sql);
    EXPECT_THAT(Open(directory.File("jobs.db")), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no such"))) << sql;
  }
}

TEST(JobStoreDurability, AnotherProgramsDatabaseIsLeftAlone) {
  TemporaryDirectory directory;
  Sql(directory.File("jobs.db"), "CREATE TABLE x (a); PRAGMA user_version = 1");
  EXPECT_THAT(Open(directory.File("jobs.db")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another program")));
}

TEST(JobStoreDurability, ADamagedRecordKeepsNoOtherJobFromBeingSeenOrRun) {
  TemporaryDirectory directory;
  JobId damaged, other_id, sound;
  {
    auto store = *Open(directory.File("jobs.db"));
    for (JobId* id : {&damaged, &other_id, &sound}) *id = Create(*store)->video.id();
  }
  Sql(directory.File("jobs.db"), absl::StrCat("UPDATE jobs SET video = x'ffff' WHERE id = '", damaged,
                                              "'; UPDATE jobs SET id = 'somebody' WHERE id = '", other_id, "'"));
  KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(directory.File("jobs.db")));
  const auto unfinished = Unfinished(*store);
  ASSERT_THAT(unfinished, SizeIs(1));
  EXPECT_EQ(unfinished[0].video.id(), sound);
  KINORA_ASSERT_OK_AND_ASSIGN(const JobPage page, WaitFor<JobPage>([&](auto done) {
                                store->List({.page_size = 9, .page_token = {}, .states = {}}, std::move(done));
                              }));
  ASSERT_THAT(page.videos, SizeIs(3));
  EXPECT_EQ(page.videos[0].id(), sound);
  EXPECT_EQ(page.videos[1].id(), "somebody");
  EXPECT_EQ(page.videos[2].id(), damaged);
  EXPECT_EQ(page.videos[2].state(), v1::Video::FAILED);
  EXPECT_EQ(page.videos[2].error().code(), static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_THAT(WaitFor<v1::Video>([&](auto done) { store->Get(damaged, std::move(done)); }),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(damaged)));
  EXPECT_THAT(WaitForStatus([&](auto done) { store->Delete(damaged, std::move(done)); }), IsOk());
  EXPECT_THAT(WaitFor<v1::Video>([&](auto done) { store->Get(damaged, std::move(done)); }),
              StatusIs(absl::StatusCode::kNotFound));
}

// Counting on from the largest number would overflow.
TEST(JobStoreDurability, ACountThatNoJobReachesIsADamagedRecord) {
  for (const char* column : {"last_sequence", "lost_groups"}) {
    for (const char* count : {"9223372036854775807", "-1"}) {
      TemporaryDirectory directory;
      const JobId id = Create(**Open(directory.File("jobs.db")))->video.id();
      Sql(directory.File("jobs.db"), absl::StrCat("UPDATE jobs SET ", column, " = ", count));
      KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(directory.File("jobs.db")));
      EXPECT_THAT(WaitFor<v1::Video>([&](auto done) { store->Cancel(id, std::move(done)); }),
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr(id)));
      EXPECT_THAT(WaitForStatus([&](auto done) { store->Delete(id, std::move(done)); }), IsOk());
    }
  }
}

TEST(JobStoreDurability, AFileOfANewerVersionIsRefused) {
  TemporaryDirectory directory;
  ASSERT_THAT(Open(directory.File("jobs.db")), IsOk());
  sqlite3* handle;
  ASSERT_EQ(sqlite3_open(directory.File("jobs.db").c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "PRAGMA user_version = 99", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  EXPECT_THAT(Open(directory.File("jobs.db")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("99")));
}

TEST(JobStoreDurability, AFileLockedByAnotherProcessIsUnavailable) {
  TemporaryDirectory directory;
  KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(directory.File("jobs.db")));
  sqlite3* handle;
  ASSERT_EQ(sqlite3_open(directory.File("jobs.db").c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_THAT(Create(*store), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another process")));
  ASSERT_EQ(sqlite3_exec(handle, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  EXPECT_THAT(Create(*store), IsOk());
}

TEST(JobStoreDurability, AReadOnlyFileIsRefusedWithTheReason) {
  if (geteuid() == 0) {
    // Permissions do not restrict root, so a child process with another user id tests this.
    TemporaryDirectory directory;
    ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
    { ASSERT_THAT(Open(directory.File("jobs.db")), IsOk()); }
    ASSERT_EQ(chmod(directory.File("jobs.db").c_str(), 0444), 0);
    const pid_t child = fork();
    if (child == 0) {
      if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
      _exit(Open(directory.File("jobs.db")).status().code() == absl::StatusCode::kPermissionDenied ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return;
  }
  TemporaryDirectory directory;
  { ASSERT_THAT(Open(directory.File("jobs.db")), IsOk()); }
  ASSERT_EQ(chmod(directory.File("jobs.db").c_str(), 0444), 0);
  EXPECT_THAT(Open(directory.File("jobs.db")), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(JobStoreDurability, AFullDiskRefusesNewJobsAndKeepsTheOldOnes) {
  TemporaryDirectory disk;
  const auto result = OnSmallDisk(disk.path(), DiskReserve::kBytes + (512 << 10), [&]() -> std::string {
    auto opened = Open(disk.File("jobs.db"));
    if (!opened.ok()) return opened.status().ToString();
    JobStore& store = **opened;
    v1::CreateVideoRequest large;
    large.mutable_generation()->set_prompt(std::string(16 << 10, 'p'));
    std::vector<JobId> accepted;
    absl::Status refused;
    for (int i = 0; i < 100 && refused.ok(); ++i) {
      auto created = WaitFor<Created>([&](auto done) { store.Create(large, large.generation(), 0, std::move(done)); });
      refused = created.status();
      if (created.ok()) accepted.push_back(created->video.id());
    }
    if (refused.code() != absl::StatusCode::kResourceExhausted)
      return absl::StrCat("refused with ", refused.ToString());
    if (ErrorReason(refused) != "DISK_FULL") return absl::StrCat("the reason is ", ErrorReason(refused));
    if (refused.message().find(disk.path()) != absl::string_view::npos) return "a client is told of folders";
    for (const JobId& id : accepted) {
      const auto video = WaitFor<v1::Video>([&](auto done) { store.Get(id, std::move(done)); });
      if (!video.ok()) return absl::StrCat("an accepted job: ", video.status().ToString());
    }
    return accepted.empty() ? "nothing was accepted" : "";
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

}  // namespace
}  // namespace kinora
