// The transformer against the references, whole and shared out over ranks in every way.
#include "engine/pipeline/velocity_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/status_macros.h"
#include "engine/model/config_reader.h"
#include "engine/ops/backend.h"
#include "tests/testing/allocations.h"
#include "tests/testing/golden.h"
#include "tests/testing/ranks.h"

namespace kinora {
namespace {

using Floats = std::vector<float>;
void Select(Exec& exec, const VelocityModel& model, const Tensor& step, int32_t i) {
  exec.ops.stream().CopyFromHost(&i, step);
  model.SelectStep(exec, step);
}

struct Velocity {
  Floats video, audio;
  CollectiveCounts tokens, tensor;
  int64_t allocations = 0;  // of the step
  bool operator==(const Velocity& other) const { return video == other.video && audio == other.audio; }
};

// [batch, axes, tokens, 2] starts and ends -> [axes][tokens] middles.
std::vector<Floats> Middles(const Tensor& bounds) {
  std::vector<Floats> middles(bounds.dim(1));
  const float* p = bounds.data<float>();
  for (int64_t axis = 0; axis < bounds.dim(1); ++axis) {
    for (int64_t i = 0; i < bounds.dim(2); ++i, p += 2) middles[axis].push_back((p[0] + p[1]) / 2.0f);
  }
  return middles;
}

// What one run of a golden's forward pass is given.
struct Case {
  Golden& golden;
  PassList passes = {Pass::kCond};
  std::vector<int> uncond_rows = {0, 0};  // rows of the contexts' batch: uncond, cond
  std::vector<int> video_stg = {}, audio_stg = {};
  DType dtype = DType::kF32;
  float audio_sigma = -1;  // below 0: as the video's
  Floats audio_mask = {};
  bool capture = false;
  PerModality<ModalityUse> use = {};
};

class TransformerGolden {
 public:
  explicit TransformerGolden(Golden& weights) {
    const ModelFiles files{.paths = {weights.WriteCheckpoint()}};
    checkpoint_ = *Checkpoint::Open(files);
    config_ = ParseLightricksConfig(weights.metadata("config"), weights.metadata("model_version"))->transformer;
  }

  absl::StatusOr<Velocity> Run(const Mesh& mesh, const Case& c) const {
    KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, OpenBackend("cpu", {}));
    KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(checkpoint_, mesh, *backend, c.dtype));
    KINORA_ASSIGN_OR_RETURN(auto transformer, Transformer::Load(loader.Under("transformer"), config_));
    KINORA_RETURN_IF_ERROR(loader.Finish());
    KINORA_ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(64 << 20));
    std::memset(memory.data(), 0xff, memory.bytes());  // NaN: what is read before it is written shows
    Arena arena(std::move(memory));
    Exec exec{.backend = *backend, .arena = arena, .host = arena, .mesh = mesh, .dtype = c.dtype};
    VelocityInputs inputs = Inputs(exec, c);
    KINORA_ASSIGN_OR_RETURN(VelocityModel model, VelocityModel::Prepare(exec, *transformer, inputs));
    for (ModalityInputs* of : {&inputs.of.video, &inputs.of.audio}) {
      for (auto& axis : of->positions) std::fill(axis.begin(), axis.end(), std::nanf(""));
      for (auto* host : {&of->mask, &of->sigmas}) {
        std::fill(host->begin(), host->end(), std::nanf(""));  // the model must not look at the host again
      }
    }

