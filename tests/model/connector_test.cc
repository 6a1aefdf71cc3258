#include "engine/model/connector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/model/feature_extractor.h"
#include "engine/ops/dry_backend.h"
#include "tests/model/text_rig.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 48;
const std::vector<int64_t> kLengths = {21, 9};

struct Result {
  std::vector<float> video_features, audio_features, video, audio;
};

Tensor View(std::vector<float>& values, int64_t width) {
  return Tensor(DType::kF32, {static_cast<int64_t>(values.size()) / width, width}, values.data());
}

// Runs feature extractor and connectors on the golden's hidden states.
absl::StatusOr<Result> RunConnectors(ModelRig& rig, Golden& golden, const ConnectorConfig& config) {
  WeightLoader weights = rig.Open({.paths = {GoldenCheckpoint(golden.metadata("weights"))}});
  KINORA_ASSIGN_OR_RETURN(const FeatureExtractor extractor,
                          FeatureExtractor::Load(weights.Under("text_projection"), config, {0, config.text_states}));
  KINORA_ASSIGN_OR_RETURN(const Connector video,
                          Connector::Load(weights.Under("connectors").Under("video_embeddings_connector"), config,
                                          config.video, kRows, "video"));
  KINORA_ASSIGN_OR_RETURN(const Connector audio,
                          Connector::Load(weights.Under("connectors").Under("audio_embeddings_connector"), config,
                                          config.audio, kRows, "audio"));
  KINORA_RETURN_IF_ERROR(weights.Finish());
  ArenaScope temp(rig.arena);
  const Tensor& states = golden.Get("in.hidden_states");
  const FeatureExtractor::Features features = extractor.Alloc(temp, kLengths[0] + kLengths[1]);
  rig.exec.ops.Fill(NAN, features.video);
  for (int64_t i = 0; i < config.text_states; ++i) {
    const HostTensor packed = PackValid(states, kLengths, i);
    extractor.Add(rig.exec, i, rig.Upload(packed.tensor(), rig.exec.dtype), kLengths, features);
  }
  Tensor video_out = temp.Alloc(rig.exec.dtype, {2 * kRows, config.video.width()});
  Tensor audio_out = temp.Alloc(rig.exec.dtype, {2 * kRows, config.audio.width()});
  rig.exec.ops.Fill(NAN, video_out);
  rig.exec.ops.Fill(NAN, audio_out);
  video.Forward(rig.exec, features.video, kLengths, video_out);
  audio.Forward(rig.exec, features.audio, kLengths, audio_out);
  return Result{rig.Floats(features.video), rig.Floats(features.audio), rig.Floats(video_out), rig.Floats(audio_out)};
}

class Connectors : public testing::TestWithParam<std::tuple<const char*, DType, TestedBackend>> {};

TEST_P(Connectors, FeaturesAndContextsEqualTheReference) {
  const auto& [generation, dtype, on] = GetParam();
  Golden golden(std::string("connectors_") + generation);
  const ConnectorConfig config = std::string_view(generation) == "2_0" ? TinyConnector20() : TinyConnector23();
  const double tolerance = Tolerance(on, dtype);
  TapCheck taps(golden, tolerance);
  ModelRig rig(on, dtype, &taps.taps());
  Result result = RunConnectors(rig, golden, config).value();
  const int64_t video = config.video.width(), audio = config.audio.width();
  EXPECT_TRUE(Near(View(result.video_features, video), PackValid(golden.Get("tap.features.video"), kLengths).tensor(),
                   tolerance));
  EXPECT_TRUE(Near(View(result.audio_features, audio), PackValid(golden.Get("tap.features.audio"), kLengths).tensor(),
                   tolerance));
  EXPECT_TRUE(taps.Result());
  EXPECT_GE(taps.compared(), 4);
  EXPECT_TRUE(Near(View(result.video, video), golden.Get("out.video_context"), tolerance));
  EXPECT_TRUE(Near(View(result.audio, audio), golden.Get("out.audio_context"), tolerance));
}

