#include "server/common/artifact_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "server/common/directory_artifact_store.h"
#include "tests/testing/full_disk.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

std::unique_ptr<DirectoryArtifactStore> OpenStore(const std::string& root) {
  auto store = DirectoryArtifactStore::At(root);
  KINORA_CHECK(store.ok()) << store.status();
  return *std::move(store);
}

TEST(DirectoryArtifactStore, WhatIsPutIsReadBackInPiecesWithItsDigest) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string temporary, store->TemporaryPath("job/1/video.mp4"));
  WriteFile(temporary, "hello world");
  KINORA_ASSERT_OK_AND_ASSIGN(const StoredFile stored, store->Put("job/1/video.mp4", temporary));
  EXPECT_EQ(stored.bytes, 11);
  EXPECT_EQ(stored.sha256, "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9");  // from sha256sum
  EXPECT_FALSE(std::filesystem::exists(temporary));

  EXPECT_THAT(store->Size("job/1/video.mp4"), IsOkAndHolds(11));
  const auto read = [&](int64_t offset, int64_t limit) {
    const auto piece = store->Read("job/1/video.mp4", offset, limit);
    return piece.ok() && piece->size == 11 ? piece->data : piece.status().ToString();
  };
  EXPECT_EQ(read(0, 5), "hello");
  EXPECT_EQ(read(6, 100), "world");
  EXPECT_EQ(read(11, 100), "");
  EXPECT_EQ(read(99, 100), "");
}

TEST(DirectoryArtifactStore, AFileFromAnotherFileSystemIsCopied) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm";
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  const std::string other = absl::StrCat("/dev/shm/kinora-test-", getpid());
  WriteFile(other, std::string(3 << 20, 'x'));
  KINORA_ASSERT_OK_AND_ASSIGN(const StoredFile stored, store->Put("a/b", other));
  EXPECT_EQ(stored.bytes, 3 << 20);
  EXPECT_FALSE(std::filesystem::exists(other));
}

// Opens a store with files of two jobs, one of which has two attempts.
std::unique_ptr<DirectoryArtifactStore> StoreOfTwoJobs(const TemporaryDirectory& directory) {
  auto store = OpenStore(directory.File("artifacts"));
  for (const char* key : {"job/1/a", "job/2/b", "job2/1/c"}) {
    const std::string file = directory.File("file");
    WriteFile(file, key);
    EXPECT_THAT(store->Put(key, file), IsOk());
  }
  return store;
}

