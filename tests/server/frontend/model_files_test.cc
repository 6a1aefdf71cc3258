#include "server/frontend/model_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

TEST(StateOfFiles, IsAnotherOnceAFileHasChangedComeOrGone) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.File("gemma/sub"));
  WriteFile(directory.File("model"), "a");
  const std::vector<std::string> files = {directory.File("model"), "text_encoder=" + directory.File("gemma"),
                                          "lora=style:" + directory.File("lora"), "kind=dev"};
  std::string last = StateOfFiles(files);
  EXPECT_EQ(StateOfFiles(files), last);
  const auto differs = [&] {
    const std::string now = StateOfFiles(files);
    const bool other = now != last;
    last = now;
    return other;
  };
  WriteFile(directory.File("model"), "ab");
  EXPECT_TRUE(differs());
  WriteFile(directory.File("gemma/sub/config.json"), "{}");
  EXPECT_TRUE(differs());
  WriteFile(directory.File("lora"), "");
  EXPECT_TRUE(differs());
  std::filesystem::remove(directory.File("model"));
  EXPECT_TRUE(differs());
  WriteFile(directory.File("another"), "");
  EXPECT_FALSE(differs());
}

}  // namespace
}  // namespace kinora