INSTANTIATE_TEST_SUITE_P(All, Connectors,
                         testing::Combine(testing::Values("2_0", "2_3"), testing::Values(DType::kF32, DType::kBF16),
                                          testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(DTypeName(std::get<1>(info.param))) + "_" + std::get<2>(info.param).name;
                         });

TEST(Connector, TheGoldenCatchesTheUsualMistakes) {
  const double enough = 100 * Tolerance(TestBackend::kCpu, DType::kF32);
  const auto error = [](const ConnectorConfig& config) {
    Golden golden("connectors_2_3");
    ModelRig rig(Cpu(), DType::kF32);
    Result result = RunConnectors(rig, golden, config).value();
    return RelativeError(View(result.video, config.video.width()), golden.Get("out.video_context"));
  };
  ConnectorConfig config = TinyConnector23();
  config.rope_max_position = 1;
  EXPECT_GE(error(config), enough);
  config = TinyConnector23();
  config.rope_theta = 1000;
  EXPECT_GE(error(config), enough);
}

// Two blocks; 2.0 has 3 heads.
TEST(Connector, ContextsAreEqualOnAllRanksOfAnyMeshWithTheBitsOfOneRank) {
  for (const char* generation : {"2_0", "2_3"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const bool first = std::string_view(generation) == "2_0";
      const auto run = [&](const Mesh& mesh) -> absl::StatusOr<Result> {
        Golden golden(std::string("connectors_") + generation);
        ModelRig rig(Cpu(), dtype, nullptr, &mesh);
        return RunConnectors(rig, golden, first ? TinyConnector20() : TinyConnector23());
      };
      const Result one = RunRanks<Result>({}, run)[0];
      for (const MeshShape& shape : {MeshShape{.tensor = 2}, {.tokens = 2, .tensor = 2}, {.tokens = 8}}) {
        for (const Result& result : RunRanks<Result>(shape, run)) {
          EXPECT_TRUE(result.video == one.video && result.audio == one.audio) << shape.ToString();
        }
      }
    }
  }
}

TEST(FeatureExtractor, OneProjectionForTwoWidthsIsRefused) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  ConnectorConfig config = TinyConnector20();
  config.audio.heads = 2;
  EXPECT_THAT(FeatureExtractor::Load(WeightLoader::Dry(*mesh, backend, DType::kF32), config, {0, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("aggregate_embed")));
}

struct Count {
  ConnectorConfig config;
  double projections, video, audio;  // millions (docs/model.md "Parameters and FLOPs")
};

TEST(Connector, ReleasedSizesHaveTheirParameters) {
  for (const Count& count : {Count{ReleasedConnector20(), 722.5, 354.5, 354.5},
                             Count{ReleasedConnector23(), 770.7 + 385.4, 1612.5, 403.6}}) {
    DryBackend backend;
    const auto mesh = Mesh::Single();
    const auto millions = [&](const auto& load) {
      WeightLoader weights = WeightLoader::Dry(*mesh, backend, DType::kBF16);
      EXPECT_TRUE(load(weights).ok());
      return static_cast<double>(weights.recorded_elements()) / 1e6;
    };
    EXPECT_NEAR(millions([&](const WeightLoader& w) {
                  return FeatureExtractor::Load(w, count.config, {0, 49}).status();
                }),
                count.projections, 0.1);
    EXPECT_NEAR(millions([&](const WeightLoader& w) {
                  return Connector::Load(w, count.config, count.config.video, 1024, "v").status();
                }),
                count.video, 0.05);
    EXPECT_NEAR(millions([&](const WeightLoader& w) {
                  return Connector::Load(w, count.config, count.config.audio, 1024, "a").status();
                }),
                count.audio, 0.05);
  }
}

}  // namespace
}  // namespace kinora
