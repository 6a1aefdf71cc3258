// Rotation tables that are kept between requests.
#include "engine/pipeline/rope_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "engine/base/status_macros.h"
#include "engine/config/released_models.h"
#include "engine/ops/dry_backend.h"
#include "engine/pipeline/pipeline.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;

// A table of `tokens` tokens with 32 bytes each, at positions that `start` shifts.
RopeTable TableOf(int64_t tokens, float start = 0) {
  RopeTable table{.shape = {.width = 8, .max_positions = {20, 2048}, .double_precision = true},
                  .positions = {{}, {}},
                  .first_token = 0,
                  .tokens = tokens,
                  .first_column = 0,
                  .columns = 4};
  for (int64_t i = 0; i < tokens; ++i) {
    table.positions[0].push_back(start + 0.25f * static_cast<float>(i));
    table.positions[1].push_back(16.0f * static_cast<float>(i));
  }
  return table;
}

// Counts what Get does, in an arena of 1 MiB whose last 128 KiB keep tables of at most 4,096 tokens together.
class RopeTablesTest : public testing::Test {
 protected:
  RopeTablesTest() { ropes_.MakeRoom(arena_, 0); }
  // Returns the calls of ops and copies.
  int64_t Calls(const std::vector<RopeTable>& wanted) {
    const int64_t before = backend_.ops().cost().calls();
    last_ = ropes_.Get(exec_, wanted);
    return backend_.ops().cost().calls() - before;
  }

  DryBackend backend_;
  const std::unique_ptr<Mesh> mesh_ = Mesh::Single();
  Arena arena_{*Buffer::Allocate(1 << 20)};
  Exec exec_{.backend = backend_, .arena = arena_, .host = arena_, .mesh = *mesh_};
  RopeTables ropes_;
  RopeTables::Stage last_;
};

TEST_F(RopeTablesTest, ASecondStageOfTheSameTablesComputesAndCopiesNothing) {
  const std::vector<RopeTable> a = {TableOf(10), TableOf(20)}, b = {TableOf(10), TableOf(20, 1)};
  EXPECT_GT(Calls(a), 0);
  const Tensor first = last_.tables[1].sin;
  EXPECT_GT(Calls(b), 0) << "the same sizes at other positions";
  EXPECT_NE(last_.tables[1].sin.raw(), first.raw());
  EXPECT_EQ(Calls(a), 0);
  EXPECT_TRUE(last_.kept);
  EXPECT_EQ(last_.tables[1].sin.raw(), first.raw());
  EXPECT_EQ(Calls(b), 0);
  EXPECT_EQ(ropes_.made(), 2);
  EXPECT_EQ(arena_.used(), 0) << "kept tables take nothing from the stage's memory";
}

TEST_F(RopeTablesTest, EverythingThatDecidesATableIsPartOfItsKey) {
  std::vector<RopeTable> all(8, TableOf(16));
  all[1].shape.theta = 1000;
  all[2].shape.max_positions[1] = 1024;
  all[3].shape.double_precision = false;
  all[4].positions[1][15] += 1;
  all[5].first_token = 8;
  all[6].columns = 2;
  all[7].columns = 2;
  all[7].first_column = 2;
  for (int i = 0; i < 2; ++i) {
    for (const RopeTable& each : all) Calls({each});
    EXPECT_EQ(ropes_.made(), 8);
  }
}

TEST_F(RopeTablesTest, TheTablesUsedLongestAgoGiveWayAndTooLargeOnesAreNotKept) {
  for (const float start : {1.0f, 2.0f, 1.0f, 3.0f}) Calls({TableOf(2000, start)});  // the third drops the second
  EXPECT_EQ(ropes_.kept(), 2);
  EXPECT_EQ(Calls({TableOf(2000, 1)}), 0);
  EXPECT_EQ(Calls({TableOf(2000, 3)}), 0);
  EXPECT_GT(Calls({TableOf(2000, 2)}), 0);
  const ArenaScope scope(arena_);
  EXPECT_GT(Calls({TableOf(6000)}), 0);
  EXPECT_FALSE(last_.kept);
  EXPECT_EQ(arena_.used(), 2 * 6000 * 4 * 4);
  EXPECT_EQ(ropes_.kept(), 2) << "it drops nothing that it cannot replace";
}

