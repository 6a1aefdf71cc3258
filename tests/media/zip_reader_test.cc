#include "engine/media/zip_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "engine/media/zip_writer.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

TEST(ReadZipTest, GivesBackTheMembersAndNamesAFileThatIsCutOff) {
  TemporaryDirectory directory;
  const std::string path = directory.File("a.zip"), cut = directory.File("cut.zip");
  auto zip = ZipWriter::Create(path);
  ASSERT_TRUE(zip.ok() && zip->Add("a", "one").ok() && zip->Add("b", "").ok() && zip->Finish().ok());
  std::string members;
  const auto take = [&members](std::string_view name, std::string_view content) {
    members.append(name).append("=").append(content).append(";");
    return absl::OkStatus();
  };
  EXPECT_TRUE(ReadZip(path, take).ok());
  EXPECT_EQ(members, "a=one;b=;");
  std::ofstream(cut) << ReadFile(path).substr(0, 32);
  const absl::Status status = ReadZip(cut, take);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(cut));
  std::string damaged = ReadFile(path);
  // The signature of "b" is after the header of "a" (30 bytes), its name (1) and its content (3).
  damaged[34] ^= 1;
  std::ofstream(cut, std::ios::binary) << damaged;
  const absl::Status broken = ReadZip(cut, take);
  EXPECT_EQ(broken.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(broken.message()), HasSubstr("is damaged after \"a\""));
  EXPECT_EQ(ReadZip(directory.File("none.zip"), take).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace kinora
