#include "server/worker/preview_maps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

using Digests = google::protobuf::Map<std::string, std::string>;

constexpr int64_t kChannels = 5;

LatentToRgb Map(float first) {
  LatentToRgb map{.matrix = std::vector<float>(3 * (kChannels + 1), 0.25f)};
  map.matrix[0] = first;
  return map;
}

class PreviewMapsTest : public testing::Test {
 protected:
  std::string File() const { return directory_.File("cache/previews/key"); }
  void Write(const std::string& bytes) const { std::ofstream(File(), std::ios::binary) << bytes; }

  TemporaryDirectory directory_;
  PreviewMaps maps_{directory_.File("cache")};
};

TEST_F(PreviewMapsTest, WhatIsKeptIsFoundByTheNextLife) {
  EXPECT_EQ(maps_.Find("key", kChannels), std::nullopt);
  maps_.Keep("key", Map(1));
  EXPECT_EQ(PreviewMaps(directory_.File("cache")).Find("key", kChannels), Map(1));
  maps_.Keep("key", Map(2));
  EXPECT_EQ(maps_.Find("key", kChannels), Map(2));
  EXPECT_EQ(maps_.Find("other", kChannels), std::nullopt);
  EXPECT_EQ(maps_.Find("key", kChannels + 1), std::nullopt);
}

TEST_F(PreviewMapsTest, ADamagedOneIsNone) {
  maps_.Keep("key", Map(1));
  const std::string whole = ReadFile(File());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    Write(damaged);
    EXPECT_EQ(maps_.Find("key", kChannels), std::nullopt) << i;
  }
  for (const std::string& other : {whole.substr(1), whole + "x", std::string()}) {
    Write(other);
    EXPECT_EQ(maps_.Find("key", kChannels), std::nullopt);
  }
  maps_.Keep("key", Map(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(maps_.Find("key", kChannels), std::nullopt);
  maps_.Keep("key", Map(3));
  EXPECT_EQ(maps_.Find("key", kChannels), Map(3));
}

TEST_F(PreviewMapsTest, OfManyTheOldestGo) {
  for (int i = 0; i < 70; ++i) {
    maps_.Keep(absl::StrCat("key", i), Map(1));
    fs::last_write_time(directory_.File(absl::StrCat("cache/previews/key", i)),
                        fs::file_time_type::clock::now() - std::chrono::hours(100 - i));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.File("cache/previews")), fs::directory_iterator()), 64);
  EXPECT_EQ(maps_.Find("key5", kChannels), std::nullopt);
  EXPECT_EQ(maps_.Find("key69", kChannels), Map(1));
}

TEST_F(PreviewMapsTest, WithoutAFolderThatCanBeWrittenNothingIsKeptAndNothingFails) {
  for (const std::string& folder : {std::string(), std::string("/proc/no-such")}) {
    const PreviewMaps none(folder);
    none.Keep("key", Map(1));
    EXPECT_EQ(none.Find("key", kChannels), std::nullopt);
  }
}

TEST(PreviewMapsKey, IsOfTheModelsFilesAndThePrecisionAndNotOfLoras) {
  Digests digests;
  digests["vae.safetensors"] = "sha256:aa";
  const std::string key = PreviewMaps::Key(digests, "bf16");
  EXPECT_EQ(key.size(), 64u);
  EXPECT_NE(key, PreviewMaps::Key(digests, "f32"));
  digests["lora/glow"] = "sha256:cc";
  EXPECT_EQ(key, PreviewMaps::Key(digests, "bf16"));
  digests["vae.safetensors"] = "sha256:bb";
  EXPECT_NE(key, PreviewMaps::Key(digests, "bf16"));
}

}  // namespace
}  // namespace kinora
