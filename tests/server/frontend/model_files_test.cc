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
  std::filesystem::permissions(directory.File("gemma/sub/config.json"), std::filesystem::perms::none);
  EXPECT_TRUE(differs());
}

TEST(StateOfFiles, APathMayHoldEqualsAndAnIndexStandsForItsParts) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.File("run=7"));
  const std::string single = directory.File("run=7/model.safetensors"), part = directory.File("run=7/part");
  const std::string index = "text_encoder=" + directory.File("run=7/model.safetensors.index.json");
  const std::string of_single = StateOfFiles({single}), of_index = StateOfFiles({index});
  WriteFile(part, "");
  EXPECT_EQ(StateOfFiles({single}), of_single);
  EXPECT_NE(StateOfFiles({index}), of_index);
  WriteFile(single, "");
  EXPECT_NE(StateOfFiles({single}), of_single);
}

}  // namespace
}  // namespace kinora
