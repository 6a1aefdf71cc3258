// The decoder's noise is that of draws one after the other, whatever was drawn ahead, for how long, and on which rank.
#include "engine/pipeline/decoder_noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSeed = 7;
// Smaller than a block of values, of three parts with a rest, of whole parts, and of one part.
const std::vector<Shape> kDraws = {{1, 1, 1, 5}, {3, 9, 321, 357}, {1, 4, 1024, 1024}, {3, 1, 4, 4}};

int64_t Largest() {
  int64_t largest = 0;
  for (const Shape& draw : kDraws) largest = std::max(largest, draw.elements());
  return largest;
}

std::vector<std::vector<float>> OneAfterTheOther() {
  NoiseSource source(kSeed);
  std::vector<std::vector<float>> draws;
  for (const Shape& shape : kDraws) {
    draws.emplace_back(shape.elements());
    source.Fill(absl::MakeSpan(draws.back()));
  }
  return draws;
}

// Takes all draws and expects those that are wanted.
void ExpectDraws(ModelRig& rig, DecoderNoise& noise, const std::vector<int64_t>& wanted) {
  const std::vector<std::vector<float>> expected = OneAfterTheOther();
  for (int64_t draw = 0; draw < noise.draws(); ++draw) {
    const bool wants = std::count(wanted.begin(), wanted.end(), draw) > 0;
    const auto values = noise.Take(rig.exec, wants);
    ASSERT_TRUE(values.ok()) << values.status();
    const std::vector<float> none;
    EXPECT_TRUE(values->values == absl::MakeConstSpan(wants ? expected[draw] : none)) << draw;
  }
}

class DecoderNoiseTest : public testing::Test {
 protected:
  ModelRig rig_{Cpu(), DType::kF32, nullptr, nullptr, Largest() * int64_t{sizeof(float)} + 64};
  NoiseSource source_{kSeed};
  GivenNoise given_;
};

TEST_F(DecoderNoiseTest, IsThatOfDrawsOneAfterTheOther) {
  for (const std::vector<int64_t>& wanted : std::vector<std::vector<int64_t>>{{0, 1, 2, 3}, {1, 3}, {2}, {}}) {
    ArenaScope scope(rig_.exec.host);
    NoiseSource source(kSeed);
    DecoderNoise noise(rig_.exec, source, given_, kDraws);
    ExpectDraws(rig_, noise, wanted);
  }
}

// Stops after every possible number of parts: before earlier draws are skipped, within the draw, and at its end.
TEST_F(DecoderNoiseTest, IsTheSameHoweverFarADrawWasAdvanced) {
  for (int64_t ahead = 0; ahead < static_cast<int64_t>(kDraws.size()); ++ahead) {
    std::vector<int64_t> wanted(kDraws.size() - ahead);
    std::iota(wanted.begin(), wanted.end(), ahead);
    bool more = true;
    for (int parts = 0; more; ++parts) {
      ArenaScope scope(rig_.exec.host);
      NoiseSource source(kSeed);
      DecoderNoise noise(rig_.exec, source, given_, kDraws);
      for (int part = 0; part < parts; ++part) more = noise.Advance(ahead);
      ExpectDraws(rig_, noise, wanted);
    }
  }
}

TEST_F(DecoderNoiseTest, IsTheSameWhereAThreadHasMadeSomeOfIt) {
  for (int i = 0; i < 12; ++i) {
    ArenaScope scope(rig_.exec.host);
    NoiseSource source(kSeed);
    DecoderNoise noise(rig_.exec, source, given_, kDraws);
    noise.DrawAhead(i % 3);
    std::vector<int64_t> wanted = {i % 3, 3};
    if (i < 6) ExpectDraws(rig_, noise, wanted);  // otherwise nothing is taken, as in a run that is cancelled
  }
}

TEST_F(DecoderNoiseTest, IsReplacedByWhatTheRequestGivesAndLaterDrawsStay) {
  const Shape& shape = kDraws[1];
  HostArray& given = given_.draws["decoder_noise_tile1"];
  given = {.shape = {1, shape[0], shape[1], shape[2], shape[3]}, .values = std::vector<float>(shape.elements(), 0.5f)};
  const std::vector<std::vector<float>> expected = OneAfterTheOther();
  for (const bool ahead : {false, true}) {
    ArenaScope scope(rig_.exec.host);
    NoiseSource source(kSeed);
    DecoderNoise noise(rig_.exec, source, given_, kDraws);
    while (ahead && noise.Advance(1)) {
    }
    ASSERT_TRUE(noise.Take(rig_.exec, false).ok());
    EXPECT_TRUE(noise.Take(rig_.exec, true).value().values == absl::MakeConstSpan(given.values));
    EXPECT_TRUE(noise.Take(rig_.exec, true).value().values == absl::MakeConstSpan(expected[2])) << ahead;
  }
  given.shape.back() += 1;
  ArenaScope scope(rig_.exec.host);
  DecoderNoise noise(rig_.exec, source_, given_, kDraws);
  ASSERT_TRUE(noise.Take(rig_.exec, true).ok());
  EXPECT_THAT(noise.Take(rig_.exec, false).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("decoder_noise_tile1: shape [1, 3, 9, 321, 358], but this request needs")));
}

}  // namespace
}  // namespace kinora