    const Tensor& video = c.golden.Get("in.video");
    const Tensor& audio = c.golden.Get("in.audio");
    const PerModality<int64_t> tokens = model.tokens();
    const PerModality<Tensor> z{arena.Alloc(DType::kF32, {model.rows().video, video.width()}),
                                arena.Alloc(DType::kF32, {model.rows().audio, audio.width()})};
    exec.ops.Fill(0.0f, z.video);
    std::memcpy(z.video.raw(), video.raw(), tokens.video * video.width() * 4);
    std::memcpy(z.audio.raw(), audio.raw(), z.audio.bytes());
    const PerModality<Tensor> v{arena.Alloc(DType::kF32, {model.passes() * tokens.video, video.width()}),
                                arena.Alloc(DType::kF32, {model.passes() * tokens.audio, audio.width()})};
    const Tensor step = arena.Alloc(DType::kI32, {1});
    int64_t allocations = 0;
    const CollectiveCounts tokens_before = mesh.tokens().counts(), tensor_before = mesh.tensor().counts();
    if (c.capture) {
      // Captured and run once for another noise level and other latents, then replayed for these.
      KINORA_ASSIGN_OR_RETURN(auto graph, exec.ops.stream().Capture([&] { model.Forward(exec, c.use, z, v); }));
      exec.ops.Scale(z.video, 0.5f, z.video);
      exec.ops.Scale(z.audio, -2.0f, z.audio);
      Select(exec, model, step, 0);
      graph->Replay();
      exec.ops.Scale(z.video, 2.0f, z.video);
      exec.ops.Scale(z.audio, -0.5f, z.audio);
      const int64_t before = AllocationsOfThisThread();
      Select(exec, model, step, 1);
      graph->Replay();
      allocations = AllocationsOfThisThread() - before;
    } else {
      Select(exec, model, step, 1);
      model.Forward(exec, c.use, z, v);
    }
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
    Velocity out{.video = Floats(v.video.data<float>(), v.video.data<float>() + v.video.elements()),
                 .audio = Floats(v.audio.data<float>(), v.audio.data<float>() + v.audio.elements()),
                 .tokens = mesh.tokens().counts(),
                 .tensor = mesh.tensor().counts(),
                 .allocations = allocations};
    for (int i = 0; i < kCollectives; ++i) {
      out.tokens[i].calls -= tokens_before[i].calls;
      out.tensor[i].calls -= tensor_before[i].calls;
    }
    return out;
  }

  Velocity Single(const Case& c) const {
    absl::StatusOr<Velocity> v = Run(*Mesh::Single(), c);
    EXPECT_TRUE(v.ok()) << v.status().ToString();
    return v.ok() ? *v : Velocity{};
  }

  const TransformerConfig& config() const { return config_; }

 private:
  VelocityInputs Inputs(Exec& exec, const Case& c) const {
    VelocityInputs inputs;
    ModalityInputs &video = inputs.of.video, &audio = inputs.of.audio;
    if (c.use.video != ModalityUse::kAbsent) video.positions = Middles(c.golden.Get("in.video_positions"));
    if (c.use.audio != ModalityUse::kAbsent) audio.positions = Middles(c.golden.Get("in.audio_positions"));
    inputs.passes = c.passes;
    video.perturbed_blocks = c.video_stg;
    audio.perturbed_blocks = c.audio_stg;
    const auto context = [&](int row) {
      const auto copy = [&](const char* name) {
        const Tensor from = c.golden.Get(name).Rows(row, row + 1).As2D();
        Tensor to = exec.arena.Alloc(exec.dtype, from.shape());
        exec.ops.stream().Copy(from, to);
        return to;
      };
      return TextContext{copy("in.video_context"), copy("in.audio_context")};
    };
    inputs.uncond = context(c.uncond_rows[0]);
    inputs.cond = context(c.uncond_rows[1]);
    const float sigma = c.golden.Get("in.sigma").data<float>()[0];
    video.sigmas = {0.5f * sigma, sigma};  // the step compared is the second
    audio.sigmas = {0.25f, c.audio_sigma < 0 ? sigma : c.audio_sigma};
    audio.mask = c.audio_mask;
    if (c.golden.Has("in.video_mask")) {
      const Tensor& mask = c.golden.Get("in.video_mask");
      video.mask.assign(mask.data<float>(), mask.data<float>() + mask.elements());
    }
    if (c.golden.Has("in.video_attention_mask")) {
      const Tensor& mask = c.golden.Get("in.video_attention_mask");
      video.self_bias = exec.arena.Alloc(DType::kF32, {mask.dim(1), mask.dim(2)});
      for (int64_t i = 0; i < mask.elements(); ++i) {
        const float m = mask.data<float>()[i];
        video.self_bias.data<float>()[i] = m > 0 ? std::log(m) : -std::numeric_limits<float>::max();
      }
    }
    return inputs;
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
  TransformerConfig config_;
};

testing::AssertionResult NearFloats(const Floats& actual, const Tensor& expected, double tolerance) {
  if (static_cast<int64_t>(actual.size()) != expected.elements()) {
    return testing::AssertionFailure() << actual.size() << " values, expected " << expected.elements();
  }
  return Near(Tensor(DType::kF32, expected.shape(), const_cast<float*>(actual.data())), expected, tolerance);
}

const double kExact = Tolerance(TestBackend::kCpu, DType::kF32);
const PassList kAllPasses = {Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated};

class BothGenerations : public testing::TestWithParam<const char*> {
 protected:
  std::string Name(const std::string& suffix = "") const { return std::string("transformer_") + GetParam() + suffix; }
};
INSTANTIATE_TEST_SUITE_P(Transformer, BothGenerations, testing::Values("2_0", "2_3"));

void ExpectGolden(const Velocity& v, Golden& golden) {
  EXPECT_TRUE(NearFloats(v.video, golden.Get("out.video"), kExact));
  EXPECT_TRUE(NearFloats(v.audio, golden.Get("out.audio"), kExact));
}

