// Resume points as files: read back bit for bit, and rejected by name where their bytes are cut, changed or extended.
#include "engine/pipeline/resume_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <random>

#include "engine/weights/safetensors.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

ResumeFile Sample() {
  ResumeFile file;
  file.point = {.stage = 2, .step = 7};
  file.point.values["video.z"] = {.shape = {3, 2}, .values = {1, -0.0f, 3e-42f, 4, 5, 6}};
  file.point.values["audio.z"] = {
      .shape = {1, 2}, .values = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}};
  file.fingerprint = {{"mesh", "tokens=2"}, {"file ltx.safetensors", "sha256:01"}, {"request", ""}};
  return file;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

void ExpectEqual(const ResumeFile& a, const ResumeFile& b) {
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  EXPECT_EQ(a.point.stage, b.point.stage);
  EXPECT_EQ(a.point.step, b.point.step);
  ASSERT_EQ(a.point.values.size(), b.point.values.size());
  for (const auto& [name, value] : a.point.values) {
    const auto found = b.point.values.find(name);
    ASSERT_NE(found, b.point.values.end()) << name;
    EXPECT_EQ(value.shape, found->second.shape) << name;
    EXPECT_EQ(Bits(value.values), Bits(found->second.values)) << name;
  }
}

// The bytes of a file with this metadata and one float in a tensor of this shape.
std::string With(const std::map<std::string, std::string>& metadata, const std::vector<int64_t>& shape = {1, 1},
                 DType dtype = DType::kF32) {
  const Shape of{shape};
  const int64_t bytes = of.elements() * DTypeSize(dtype);
  const TensorInfo tensor{.name = "video.z", .dtype = dtype, .shape = of, .offset = 0, .bytes = bytes};
  return SafetensorsHeaderBytes({.tensors = {tensor}, .metadata = metadata}) + std::string(bytes, '\0');
}

const std::map<std::string, std::string> kMetadata = {{"kinora_resume", "1"}, {"stage", "1"}, {"step", "2"}};

TEST(ResumeFiles, AreReadBackBitForBit) {
  KINORA_ASSERT_OK_AND_ASSIGN(const ResumeFile read, ParseResumeFile(ToBytes(Sample())));
  ExpectEqual(read, Sample());
  KINORA_ASSERT_OK_AND_ASSIGN(const ResumeFile empty, ParseResumeFile(ToBytes({})));
  ExpectEqual(empty, {});
}

TEST(ResumeFiles, ThatAreCutOffOrExtendedAreRejected) {
  const std::string bytes = ToBytes(Sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ParseResumeFile(bytes.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resume file: ")))
        << size;
  }
  for (const size_t more : {1, 4, 4096}) {
    EXPECT_THAT(ParseResumeFile(bytes + std::string(more, '\0')), StatusIs(absl::StatusCode::kInvalidArgument)) << more;
  }
}

TEST(ResumeFiles, WithFlippedBitsAreRejectedOrReadAsWhatTheySay) {
  const std::string bytes = ToBytes(Sample());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << bit);
      const absl::StatusOr<ResumeFile> read = ParseResumeFile(flipped);
      if (!read.ok()) {
        EXPECT_THAT(read, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resume file: "))) << at;
        continue;
      }
      KINORA_ASSERT_OK_AND_ASSIGN(const ResumeFile again, ParseResumeFile(ToBytes(*read)));
      ExpectEqual(again, *read);
    }
  }
}

TEST(ResumeFiles, OfRandomBytesAreRejected) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (bytes.size() >= 8 && i % 2 == 0)
      bytes.replace(0, 8, std::string{static_cast<char>(random() % 190), 0, 0, 0, 0, 0, 0, 0});
    EXPECT_THAT(ParseResumeFile(bytes), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(ResumeFiles, AreRejectedByTheNameOfWhatIsWrong) {
  EXPECT_THAT(ParseResumeFile(With(kMetadata)), IsOk());
  const auto expect = [](const std::string& bytes, const char* why) {
    EXPECT_THAT(ParseResumeFile(bytes), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  const auto without = [](const char* name) {
    auto metadata = kMetadata;
    metadata.erase(name);
    return With(metadata);
  };
  const auto changed = [](const char* name, const char* text) {
    auto metadata = kMetadata;
    metadata[name] = text;
    return With(metadata);
  };
  expect(without("kinora_resume"), "kinora_resume is missing");
  expect(changed("kinora_resume", "2"), "kinora_resume: not version 1");
  for (const char* name : {"stage", "step"}) {
    expect(without(name), name);
    for (const char* text : {"", "-1", "+1", " 1", "01", "1.0", "x", "99999999999999999999"})
      expect(changed(name, text), name);
  }
  expect(changed("other", "1"), "other: not a field");
  expect(With(kMetadata, {1}), "video.z: 1 dimensions");
  expect(With(kMetadata, {1, 1, 1}), "video.z: 3 dimensions");
  expect(With(kMetadata, {1, 1}, DType::kBF16), "video.z: dtype BF16");
  std::string length = With(kMetadata);
  length[7] = '\x7f';
  expect(length, "header of ");
}

// A header that claims more than a file may have is rejected before anything is allocated for it.
TEST(ResumeFiles, HaveHeadersOfOneMebibyteAtMost) {
  auto metadata = kMetadata;
  metadata["run.x"] = std::string(size_t{1} << 20, 'x');
  EXPECT_THAT(ParseResumeFile(With(metadata)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("header of ")));
}

TEST(ResumeFiles, AreNoLargerThanThePlanAllows) {
  RunPlan plan;
  plan.stages.resize(2);
  plan.stages[0].carried = {{"video.z", {3, 2}}, {"audio.z", {1, 2}}};
  plan.stages[1].carried = {{"video.z", {1, 2}}};
  EXPECT_GE(MostResumeFileBytes(plan), static_cast<int64_t>(ToBytes(Sample()).size()));
  plan.stages[1].carried = {{"video.z", {1000, 128}}};
  EXPECT_GT(MostResumeFileBytes(plan), 1000 * 128 * 4);
  EXPECT_LT(MostResumeFileBytes(plan), 1000 * 128 * 4 + (2 << 20));
}

}  // namespace
}  // namespace kinora