TEST_F(RopeTablesTest, ARunThatNeedsTheirMemoryGetsIt) {
  Calls({TableOf(2000, 1)});  // the end of the arena
  Calls({TableOf(2000, 2)});
  ropes_.MakeRoom(arena_, (1 << 20) - 2 * 2000 * 4 * 4);
  EXPECT_EQ(ropes_.kept(), 1);
  EXPECT_EQ(Calls({TableOf(2000, 1)}), 0);
  ropes_.MakeRoom(arena_, 1 << 20);
  EXPECT_EQ(ropes_.kept(), 0);
  EXPECT_EQ(arena_.capacity(), arena_.bytes());
  EXPECT_GT(Calls({TableOf(2000, 1)}), 0);
  EXPECT_FALSE(last_.kept);
}

TEST_F(RopeTablesTest, WithoutRoomNothingIsKept) {
  RopeTables never;
  const ArenaScope scope(arena_);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(never.Get(exec_, {TableOf(10)}).kept);
  EXPECT_EQ(never.made(), 2);
}

class KeptRopes : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, KeptRopes, testing::ValuesIn(Backends()), BackendName);

TEST_P(KeptRopes, HoldTheValuesOfFreshOnes) {
  ModelRig rig(GetParam(), DType::kF32);
  RopeTable part = TableOf(40, 3);
  part.first_token = 30;  // ten tokens past the last
  part.tokens = 20;
  part.first_column = 1;
  part.columns = 3;
  const std::vector<RopeTable> wanted = {TableOf(40, 2), part};
  const ArenaScope scope(rig.arena);
  RopeTables fresh, ropes;
  const RopeTables::Stage expected = fresh.Get(rig.exec, wanted);
  ropes.MakeRoom(rig.arena, 1 << 20);
  for (int i = 0; i < 2; ++i) {
    const RopeTables::Stage stage = ropes.Get(rig.exec, wanted);
    for (size_t table = 0; table < wanted.size(); ++table) {
      EXPECT_EQ(rig.Floats(stage.tables[table].cos), rig.Floats(expected.tables[table].cos)) << table;
      EXPECT_EQ(rig.Floats(stage.tables[table].sin), rig.Floats(expected.tables[table].sin)) << table;
    }
  }
  const std::vector<float> whole = rig.Floats(expected.tables[0].cos);
  ASSERT_EQ(whole.size(), 160u);
  EXPECT_NE(whole[4], whole[8]);
}

// Steps between two float32 values.
int64_t Ulps(float a, float b) {
  const auto order = [](float x) {
    const auto bits = std::bit_cast<int32_t>(x);
    return int64_t{bits < 0 ? std::numeric_limits<int32_t>::min() - bits : bits};
  };
  return std::abs(order(a) - order(b));
}

// The tables of a released model's stage for a few tokens, from the first ones to far beyond the largest clip.
std::vector<RopeTable> TablesOf(const TransformerConfig& config) {
  const std::vector<float> seconds = {0.02f, 5.04f, 19.98f, 61.3f}, pixels = {16, 1072, 2032, 8176};
  std::vector<RopeTable> tables;
  for (const ModalityConfig* modality : {&config.video, &config.audio}) {
    RopeTable table{.shape = {.width = modality->width(),
                              .max_positions = modality->max_positions,
                              .theta = config.rope_theta,
                              .double_precision = config.rope_double_precision},
                    .positions = {seconds},
                    .first_token = 0,
                    .tokens = 4,
                    .first_column = 0,
                    .columns = modality->width() / 2};
    if (table.shape.max_positions.size() == 3) table.positions.insert(table.positions.end(), {pixels, pixels});
    tables.push_back(table);
  }
  RopeTable cross = tables[1];
  cross.first_column = cross.columns /= 2;  // the second of two ranks
  tables.push_back(cross);
  return tables;
}