TEST_P(BothGenerations, VelocityEqualsTheReferenceWithUniformTimesteps) {
  Golden golden(Name());
  const TransformerGolden t(golden);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Velocity v =
        t.Single({.golden = golden, .passes = {Pass::kUncond, Pass::kCond}, .uncond_rows = {0, 1}, .dtype = dtype});
    EXPECT_TRUE(NearFloats(v.video, golden.Get("out.video"), Tolerance(TestBackend::kCpu, dtype))) << DTypeName(dtype);
    EXPECT_TRUE(NearFloats(v.audio, golden.Get("out.audio"), Tolerance(TestBackend::kCpu, dtype))) << DTypeName(dtype);
  }
}

TEST_P(BothGenerations, VelocityEqualsTheReferenceWithATimestepAToken) {
  Golden weights(Name()), golden(Name("_per_token"));
  const Velocity v = TransformerGolden(weights).Single({.golden = golden});
  ExpectGolden(v, golden);
}

TEST_P(BothGenerations, FourGuidancePassesInOneBatchEqualTheReference) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  const Velocity v =
      t.Single({.golden = golden, .passes = kAllPasses, .uncond_rows = {0, 1}, .video_stg = {1}, .audio_stg = {1}});
  ExpectGolden(v, golden);
  for (const std::string modality : {"video", "audio"}) {
    Case only{.golden = golden, .passes = {Pass::kPerturbed}, .uncond_rows = {0, 1}};
    (modality == "video" ? only.video_stg : only.audio_stg) = {0};
    const Velocity perturbed = t.Single(only);
    EXPECT_TRUE(NearFloats(perturbed.video, golden.Get("out.stg_" + modality + "_only.video"), kExact)) << modality;
    EXPECT_TRUE(NearFloats(perturbed.audio, golden.Get("out.stg_" + modality + "_only.audio"), kExact)) << modality;
  }
}

TEST_P(BothGenerations, AReplayedStepAllocatesNothing) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Case c{.golden = golden,
                 .passes = kAllPasses,
                 .uncond_rows = {0, 1},
                 .video_stg = {1},
                 .dtype = dtype,
                 .capture = true};
    EXPECT_EQ(t.Single(c).allocations, 0);
    for (const MeshShape& shape : {MeshShape{.tokens = 2}, {.guidance = 2}, {.tensor = 2}}) {
      for (const Velocity& v : RunRanks<Velocity>(shape, [&](const Mesh& mesh) { return t.Run(mesh, c); }))
        EXPECT_EQ(v.allocations, 0);
    }
  }
}

TEST_P(BothGenerations, AStreamThatIsNotUpdatedStillGivesKeysAndValues) {
  Golden weights(Name()), golden(Name("_guidance"));
  Case c{.golden = golden, .passes = kAllPasses, .uncond_rows = {0, 1}, .video_stg = {1}, .audio_stg = {1}};
  c.use = {.video = ModalityUse::kUpdated, .audio = ModalityUse::kHeld};
  EXPECT_TRUE(NearFloats(TransformerGolden(weights).Single(c).video, golden.Get("out.audio_skipped.video"), kExact));
}

TEST(Transformer, AFrozenModalityHasNoNoiseAndStillGivesKeys) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_frozen_audio");
  const Velocity v = TransformerGolden(weights).Single({.golden = golden, .audio_sigma = 0});
  ExpectGolden(v, golden);
}

TEST(Transformer, ASelfAttentionMaskEqualsTheReference) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_mask");
  const Velocity v = TransformerGolden(weights).Single({.golden = golden});
  ExpectGolden(v, golden);
}

// The isolated pass attends to no other modality: alone, a modality's velocity is that pass's.
TEST_P(BothGenerations, AnAbsentModalityLeavesTheOtherAsItsIsolatedPassHasIt) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  Case c{.golden = golden, .passes = {Pass::kCond, Pass::kIsolated}, .uncond_rows = {0, 1}};
  const Velocity both = t.Single(c);
  c.passes = {Pass::kCond};
  const auto half = [](const Floats& v) { return Floats(v.begin() + static_cast<int64_t>(v.size() / 2), v.end()); };
  c.use = {.video = ModalityUse::kAbsent, .audio = ModalityUse::kUpdated};
  EXPECT_TRUE(t.Single(c).audio == half(both.audio));
  c.use = {.video = ModalityUse::kUpdated, .audio = ModalityUse::kAbsent};
  EXPECT_TRUE(t.Single(c).video == half(both.video));
}