TEST(DirectoryArtifactStore, DeleteTakesAllAttemptsOfAJobAndNothingElse) {
  TemporaryDirectory directory;
  auto store = StoreOfTwoJobs(directory);
  EXPECT_THAT(store->Delete("job"), IsOk());
  EXPECT_THAT(store->Size("job/1/a"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store->Size("job/2/b"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store->Size("job2/1/c"), IsOk());
  EXPECT_THAT(store->Delete("job"), IsOk());  // a second time
}

TEST(DirectoryArtifactStore, ListsTheFilesUnderAKeyAndNothingElse) {
  TemporaryDirectory directory;
  auto store = StoreOfTwoJobs(directory);
  std::filesystem::create_symlink(directory.File("artifacts/job2"), directory.File("artifacts/job/link"));
  EXPECT_THAT(store->Keys("job"), IsOkAndHolds(testing::UnorderedElementsAre("job/1/a", "job/2/b")));
  EXPECT_THAT(store->Keys("job/2"), IsOkAndHolds(testing::ElementsAre("job/2/b")));
  EXPECT_THAT(store->Keys("none"), IsOkAndHolds(testing::IsEmpty()));
  EXPECT_THAT(store->Keys("../x"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DirectoryArtifactStore, KeysCannotLeaveTheDirectory) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  WriteFile(directory.File("secret"), "secret");
  for (const char* key :
       {"", "/etc/passwd", "../secret", "a/../../secret", "a//b", "a/", ".tmp/x", "a/.b", "a\nb", "ä"}) {
    EXPECT_THAT(store->Size(key), StatusIs(absl::StatusCode::kInvalidArgument)) << key;
    EXPECT_THAT(store->Delete(key), StatusIs(absl::StatusCode::kInvalidArgument)) << key;
    EXPECT_THAT(store->Put(key, directory.File("secret")), StatusIs(absl::StatusCode::kInvalidArgument)) << key;
  }
  std::filesystem::create_symlink(directory.File("secret"), directory.File("artifacts/link"));
  EXPECT_FALSE(store->Size("link").ok());
  EXPECT_EQ(ReadFile(directory.File("secret")), "secret");
}

TEST(DirectoryArtifactStore, UnfinishedFilesOfACrashAreRemovedAtTheNextStart) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string temporary, store->TemporaryPath("job/1/video.mp4"));
  WriteFile(temporary, "half");
  EXPECT_THAT(store->RemoveUnfinished(), IsOk());
  EXPECT_FALSE(std::filesystem::exists(temporary));
}

TEST(DirectoryArtifactStore, AFifoIsNoArtifactAndHoldsNobodyUp) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  ASSERT_EQ(mkfifo(directory.File("artifacts/fifo").c_str(), 0600), 0);
  EXPECT_THAT(store->Size("fifo"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("not a file")));
  EXPECT_THAT(store->Put("key", directory.File("artifacts/fifo")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store->Delete("fifo"), IsOk());
}

TEST(DirectoryArtifactStore, AStartRemovesNothingThatALinkLeadsToAndNothingOfAnotherForm) {
  TemporaryDirectory directory, elsewhere;
  auto store = OpenStore(directory.File("artifacts"));
  const std::vector<std::string> others = {"notes", "1-notes", "1-2", "a-1-b", "-1-b", "1-2-.hidden"};
  for (const std::string& name : others) WriteFile(directory.File("artifacts/.tmp/" + name), "mine");
  EXPECT_THAT(store->RemoveUnfinished(), IsOk());
  for (const std::string& name : others) EXPECT_EQ(ReadFile(directory.File("artifacts/.tmp/" + name)), "mine");

  std::filesystem::remove_all(directory.File("artifacts/.tmp"));
  std::filesystem::create_directory_symlink(elsewhere.path(), directory.File("artifacts/.tmp"));
  const std::string name = absl::StrCat(getpid(), "-0-job_1_video.mp4");
  WriteFile(elsewhere.File(name), "mine");
  EXPECT_THAT(store->RemoveUnfinished(), IsOk());
  EXPECT_THAT(store->RemoveUnfinishedOf(getpid()), IsOk());
  EXPECT_EQ(ReadFile(elsewhere.File(name)), "mine");
}

TEST(DirectoryArtifactStore, UnfinishedFilesThatCannotBeListedAreAnError) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  std::filesystem::remove(directory.File("artifacts/.tmp"));
  EXPECT_THAT(store->RemoveUnfinished(), StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(".tmp: No such")));
}

TEST(DirectoryArtifactStore, UnfinishedFilesOfOneProcessAreRemovedAndThoseOfOthersStay) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string mine, store->TemporaryPath("job/1/video.mp4"));
  const std::string of_another = absl::StrCat(directory.File("artifacts/.tmp/"), getpid(), "1-0-job_1_video.mp4");
  for (const std::string& path : {mine, of_another}) WriteFile(path, "half");
  EXPECT_THAT(store->RemoveUnfinishedOf(getpid()), IsOk());
  EXPECT_FALSE(std::filesystem::exists(mine));
  EXPECT_TRUE(std::filesystem::exists(of_another));
}

