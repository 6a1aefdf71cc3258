// Communication and memory of one rank of a group for the released 22B transformer, counted by the code itself on
// shapes only: docs/performance.md "Collectives".
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/config/released_models.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/parallel/redistribute.h"
#include "engine/pipeline/dry_model.h"
#include "engine/pipeline/velocity_model.h"
#include "engine/request/request_rules.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

constexpr int64_t kTextRows = 1024, kAudioTokens = 126, kBf16 = 2, kF32 = 4;
const PassList kTwoPasses = {Pass::kUncond, Pass::kCond};
const PassList kFourPasses = {Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated};

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

ModelConfig Released() { return OrDie(ReleasedModelConfig("ltx-2.3-22b")); }

struct Sent {
  CollectiveCounts tensor, tokens, guidance, world;
};
Sent CountsOf(const Mesh& mesh) {
  return {mesh.tensor().counts(), mesh.tokens().counts(), mesh.guidance().counts(), mesh.world().counts()};
}
int64_t Calls(const CollectiveCounts& counts, Collective op) { return counts[static_cast<int>(op)].calls; }
int64_t Bytes(const CollectiveCounts& counts, Collective op) { return counts[static_cast<int>(op)].bytes; }
int64_t AllCalls(const CollectiveCounts& counts) {
  int64_t calls = 0;
  for (const CollectiveCount& count : counts) calls += count.calls;
  return calls;
}

// Rank 0 of a group with only the transformer, without memory.
class DryRank {
 public:
  explicit DryRank(const MeshShape& shape, const BackendTraits& traits = OrDie(TraitsOf("cuda", {})))
      : mesh_(OrDie(MakeDryMesh(shape))),
        backend_(traits),
        config_(Released().transformer),
        weights_(WeightLoader::Dry(*mesh_, backend_, DType::kBF16)),
        transformer_(OrDie(Transformer::Load(weights_.Under("transformer"), config_))) {}

  // Runs a forward pass. `perturbed` lists the perturbed blocks.
  Sent Forward(int64_t video_tokens, const PassList& passes, const std::vector<int>& perturbed = {}) {
    Arena arena = Arena::Dry(), host = Arena::Dry();
    Exec exec{.backend = backend_, .arena = arena, .host = host, .mesh = *mesh_, .dtype = DType::kBF16};
    VelocityInputs inputs;
    inputs.of.video.positions.assign(3, std::vector<float>(video_tokens, 0.5f));
    inputs.of.audio.positions.assign(1, std::vector<float>(kAudioTokens, 0.5f));
    inputs.of.video.perturbed_blocks = inputs.of.audio.perturbed_blocks = perturbed;
    inputs.of.video.sigmas = inputs.of.audio.sigmas = {1.0f};
    inputs.passes = passes;
    const auto context = [&](int64_t width) { return Tensor(DType::kBF16, {kTextRows, width}, nullptr); };
    inputs.cond = inputs.uncond = {context(config_.video.context_width), context(config_.audio.context_width)};
    const VelocityModel model = OrDie(VelocityModel::Prepare(exec, *transformer_, inputs));
    const auto latent = [&](int64_t rows, int64_t width) { return Tensor(DType::kF32, {rows, width}, nullptr); };
    const int64_t all = static_cast<int64_t>(passes.size());
    const Sent before = CountsOf(*mesh_);
    EXPECT_EQ(AllCalls(before.tokens) + AllCalls(before.guidance), 0) << "before the first step";
    model.Forward(
        exec, {},
        {latent(model.rows().video, config_.video.in_channels), latent(kAudioTokens, config_.audio.in_channels)},
        {latent(all * video_tokens, config_.video.out_channels),
         latent(all * kAudioTokens, config_.audio.out_channels)});
    activation_bytes_ = arena.peak();
    return CountsOf(*mesh_);
  }

  const TransformerConfig& config() const { return config_; }
  int64_t activation_bytes() const { return activation_bytes_; }  // of the last Forward, including its preparation
  int64_t weight_bytes() { return backend_.ops().weight_bytes() + weights_.tensor_bytes(); }