TEST_P(BothGenerations, TokenAndGuidanceRanksEqualOneRankBitForBit) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Case c{.golden = golden,
                 .passes = kAllPasses,
                 .uncond_rows = {0, 1},
                 .video_stg = {1},
                 .audio_stg = {1},
                 .dtype = dtype};
    const Velocity one = t.Single(c);
    for (const MeshShape& shape :
         {MeshShape{.tokens = 2}, {.tokens = 4}, {.guidance = 2}, {.guidance = 4}, {.guidance = 2, .tokens = 2}}) {
      for (const Velocity& v : RunRanks<Velocity>(shape, [&](const Mesh& mesh) { return t.Run(mesh, c); })) {
        EXPECT_TRUE(v == one) << shape.ToString() << " " << DTypeName(dtype);
      }
    }
  }
}

TEST(Transformer, ThreePassesOnTwoGuidanceRanksEqualOneRankBitForBit) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_guidance");
  const TransformerGolden t(weights);
  for (const PassList& passes : {PassList{Pass::kUncond, Pass::kCond, Pass::kPerturbed},
                                 {Pass::kUncond, Pass::kCond, Pass::kIsolated},
                                 {Pass::kCond}}) {
    const Case c{.golden = golden, .passes = passes, .uncond_rows = {0, 1}, .video_stg = {1}, .audio_stg = {0}};
    const Velocity one = t.Single(c);
    for (const Velocity& v : RunRanks<Velocity>({.guidance = 2}, [&](const Mesh& mesh) { return t.Run(mesh, c); }))
      EXPECT_TRUE(v == one);
  }
}

TEST_P(BothGenerations, TensorRanksEqualOneRankWithinRounding) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  const Case c{.golden = golden, .passes = kAllPasses, .uncond_rows = {0, 1}, .video_stg = {1}, .audio_stg = {1}};
  for (const MeshShape& shape : {MeshShape{.tensor = 2}, {.tokens = 2, .tensor = 2}}) {
    for (const Velocity& v : RunRanks<Velocity>(shape, [&](const Mesh& mesh) { return t.Run(mesh, c); })) {
      EXPECT_TRUE(NearFloats(v.video, golden.Get("out.video"), 1e-5)) << shape.ToString();
      EXPECT_TRUE(NearFloats(v.audio, golden.Get("out.audio"), 1e-5)) << shape.ToString();
    }
  }
}

TEST(Transformer, ABlockMakesThreeCollectivesForTokensAndOnlySumsForTensor) {
  Golden weights("transformer_2_3");
  const TransformerGolden t(weights);
  const Case c{.golden = weights};
  const auto calls = [](const CollectiveCounts& counts, Collective op) { return counts[static_cast<int>(op)].calls; };
  const int64_t layers = t.config().layers;
  for (const Velocity& v : RunRanks<Velocity>({.tokens = 2}, [&](const Mesh& mesh) { return t.Run(mesh, c); })) {
    EXPECT_EQ(calls(v.tokens, Collective::kAllToAll), 2 * layers);
    EXPECT_EQ(calls(v.tokens, Collective::kAllGather), layers + 1);  // and the output's
    EXPECT_EQ(calls(v.tokens, Collective::kAllReduceSum), 0);
  }
  for (const Velocity& v : RunRanks<Velocity>({.tensor = 2}, [&](const Mesh& mesh) { return t.Run(mesh, c); })) {
    // Eight sums of outputs a block, and six of squares for the norms over all heads.
    EXPECT_EQ(calls(v.tensor, Collective::kAllReduceSum), 14 * layers);
    EXPECT_EQ(calls(v.tensor, Collective::kAllGather), 0);
    EXPECT_EQ(calls(v.tensor, Collective::kAllToAll), 0);
  }
}

TEST(Transformer, AStepCapturedForOtherNoiseAndLatentsEqualsAnEagerOneBitForBit) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_guidance");
  const TransformerGolden t(weights);
  Case c{.golden = golden, .passes = kAllPasses, .uncond_rows = {0, 1}, .video_stg = {1}, .audio_stg = {1}};
  const Velocity eager = t.Single(c);
  c.capture = true;
  EXPECT_TRUE(t.Single(c) == eager);
  c.dtype = DType::kBF16;
  const Velocity captured = t.Single(c);
  c.capture = false;
  EXPECT_TRUE(captured == t.Single(c));
  c.dtype = DType::kF32;
  c.capture = true;
  for (const Velocity& v : RunRanks<Velocity>({.tokens = 2}, [&](const Mesh& mesh) { return t.Run(mesh, c); }))
    EXPECT_TRUE(v == eager);
}

}  // namespace
}  // namespace kinora