TEST(DirectoryArtifactStore, AFullDiskIsResourceExhaustedAndLeavesNothingBehind) {
  TemporaryDirectory disk, elsewhere;
  WriteFile(elsewhere.File("big"), std::string(1 << 20, 'x'));
  const auto result = OnSmallDisk(disk.path(), 256 << 10, [&]() -> std::string {
    auto store = OpenStore(disk.File("artifacts"));
    const auto put = store->Put("job/1/video.mp4", elsewhere.File("big"));
    if (put.status().code() != absl::StatusCode::kResourceExhausted) return put.status().ToString();
    if (store->Size("job/1/video.mp4").ok()) return "the key is readable";
    if (!std::filesystem::is_empty(disk.File("artifacts/.tmp"))) return "a temporary file is left";
    WriteFile(disk.File("small"), "x");
    return store->Put("job/1/small", disk.File("small")).ok() ? "" : "the store is unusable afterwards";
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

TEST(DirectoryArtifactStore, ARootThatCannotBeWrittenIsNamed) {
  const auto store = DirectoryArtifactStore::At("/proc/kinora");
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("/proc/kinora"));
}

TEST(DirectoryArtifactStore, AStagedFileHasItsKeyOnceItIsCommitted) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto staged, store->Begin("job/1/video.mp4"));
  EXPECT_THAT(staged->Append("hello "), IsOk());
  EXPECT_THAT(staged->Append("world"), IsOk());
  EXPECT_THAT(store->Size("job/1/video.mp4"), StatusIs(absl::StatusCode::kNotFound));
  KINORA_ASSERT_OK_AND_ASSIGN(const StoredFile stored, staged->Commit());
  EXPECT_EQ(stored.bytes, 11);
  EXPECT_EQ(stored.sha256, "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9");  // from sha256sum
  EXPECT_EQ(store->Read("job/1/video.mp4", 0, 100)->data, "hello world");
  KINORA_ASSERT_OK_AND_ASSIGN(const FileDescriptor file, store->OpenFile("job/1/video.mp4"));
  char bytes[11];
  EXPECT_EQ(pread(file.get(), bytes, sizeof(bytes), 0), 11);
}

TEST(DirectoryArtifactStore, AStagedFileThatIsNotCommittedLeavesNothing) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  WriteFile(directory.File("artifacts/old"), "old");
  {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto staged, store->Begin("old"));
    EXPECT_THAT(staged->Append("new"), IsOk());
  }
  EXPECT_EQ(ReadFile(directory.File("artifacts/old")), "old");
  EXPECT_TRUE(std::filesystem::is_empty(directory.File("artifacts/.tmp")));
  EXPECT_THAT(store->Begin("../old"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DirectoryArtifactStore, ErrorsOfAStagedFileNameNoFolder) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto staged, store->Begin("job/1/video.mp4"));
  WriteFile(directory.File("artifacts/job"), "in the way");
  const absl::Status status = staged->Commit().status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("artifacts/job")));
  EXPECT_THAT(status.message(), testing::Not(HasSubstr(directory.path())));
}

TEST(DirectoryArtifactStore, FirstPartsAreThoseOfKeys) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  EXPECT_THAT(store->FirstParts(), IsOkAndHolds(testing::IsEmpty()));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto unfinished, store->Begin("unfinished/1"));
  for (const char* key : {"job/1/a", "job/2/b", "other"}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto staged, store->Begin(key));
    ASSERT_THAT(staged->Commit(), IsOk());
  }
  EXPECT_THAT(store->FirstParts(), IsOkAndHolds(testing::UnorderedElementsAre("job", "other")));
}

TEST(DirectoryArtifactStore, TheRoomIsThatOfItsFileSystem) {
  TemporaryDirectory directory;
  auto store = OpenStore(directory.File("artifacts"));
  EXPECT_THAT(store->CheckRoom(1), IsOk());
  EXPECT_THAT(store->CheckRoom(int64_t{1} << 60),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("but 1152921504606846976 are required")));
}

}  // namespace
}  // namespace kinora