 private:
  const std::unique_ptr<Mesh> mesh_;
  DryBackend backend_;
  const TransformerConfig config_;
  const WeightLoader weights_;
  const std::unique_ptr<Transformer> transformer_;
  int64_t activation_bytes_ = 0;
};

int64_t Padded(int64_t tokens) { return (tokens + kKeyChunks - 1) / kKeyChunks * kKeyChunks; }

constexpr int64_t kVideoTokens[] = {6144, 15360, 7221};

TEST(GroupCounts, TokensTakeThreeCollectivesInABlockAndOneBehindTheBlocks) {
  for (const int ranks : {2, 4, 8}) {
    for (const int64_t tokens : kVideoTokens) {
      for (const int64_t passes : {1, 2}) {
        DryRank rank({.tokens = ranks});
        const TransformerConfig& c = rank.config();
        const Sent sent = rank.Forward(tokens, passes == 1 ? PassList{Pass::kCond} : kTwoPasses);
        EXPECT_EQ(Calls(sent.tokens, Collective::kAllToAll), 2 * c.layers);
        EXPECT_EQ(Calls(sent.tokens, Collective::kAllGather), c.layers + 1);
        EXPECT_EQ(AllCalls(sent.tokens), 3 * c.layers + 1);
        EXPECT_EQ(AllCalls(sent.world) + AllCalls(sent.guidance) + AllCalls(sent.tensor), 0);
        // Sends this rank's rows of queries, keys and values, and receives their attention.
        const int64_t rows = passes * Padded(tokens) / ranks;
        EXPECT_EQ(Bytes(sent.tokens, Collective::kAllToAll),
                  c.layers * (ranks - 1) * (4 * rows * c.video.width() * kBf16) / ranks);
        // For each chunk of keys, query and head of the sound: the sum, its maximum and its weight.
        const int64_t chunks =
            kKeyChunks / ranks * passes * kAudioTokens * c.audio.heads * (c.audio.head_dim + 2) * kF32;
        const int64_t velocity = rows * c.video.out_channels * kF32;
        EXPECT_EQ(Bytes(sent.tokens, Collective::kAllGather), (ranks - 1) * (c.layers * chunks + velocity));
      }
    }
  }
}

// In the perturbed block its pass lies between passes that attend; its rows are exchanged as well. The blocks before it
// have no rows of that pass.
TEST(GroupCounts, ABlockThatIsPerturbedBetweenOtherPassesTakesAsManyCollectivesAsAnyOther) {
  for (const int ranks : {2, 4, 8}) {
    DryRank rank({.tokens = ranks}), first({.tokens = ranks}), other({.tokens = ranks});
    const Sent perturbed = rank.Forward(6144, kFourPasses, {28}), from_first = first.Forward(6144, kFourPasses, {0});
    const Sent three = other.Forward(6144, {Pass::kUncond, Pass::kCond, Pass::kIsolated});
    EXPECT_EQ(AllCalls(perturbed.tokens), 3 * rank.config().layers + 1);
    const auto bytes = [](const Sent& sent) { return Bytes(sent.tokens, Collective::kAllToAll); };
    EXPECT_EQ(3 * bytes(from_first), 4 * bytes(three));
    EXPECT_EQ(48 * bytes(perturbed), 20 * bytes(from_first) + 28 * bytes(three));
  }
}

TEST(GroupCounts, TensorTakesEightSumsInABlockAndOneOfSquaresForEachPairOfNorms) {
  for (const int ranks : {2, 4, 8}) {
    for (const int64_t tokens : kVideoTokens) {
      DryRank rank({.tensor = ranks});
      const TransformerConfig& c = rank.config();
      const Sent sent = rank.Forward(tokens, {Pass::kCond});
      EXPECT_EQ(Calls(sent.tensor, Collective::kAllReduceSum), (8 + 6) * c.layers);
      EXPECT_EQ(AllCalls(sent.tensor), (8 + 6) * c.layers);
      EXPECT_EQ(AllCalls(sent.world) + AllCalls(sent.guidance) + AllCalls(sent.tokens), 0);
      // Each stream is updated four times. The norms are over each stream's own attention, its prompt attention, and
      // both directions of the cross attention.
      const int64_t video = Padded(tokens), audio = kAudioTokens;
      const int64_t sums = 4 * (video * c.video.width() + audio * c.audio.width()) * kBf16;
      const int64_t squares = (2 * video + 2 * audio + video + audio + 2 * kTextRows + 2 * (video + audio)) * kF32;
      EXPECT_EQ(Bytes(sent.tensor, Collective::kAllReduceSum), 2 * (ranks - 1) * c.layers * (sums + squares) / ranks);
    }
  }
}

