#include "engine/weights/factor_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr auto kGoOn = [] { return absl::OkStatus(); };

class FactorCacheTest : public testing::Test {
 protected:
  // Returns a file with one tensor of 64 floats, all `value`.
  std::shared_ptr<const SafetensorsFile> File(const std::string& name, float value) {
    std::vector<float> values(64, value);
    const std::string path = folder_.File(name);
    KINORA_CHECK(WriteSafetensors(path, {{"x", Tensor(DType::kF32, {64}, values.data())}}).ok());
    return *SafetensorsFile::Open(path);
  }
  static float First(const SafetensorsFile& file) {
    float value = 0;
    EXPECT_THAT(file.Read(file.tensors()[0], 0, sizeof value, &value), IsOk());
    return value;
  }
  static std::shared_ptr<const SafetensorsFile> Get(FactorCache& cache,
                                                    const std::shared_ptr<const SafetensorsFile>& file) {
    auto loaded = cache.Get(file, /*counted=*/true, kGoOn);
    KINORA_CHECK(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }

  TemporaryDirectory folder_;
};

TEST_F(FactorCacheTest, TheFileUsedLongestAgoGoesFirstAndHitsAndMissesAreCounted) {
  const auto a = File("a", 1), b = File("b", 2), c = File("c", 3);
  FactorCache cache(2 * a->bytes());
  EXPECT_EQ(First(*Get(cache, a)), 1);
  EXPECT_EQ(First(*Get(cache, b)), 2);
  EXPECT_EQ(First(*Get(cache, a)), 1);  // b is now the least recently used
  EXPECT_EQ(First(*Get(cache, c)), 3);
  EXPECT_EQ(cache.counts().hits, 1);
  EXPECT_EQ(cache.counts().misses, 3);
  EXPECT_EQ(cache.counts().bytes, 2 * a->bytes());
  Get(cache, a);
  EXPECT_EQ(cache.counts().hits, 2);
  Get(cache, b);
  EXPECT_EQ(cache.counts().misses, 4);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto again, cache.Get(b, /*counted=*/false, kGoOn));
  EXPECT_EQ(cache.counts().hits, 2);
}

TEST_F(FactorCacheTest, AFileLargerThanAllThatIsKeptIsReadWhereItLies) {
  const auto a = File("a", 1);
  FactorCache cache(a->bytes() - 1);
  EXPECT_EQ(Get(cache, a), a);
  EXPECT_EQ(Get(cache, a), a);
  EXPECT_EQ(cache.counts().misses, 2);
  EXPECT_EQ(cache.counts().bytes, 0);
}

TEST_F(FactorCacheTest, WhatIsInMemoryStaysWhatItWasAndAFileThatWasWrittenToIsNotTaken) {
  const auto a = File("a", 1), b = File("b", 2);
  FactorCache cache(1 << 20);
  const auto loaded = Get(cache, a);
  std::string other = ReadFile(a->path());
  other.append("more");
  WriteFile(a->path(), other);
  WriteFile(b->path(), other);
  EXPECT_EQ(First(*loaded), 1);
  EXPECT_THAT(loaded->CheckUnchanged(), IsOk());
  EXPECT_EQ(First(*Get(cache, a)), 1);
  EXPECT_THAT(cache.Get(b, true, kGoOn).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(b->path() + ": has been written to")));
  EXPECT_EQ(cache.counts().bytes, a->bytes());
}

TEST_F(FactorCacheTest, AFileThatWasTakenAwayIsStillItself) {
  const auto a = File("a", 1);
  std::filesystem::remove(a->path());
  EXPECT_THAT(a->CheckUnchanged(), IsOk());
  FactorCache cache(1 << 20);
  EXPECT_EQ(First(*Get(cache, a)), 1);
}

TEST_F(FactorCacheTest, ALargeFileIsReadInPiecesAndWhatIsSaidBetweenThemEndsIt) {
  std::vector<float> values(10 << 20, 1.0f);  // 40 MiB
  const std::string path = folder_.File("large");
  ASSERT_THAT(WriteSafetensors(path, {{"x", Tensor(DType::kF32, {10 << 20}, values.data())}}), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto file, SafetensorsFile::Open(path));
  FactorCache cache(1 << 30);
  int pieces = 0;
  const auto second = [&] { return ++pieces == 2 ? absl::CancelledError("enough") : absl::OkStatus(); };
  EXPECT_THAT(cache.Get(file, true, second).status(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
  EXPECT_EQ(cache.counts().bytes, 0);
  KINORA_ASSERT_OK_AND_ASSIGN(const auto loaded, cache.Get(file, true, second));  // the next run may read it
  EXPECT_EQ(pieces, 5);
  EXPECT_EQ(First(*loaded), 1);
  EXPECT_EQ(&loaded->tensors(), &file->tensors());  // both share one header
}

}  // namespace
}  // namespace kinora
