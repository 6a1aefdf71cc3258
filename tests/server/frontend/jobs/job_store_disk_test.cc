// A running job store when the disk is full, is not writable, or loses its files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/common/status_details.h"
#include "server/frontend/jobs/sqlite_job_store.h"
#include "tests/testing/fake_clock.h"
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

constexpr int64_t kSmallDisk = 12 << 20;

absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(const std::string& path, Clock& clock = Clock::Real(),
                                                     JobCommitterOptions options = {}) {
  return SqliteJobStore::Open(
      path, {}, clock, [](const v1::VideoEvent&) {}, std::move(options));
}

absl::StatusOr<Created> Create(JobStore& store, size_t prompt = 10) {
  v1::CreateVideoRequest request;
  request.mutable_generation()->set_prompt(std::string(prompt, 'p'));
  return WaitFor<Created>([&](Done<Created> done) { store.Create(request, request.generation(), 0, std::move(done)); });
}
absl::Status Cancel(JobStore& store, const JobId& id) {
  return WaitFor<v1::Video>([&](auto done) { store.Cancel(id, std::move(done)); }).status();
}
absl::Status Get(JobStore& store, const JobId& id) {
  return WaitFor<v1::Video>([&](auto done) { store.Get(id, std::move(done)); }).status();
}
// Like DeleteVideo, including the deferred purge.
absl::Status Delete(JobStore& store, const JobId& id) {
  const absl::Status hidden = WaitForStatus([&](auto done) { store.Delete(id, std::move(done)); });
  return hidden.ok() ? WaitForStatus([&](auto done) { store.Purge(id, std::move(done)); }) : hidden;
}

// Fills the file system of `path`.
void FillDisk(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  KINORA_CHECK(file.ok());
  const std::string block(4096, 'x');
  while (write(file.get(), block.data(), block.size()) > 0) {
  }
  KINORA_CHECK(errno == ENOSPC);
}

void ExpectOnSmallDisk(const std::string& path, const std::function<std::string()>& body) {
  const auto result = OnSmallDisk(path, kSmallDisk, body);
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

TEST(JobStoreDisk, OnAFullDiskJobsAreCancelledAndDeletedAndNoneIsMade) {
  TemporaryDirectory disk;
  ExpectOnSmallDisk(disk.path(), [&]() -> std::string {
    auto store = *Open(disk.File("jobs.db"));
    std::vector<JobId> jobs(50);
    for (JobId& id : jobs) id = Create(*store)->video.id();
    FillDisk(disk.File("filler"));
    if (Create(*store, 64 << 10).ok()) return "the disk is not full";
    for (const JobId& id : jobs) {
      if (const auto status = Cancel(*store, id); !status.ok()) return "Cancel: " + status.ToString();
      if (const auto status = Delete(*store, id); !status.ok()) return "Delete: " + status.ToString();
    }
    const absl::Status refused = Create(*store).status();
    if (ErrorReason(refused) != "DISK_FULL") return "Create took the reserve: " + refused.ToString();
    if (refused.message().find(disk.path()) != absl::string_view::npos) return "a client is told of folders";
    fs::remove(disk.File("filler"));
    return Create(*store).ok() ? "" : "room came back and no job is made";
  });
}

// A client that repeats a call must not use up space that others need.
TEST(JobStoreDisk, CancellingAgainOnAFullDiskTakesNoRoom) {
  TemporaryDirectory disk;
  ExpectOnSmallDisk(disk.path(), [&]() -> std::string {
    auto store = *Open(disk.File("jobs.db"));
    const JobId once = Create(*store)->video.id(), other = Create(*store)->video.id();
    FillDisk(disk.File("filler"));
    for (int i = 0; i < 2000; ++i) {
      if (const auto status = Cancel(*store, once); !status.ok()) return status.ToString();
    }
    if (const auto status = Cancel(*store, other); !status.ok()) return "other: " + status.ToString();
    const auto reserve = static_cast<int64_t>(fs::file_size(disk.File("jobs.db.reserve")));
    if (reserve < DiskReserve::kBytes - 3 * DiskReserve::kPiece) return absl::StrCat(reserve, " bytes are left");
    return "";
  });
}

TEST(JobStoreDisk, AStoreOnAFullDiskOpensSoThatJobsCanBeDeleted) {
  TemporaryDirectory disk;
  ExpectOnSmallDisk(disk.path(), [&]() -> std::string {
    const std::string path = disk.File("jobs.db");
    const JobId id = Create(**Open(path))->video.id();
    FillDisk(disk.File("filler"));
    const auto store = Open(path);
    if (!store.ok()) return store.status().ToString();
    if (ErrorReason(Create(**store).status()) != "DISK_FULL") return "a job was made without a reserve";
    if (const auto status = Cancel(**store, id); !status.ok()) return status.ToString();
    return std::string(Delete(**store, id).message());
  });
}

// Returns the number of log lines for the event, and the sum of a numeric field.
std::pair<int, int64_t> CountLines(const std::string& log, const std::string& event, const std::string& field) {
  std::pair<int, int64_t> counted;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    const size_t at = line.find(" " + field + "=");
    if (line.find("event=" + event) == absl::string_view::npos || at == absl::string_view::npos) continue;
    counted.first += 1;
    counted.second += std::stoll(std::string(line.substr(at + field.size() + 2)));
  }
  return counted;
}