TEST(GroupCounts, GuidanceTakesNothingInTheBlocksAndOneGatherOfBothModalitiesBehindThem) {
  for (const int ranks : {2, 4}) {
    for (const int64_t tokens : kVideoTokens) {
      DryRank rank({.guidance = ranks});
      const TransformerConfig& c = rank.config();
      const Sent sent = rank.Forward(tokens, kFourPasses, {28});
      EXPECT_EQ(Calls(sent.guidance, Collective::kAllGather), 1);
      EXPECT_EQ(AllCalls(sent.guidance), 1);
      EXPECT_EQ(AllCalls(sent.world) + AllCalls(sent.tensor) + AllCalls(sent.tokens), 0);
      const int64_t pass = (Padded(tokens) * c.video.out_channels + kAudioTokens * c.audio.out_channels) * kF32;
      EXPECT_EQ(Bytes(sent.guidance, Collective::kAllGather), (ranks - 1) * 4 / ranks * pass);
    }
  }
}

// Each axis makes the same collectives as on its own.
TEST(GroupCounts, AMixTakesTheSumOfItsAxes) {
  DryRank rank({.guidance = 2, .tokens = 2, .tensor = 2});
  const Sent sent = rank.Forward(7221, kFourPasses, {28});
  const int64_t layers = rank.config().layers;
  EXPECT_EQ(AllCalls(sent.tokens), 3 * layers + 1);
  EXPECT_EQ(AllCalls(sent.tensor), (8 + 6) * layers);
  EXPECT_EQ(AllCalls(sent.guidance), 1);
  EXPECT_EQ(AllCalls(sent.world), 0);
}

TEST(GroupMemory, TwoTensorRanksHoldLittleMoreThanHalfTheTransformerEach) {
  DryRank one({}), two({.tensor = 2}), four({.tensor = 4});
  EXPECT_LE(static_cast<double>(two.weight_bytes()), 0.55 * static_cast<double>(one.weight_bytes()));
  EXPECT_LE(static_cast<double>(four.weight_bytes()), 0.30 * static_cast<double>(one.weight_bytes()));
  for (const int64_t tokens : kVideoTokens) {
    one.Forward(tokens, kTwoPasses);
    two.Forward(tokens, kTwoPasses);
    const auto held = [](DryRank& rank) { return static_cast<double>(rank.weight_bytes() + rank.activation_bytes()); };
    EXPECT_LE(held(two), 0.55 * held(one)) << tokens;
  }
}

// The unit is one activation of a pass's rows. Rotation tables take 1.5 for two passes, the residual and its norm 2. In
// addition, one rank needs 4 for the feed-forward (or for queries, keys, values and their attention). Several ranks
// need 6 for an exchange, which cannot be in place: queries, keys and values twice. The replicated part (sound,
// contexts, tables of the schedule) is the memory for eight tokens.
TEST(GroupMemory, TokenRanksShareTheVideosActivationsButForTheExchangesBuffers) {
  constexpr double kOne = 1.5 + 2 + 4, kSeveral = 1.5 + 2 + 6;
  for (const int64_t tokens : kVideoTokens) {
    DryRank one({});
    one.Forward(8, kTwoPasses);
    const auto replicated = static_cast<double>(one.activation_bytes());
    one.Forward(tokens, kTwoPasses);
    const auto alone = static_cast<double>(one.activation_bytes());
    for (const int ranks : {2, 4, 8}) {
      DryRank rank({.tokens = ranks});
      rank.Forward(tokens, kTwoPasses);
      RecordProperty(absl::StrCat("bytes_of_", tokens, "_tokens_on_", ranks), absl::StrCat(rank.activation_bytes()));
      EXPECT_LE(static_cast<double>(rank.activation_bytes()), alone * kSeveral / kOne / ranks + replicated) << tokens;
      EXPECT_LT(static_cast<double>(rank.activation_bytes()), 0.8 * alone) << tokens;
    }
  }
}

