// Checks that the committed goldens are complete, described, finite and within their size budget. The modules' own
// tests compare modules with them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/testing/golden.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = KINORA_SOURCE_DIR "/tests/golden";
constexpr int64_t kBudget = 24'000'000;              // total bytes of all files
constexpr int64_t kReleasedHeadsBudget = 1'000'000;  // of goldens with drawn weights and their renders
// Checkpoints, LoRAs and upsamplers are not cases.
bool IsCase(const std::string& stem) {
  return stem != "ltx-2.0-tiny" && stem.rfind("lora-", 0) != 0 && stem.rfind("upsampler-", 0) != 0;
}

std::vector<std::string> Cases() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder / "data")) {
    if (entry.path().extension() == ".safetensors" && IsCase(entry.path().stem().string())) {
      names.push_back(entry.path().stem().string());
    }
  }
  return names;
}

bool AllFinite(const Tensor& tensor) {
  if (tensor.dtype() != DType::kF32) return true;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (!std::isfinite(tensor.data<float>()[i])) return false;
  }
  return true;
}

bool AnyNonzero(const Tensor& tensor) {
  if (tensor.dtype() != DType::kF32) return true;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (tensor.data<float>()[i] != 0) return true;
  }
  return false;
}

TEST(GoldenData, StaysWithinItsBudget) {
  int64_t bytes = 0, released_heads = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder / "data")) {
    const auto size = static_cast<int64_t>(entry.file_size());
    bytes += size;
    if (entry.path().filename().string().find("released_heads") != std::string::npos) released_heads += size;
  }
  EXPECT_LE(bytes, kBudget);
  EXPECT_GT(released_heads, 0);
  EXPECT_LE(released_heads, kReleasedHeadsBudget);
  EXPECT_GE(Cases().size(), 25u);
}

TEST(GoldenData, EveryCaseHoldsFiniteResultsAndSaysHowItWasMade) {
  for (const std::string& name : Cases()) {
    SCOPED_TRACE(name);
    Golden golden(name);
    for (const char* key : {"config", "parameters", "versions"}) {
      EXPECT_TRUE(nlohmann::json::accept(golden.metadata(key))) << key;
    }
    EXPECT_NE(golden.metadata("command").find(name), std::string::npos);
    const std::vector<std::string> outputs = golden.Names("out.");
    EXPECT_FALSE(outputs.empty());
    for (const char* prefix : {"in.", "tap.", "out."}) {
      for (const std::string& tensor : golden.Names(prefix)) EXPECT_TRUE(AllFinite(golden.Get(tensor))) << tensor;
    }
    for (const std::string& tensor : outputs) EXPECT_TRUE(AnyNonzero(golden.Get(tensor))) << tensor;
  }
}

TEST(GoldenData, EveryModuleCaseFindsItsWeights) {
  int modules = 0;
  for (const std::string& name : Cases()) {
    SCOPED_TRACE(name);
    Golden golden(name);
    if (nlohmann::json::parse(golden.metadata("config")).empty() || golden.Has("video_noise")) continue;
    Golden owner(golden.metadata("weights"));
    const bool drawn = owner.HasMetadata("drawn");
    EXPECT_EQ(owner.Names("weights.").empty(), drawn);
    if (drawn) {
      EXPECT_FALSE(nlohmann::json::parse(owner.metadata("drawn"))["tensors"].empty());
    }
    EXPECT_EQ(owner.metadata("config"), golden.metadata("config"));
    EXPECT_EQ(golden.metadata("layout"), "single_file");
    ++modules;
  }
  EXPECT_GE(modules, 20);
}

TEST(GoldenData, TheReadmeNamesEveryCase) {
  std::ifstream file(kFolder / "README.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string readme = text.str();
  for (std::string name : Cases()) {
    // Names of cases of both generations are NAME_2_{3,0}REST.
    std::string pair = name;
    for (const char* generation : {"_2_3_", "_2_0_"}) {
      const size_t at = pair.find(generation);
      if (at != std::string::npos) pair.replace(at, 5, "_2_{3,0}_");
    }
    EXPECT_TRUE(readme.find(name) != std::string::npos || readme.find(pair) != std::string::npos) << name;
  }
}

}  // namespace
}  // namespace kinora