TEST(JobStoreDisk, AStoreThatCannotBeWrittenSaysSoOncePerMinute) {
  TemporaryDirectory disk;
  ExpectOnSmallDisk(disk.path(), [&]() -> std::string {
    FakeClock clock;
    auto store = *Open(disk.File("jobs.db"), clock);
    if (store->file().Unwritable() != absl::ZeroDuration()) return "it fails before anything was written";
    FillDisk(disk.File("filler"));
    testing::internal::CaptureStderr();
    for (int second = 0; second < 200; ++second) {
      if (Create(*store, 64 << 10).ok()) return "the disk is not full";
      clock.Advance(absl::Seconds(1));
    }
    if (store->file().Unwritable() != absl::Seconds(200)) return absl::FormatDuration(store->file().Unwritable());
    fs::remove(disk.File("filler"));
    if (!Create(*store).ok()) return "room came back and no job is made";
    if (store->file().Unwritable() != absl::ZeroDuration()) return "it still fails";
    const std::string log = testing::internal::GetCapturedStderr();
    const auto [lines, commits] = CountLines(log, "job_store_commit_failed", "commits");
    if (lines != 4) return absl::StrCat(lines, " lines in 200 s:\n", log);
    if (commits != 181)
      return absl::StrCat(commits, " of 181 commits are counted in the lines at 0, 60, 120 and 180 s");
    return CountLines(log, "job_store_writes_again", "seconds").second == 200 ? "" : log;
  });
}

TEST(JobStoreDisk, OnceItsFilesAreGoneOrReplacedNothingIsAcknowledged) {
  const std::pair<const char*, std::function<void(const TemporaryDirectory&)>> changes[] = {
      {"jobs.db removed", [](const auto& d) { fs::remove(d.File("jobs.db")); }},
      {"jobs.db moved", [](const auto& d) { fs::rename(d.File("jobs.db"), d.File("x")); }},
      {"jobs.db replaced",
       [](const auto& d) {
         fs::copy(d.File("jobs.db"), d.File("x"));
         fs::rename(d.File("x"), d.File("jobs.db"));
       }},
      {"the log removed", [](const auto& d) { fs::remove(d.File("jobs.db-wal")); }},
      {"artifacts removed", [](const auto& d) { fs::remove(d.File("artifacts")); }},
      {"artifacts replaced by a file",
       [](const auto& d) {
         fs::remove(d.File("artifacts"));
         WriteFile(d.File("artifacts"), "");
       }},
  };
  for (const auto& [name, change] : changes) {
    TemporaryDirectory directory;
    fs::create_directory(directory.File("artifacts"));
    std::atomic<int> told = 0;
    JobCommitterOptions options{.on_lost = [&told] { ++told; }};
    ASSERT_THAT(options.watch.Add(directory.File("artifacts")), IsOk());
    KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(directory.File("jobs.db"), Clock::Real(), std::move(options)));
    const JobId before = Create(*store)->video.id();
    EXPECT_THAT(store->file().CheckState(), IsOk()) << name;
    change(directory);
    testing::internal::CaptureStderr();
    for (int i = 0; i < 3; ++i) {
      const absl::Status refused = Create(*store).status();
      EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, Not(HasSubstr(directory.path())))) << name;
      EXPECT_EQ(ErrorReason(refused), "STATE_LOST") << name;
    }
    EXPECT_THAT(Delete(*store, before), StatusIs(absl::StatusCode::kUnavailable)) << name;
    EXPECT_THAT(store->file().CheckState(), StatusIs(absl::StatusCode::kUnavailable)) << name;
    EXPECT_THAT(Get(*store, before), IsOk()) << name;  // existing jobs can still be read
    EXPECT_EQ(told, 1) << name;
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
    EXPECT_THAT(log, AllOf(HasSubstr("event=state_lost"), HasSubstr(directory.path()))) << name;
  }
}

// Like `sqlite3 jobs.db ".backup FILE"`, which operators may use while the frontend runs. The last process that closes
// a database removes its log; the other process must not believe that it is the last.
TEST(JobStoreDisk, AnotherProcessThatHasReadTheFileLeavesTheLogAlone) {
  TemporaryDirectory directory, crashed;
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t reader = fork();
  if (reader == 0) {
    close(go[1]);
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) _exit(2);
    sqlite3* handle = nullptr;
    if (sqlite3_open(directory.File("jobs.db").c_str(), &handle) != SQLITE_OK) _exit(3);
    if (sqlite3_exec(handle, "SELECT count(*) FROM jobs", nullptr, nullptr, nullptr) != SQLITE_OK) _exit(4);
    sqlite3_close(handle);
    _exit(0);
  }
  close(go[0]);
  KINORA_ASSERT_OK_AND_ASSIGN(auto store, Open(directory.File("jobs.db")));
  const JobId first = Create(*store)->video.id();
  ASSERT_EQ(write(go[1], "x", 1), 1);
  close(go[1]);
  int status = -1;
  waitpid(reader, &status, 0);
  ASSERT_EQ(status, 0);
  KINORA_ASSERT_OK_AND_ASSIGN(const Created second, Create(*store));
  // The state that a crash at this moment would leave.
  for (const char* name : {"jobs.db", "jobs.db-wal"}) {
    ASSERT_TRUE(fs::exists(directory.File(name))) << name;
    fs::copy(directory.File(name), crashed.File(name));
  }
  KINORA_ASSERT_OK_AND_ASSIGN(auto after, Open(crashed.File("jobs.db")));
  EXPECT_THAT(Get(*after, first), IsOk());
  EXPECT_THAT(Get(*after, second.video.id()), IsOk());
}

}  // namespace
}  // namespace kinora