// The weights that DryModel reports for all ranks: a rank's whole layers of the text side, and all of the transformer
// or the tensor ranks' part.
TEST(GroupMemory, APlanTellsAnEvenShareOfTheTextEncoder) {
  const ModelConfig config = Released();
  const auto plan = [&](const MeshShape& shape, Residence residence, int rank) {
    const auto mesh = OrDie(MakeDryMesh(shape, rank));
    const ModelDescription description = Describe(config, {.kind = "dev"});
    const DryModel model = OrDie(
        DryModel::Make(config, description, *mesh,
                       {.traits = OrDie(TraitsOf("cuda", {})), .precision = DType::kBF16, .text_encoder = residence}));
    return OrDie(model.Plan(OrDie(ResolveRequest(description, {.prompt = "x", .recipe = Recipe::kOneStage})), nullptr));
  };
  constexpr double kGemma = 23.53e9, kLayer = 0.45e9, kEmbeddings = 2.01e9;
  const auto one = static_cast<double>(plan({}, Residence::kResident, 0).weight_bytes);
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, {.guidance = 2, .tokens = 2}, {.guidance = 2, .tokens = 4}}) {
    const RunPlan held = plan(shape, Residence::kResident, 0);
    EXPECT_LE(static_cast<double>(held.weight_bytes), one - kGemma * (1 - 1.0 / shape.ranks()) + kLayer);
    EXPECT_EQ(plan(shape, Residence::kResident, shape.ranks() - 1).weight_bytes, held.weight_bytes);
    const RunPlan evicted = plan(shape, Residence::kEvicted, 0);
    EXPECT_LE(static_cast<double>(evicted.evicted_bytes), kGemma / shape.ranks() + kLayer);
    EXPECT_GE(static_cast<double>(evicted.evicted_bytes), (kGemma - kEmbeddings) / shape.ranks());
  }
}

// One of 40 steps at 1280 x 768 x 121, and the two-stage run at 768 x 512 x 121, of docs/performance.md.
TEST(GroupCounts, OfTheRunsThatOthersPublish) {
  DryRank two({.tokens = 2});
  const Sent step = two.Forward(16 * 40 * 24, kFourPasses, {28});
  EXPECT_EQ(40 * Calls(step.tokens, Collective::kAllGather), 1960);
  EXPECT_EQ(40 * Calls(step.tokens, Collective::kAllToAll), 3840);
  DryRank first({.tensor = 4}), second({.tensor = 4});
  const Sent half = first.Forward(16 * 12 * 8, kFourPasses, {28}), full = second.Forward(16 * 24 * 16, {Pass::kCond});
  EXPECT_EQ(30 * Calls(half.tensor, Collective::kAllReduceSum) + 3 * Calls(full.tensor, Collective::kAllReduceSum),
            22176);
  EXPECT_EQ(AllCalls(half.tensor), Calls(half.tensor, Collective::kAllReduceSum));
  EXPECT_EQ(Calls(half.tensor, Collective::kAllGather), 0);
  const auto run = [](int steps, const Sent& of) {
    return 1e-9 * steps *
           static_cast<double>(Bytes(of.tokens, Collective::kAllGather) + Bytes(of.tokens, Collective::kAllToAll) +
                               Bytes(of.tensor, Collective::kAllReduceSum));
  };
  EXPECT_NEAR(run(40, step), 845.8, 0.1);  // GB sent by one rank
  EXPECT_NEAR(run(30, half) + run(3, full), 402.6, 0.1);
}

}  // namespace
}  // namespace kinora
