#include "server/gateway/spool_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/full_disk.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

TEST(SpoolFileTest, ReadsBackWhatWasAppendedFromAnyOffset) {
  const TemporaryDirectory folder;
  KINORA_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SpoolFile> file, SpoolFile::Create(folder.path()));
  for (const char* piece : {"a", "", "bc"}) EXPECT_THAT(file->Append(piece), IsOk());
  file->Finish();
  EXPECT_EQ(file->size(), 3);
  EXPECT_EQ(file->sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-2, B.1
  EXPECT_THAT(file->Read(0, 2), IsOkAndHolds("ab"));
  EXPECT_THAT(file->Read(2, 2), IsOkAndHolds("c"));
  EXPECT_THAT(file->Read(3, 2), IsOkAndHolds(""));
}

TEST(SpoolFileTest, HasNoNameThatSomeoneElseCouldOpen) {
  const TemporaryDirectory folder;
  KINORA_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SpoolFile> file, SpoolFile::Create(folder.path()));
  EXPECT_THAT(file->Append("abc"), IsOk());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SpoolFileTest, NamesTheFolderThatIsMissing) {
  const TemporaryDirectory folder;
  EXPECT_THAT(SpoolFile::Create(folder.File("missing")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("scratch folder")));
}

TEST(SpoolFileTest, SaysThatTheDiskIsFullAndGivesItsBytesBack) {
  const TemporaryDirectory disk;
  const auto result = OnSmallDisk(disk.path(), 256 << 10, [&]() -> std::string {
    for (int round = 0; round < 3; ++round) {
      auto file = SpoolFile::Create(disk.path());
      if (!file.ok()) return file.status().ToString();
      absl::Status status = (*file)->Append(std::string(200 << 10, 'x'));
      if (!status.ok()) return absl::StrCat("the space of the last file is not free: ", status.ToString());
      while (status.ok()) status = (*file)->Append(std::string(4096, 'x'));
      if (!absl::IsResourceExhausted(status)) return status.ToString();
    }
    return "";
  });
  if (result == SmallDiskResult::kNotPermitted) GTEST_SKIP() << "this kernel allows no user namespaces";
  EXPECT_EQ(result, SmallDiskResult::kPassed);
}

}  // namespace
}  // namespace kinora