// The angles' rounding to float32 is the model's (docs/model.md "Positions"); from there on it is double precision.
TEST_P(KeptRopes, OfReleasedModelsAreWithinAnUlpOfTablesInDoublePrecision) {
  for (const std::string& name : ReleasedModelNames()) {
    KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig config, ReleasedModelConfig(name));
    ModelRig rig(GetParam(), DType::kF32);
    const ArenaScope scope(rig.arena);
    const std::vector<RopeTable> wanted = TablesOf(config.transformer);
    ASSERT_EQ(wanted[0].positions.size(), 3u);
    RopeTables ropes;
    const RopeTables::Stage stage = ropes.Get(rig.exec, wanted);
    for (size_t t = 0; t < wanted.size(); ++t) {
      const RopeTable& table = wanted[t];
      const RopeFactors factors = FactorsOfRope(table.shape, table.positions);
      const std::vector<float> cos = rig.Floats(stage.tables[t].cos), sin = rig.Floats(stage.tables[t].sin);
      const auto axes = static_cast<int64_t>(table.positions.size());
      for (int64_t i = 0; i < table.tokens * table.columns; ++i) {
        const int64_t turned = table.first_column + i % table.columns - factors.pad;
        float angle = 0;
        if (turned >= 0) {
          angle =
              factors.fractions[turned % axes * table.tokens + i / table.columns] * factors.frequencies[turned / axes];
        }
        ASSERT_LE(Ulps(cos[i], static_cast<float>(std::cos(static_cast<double>(angle)))), 1) << name << " " << i;
        ASSERT_LE(Ulps(sin[i], static_cast<float>(std::sin(static_cast<double>(angle)))), 1) << name << " " << i;
      }
    }
  }
}

class FrameKeeper : public ClipSink {
 public:
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor& rgb8) override {
    rgb8_.insert(rgb8_.end(), rgb8.data<uint8_t>(), rgb8.data<uint8_t>() + rgb8.elements());
    return absl::OkStatus();
  }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
  std::vector<uint8_t> rgb8_;
};

GenerationRequest Request(double frame_rate) {
  GenerationRequest request{.prompt = "a red ball", .width = 64, .height = 64, .num_frames = 9};
  request.frame_rate = frame_rate;
  request.recipe = Recipe::kOneStage;
  request.seed = 7;
  request.num_inference_steps = 3;
  return request;
}

// Loads the tiny model with an arena of `share` times what a request needs.
absl::StatusOr<std::unique_ptr<Pipeline>> Load(const Mesh& mesh, int share) {
  const std::string models = KINORA_SOURCE_DIR "/models/tiny/";
  PipelineOptions options{.device = "cpu"};
  options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = models + "gemma";
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, Pipeline::Plan(options, mesh, Request(23.5)));
  options.arena_bytes = share * plan.arena_bytes;
  return Pipeline::Load(options, mesh);
}

absl::StatusOr<std::vector<uint8_t>> Render(Pipeline& pipeline, double frame_rate) {
  FrameKeeper sink;
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline.Prepare(Request(frame_rate)));
  KINORA_RETURN_IF_ERROR(pipeline.Generate(plan, &sink, nullptr));
  return sink.rgb8_;
}

// Captured steps hold the tables' addresses, so a rate has a graph of its own.
TEST(RopeTablesOfRequests, AreMadeOncePerShapeAndFrameRateAndChangeNoPixel) {
  const auto mesh = Mesh::Single();
  KINORA_ASSERT_OK_AND_ASSIGN(const auto roomy, Load(*mesh, 4));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto tight, Load(*mesh, 1));
  std::vector<int64_t> made, captures;
  for (const double rate : {24.0, 24.0, 23.5, 24.0, 23.5}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto clip, Render(*roomy, rate));
    KINORA_ASSERT_OK_AND_ASSIGN(const auto alone, Render(*tight, rate));
    EXPECT_TRUE(clip == alone) << rate;
    made.push_back(roomy->rope_tables_made());
    captures.push_back(roomy->captures());
  }
  EXPECT_THAT(made, ElementsAre(1, 1, 2, 2, 2));
  EXPECT_THAT(captures, ElementsAre(1, 1, 2, 2, 2));
}

}  // namespace
}  // namespace kinora
