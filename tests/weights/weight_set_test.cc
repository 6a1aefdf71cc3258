// Adding and removing a LoRA in place.
#include "engine/weights/weight_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "engine/base/status_macros.h"
#include "engine/ops/cpu_weight.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/weights/weight_loader.h"
#include "tests/testing/status_matchers.h"
#include "tests/weights/test_files.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;
constexpr int64_t kOut = 40, kIn = 24, kRank = 3;

Floats Random(int64_t count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

Tensor View(Floats& values, const Shape& shape) { return Tensor(DType::kF32, shape, values.data()); }

class Rewriting : public testing::Test {
 protected:
  Rewriting() : backend_(*OpenBackend("cpu", {.threads = 2})) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const char* name : {"q.weight", "k.weight"}) {
      values_.push_back(Random(kOut * kIn, static_cast<int>(values_.size()) + 1));
      tensors.emplace_back(std::string("model.diffusion_model.") + name, View(values_.back(), {kOut, kIn}));
    }
    bias_ = Random(kOut, 9);
    tensors.emplace_back("model.diffusion_model.q.bias", View(bias_, {kOut}));
    tensors.emplace_back("model.diffusion_model.k.bias", View(bias_, {kOut}));
    EXPECT_THAT(WriteSafetensors(folder_.File("m.safetensors"), tensors), IsOk());
    checkpoint_ = *Checkpoint::Open({.paths = {folder_.File("m.safetensors")}});
  }

  struct Loaded {
    Weight weight;
    std::shared_ptr<WeightSet> set;
  };
  // Loads q stacked on k, or this rank's part of both.
  absl::StatusOr<Loaded> Load(const Mesh& mesh, DType precision, Split split = Split::kNone) {
    KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(checkpoint_, mesh, *backend_, precision));
    Loaded loaded;
    KINORA_ASSIGN_OR_RETURN(
        loaded.weight, loader.Under("transformer").LoadWeight({"q", "k"}, {.out = kOut, .in = kIn, .split = split}));
    KINORA_RETURN_IF_ERROR(loader.Finish());
    loaded.set = loader.weights();
    return loaded;
  }
  static std::string Stored(const Weight& weight) {
    const CpuWeight& stored = CpuWeight::Of(weight);
    return std::string(static_cast<const char*>(stored.panels.data()), stored.panels.bytes()) +
           std::string(static_cast<const char*>(stored.bias.data()), stored.bias.bytes());
  }
  // Writes strength · up · down to a new file, as [out, rank] and [rank, in].
  LowRankTerm Term(float strength, int64_t out = kOut) {
    Floats up(out * kRank);
    for (size_t i = 0; i < up.size(); ++i) up[i] = up_[i % up_.size()];
    const std::string path = folder_.File("lora" + std::to_string(factors_.size()) + ".safetensors");
    EXPECT_THAT(WriteSafetensors(path, {{"up", View(up, {out, kRank})}, {"down", View(down_, {kRank, kIn})}}), IsOk());
    const auto& file = factors_.emplace_back(*SafetensorsFile::Open(path));
    return {.up = TensorSource({file.get(), file->Find("up")}, 1),
            .down = TensorSource({file.get(), file->Find("down")}, 1),
            .strength = strength};
  }
  // Returns the whole matrix of `k` with strength · up · down added.
  Floats WithDelta(float strength) {
    Floats sum = values_[1];
    for (int64_t o = 0; o < kOut; ++o) {
      for (int64_t i = 0; i < kIn; ++i) {
        float delta = 0;
        for (int64_t r = 0; r < kRank; ++r) delta += strength * up_[o * kRank + r] * down_[r * kIn + i];
        sum[o * kIn + i] += delta;
      }
    }
    return sum;
  }

  TempFolder folder_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Mesh> alone_ = Mesh::Single();
  std::vector<Floats> values_;
  Floats bias_, up_ = Random(kOut * kRank, 21), down_ = Random(kRank * kIn, 22);
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<std::shared_ptr<const SafetensorsFile>> factors_;
};

TEST_F(Rewriting, ALoraGoesOnAndComesOffAndNoWeightMoves) {
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, precision));
    const std::string before = Stored(loaded.weight);
    const void* address = CpuWeight::Of(loaded.weight).panels.data();
    Ops& ops = backend_->ops();
    Floats x = Random(5 * kIn, 3), y(5 * 2 * kOut), expected(5 * 2 * kOut);
    auto graph = *ops.stream().Capture([&] {
      ops.Matmul(View(x, {5, kIn}), loaded.weight, {}, View(y, {5, 2 * kOut}));
    });
    graph->Replay();
    const Floats plain = y;

    ASSERT_THAT(loaded.set->Rewrite({{"transformer.k.weight", {Term(0.5f)}}}, ops), IsOk());
    graph->Replay();
    Floats matrix = values_[0], k = WithDelta(0.5f), bias = bias_;
    matrix.insert(matrix.end(), k.begin(), k.end());
    bias.insert(bias.end(), bias_.begin(), bias_.end());
    const Tensor bias_view = View(bias, {2 * kOut});
    const Weight merged = *ops.PrepareWeight(View(matrix, {2 * kOut, kIn}), &bias_view, precision);
    ops.Matmul(View(x, {5, kIn}), merged, {}, View(expected, {5, 2 * kOut}));
    for (int64_t i = 0; i < 5 * 2 * kOut; ++i) {
      ASSERT_NEAR(y[i], expected[i], precision == DType::kF32 ? 1e-5 : 1e-1) << DTypeName(precision) << " " << i;
      if (i % (2 * kOut) < kOut) {
        ASSERT_EQ(y[i], plain[i]) << "q has no delta";
      }
    }
    EXPECT_NE(y, plain);
    EXPECT_EQ(CpuWeight::Of(loaded.weight).panels.data(), address);

    int rewritten = 0;
    const auto enough = [&] { return ++rewritten > 0 ? absl::CancelledError("enough") : absl::OkStatus(); };
    EXPECT_THAT(loaded.set->Rewrite({}, ops, enough), StatusIs(absl::StatusCode::kCancelled));
    EXPECT_EQ(rewritten, 1);
    ASSERT_THAT(loaded.set->Rewrite({}, ops), IsOk());  // repairs it
    EXPECT_EQ(Stored(loaded.weight), before);
    EXPECT_EQ(CpuWeight::Of(loaded.weight).panels.data(), address);
    graph->Replay();
    EXPECT_EQ(y, plain);
  }
}

TEST_F(Rewriting, EachRankAddsItsPartOfTheDelta) {
  const WeightDeltas deltas = {{"transformer.q.weight", {Term(-2)}}, {"transformer.k.weight", {Term(1), Term(0.5)}}};
  Floats x = Random(kIn, 3), whole(2 * kOut), y(2 * kOut);
  const auto multiply = [&](const Tensor& in, const Loaded& loaded, Floats& out) {
    backend_->ops().Matmul(in, loaded.weight, {}, View(out, {1, loaded.weight.out()}));
  };
  KINORA_ASSERT_OK_AND_ASSIGN(const Loaded one, Load(*alone_, DType::kF32));
  ASSERT_THAT(one.set->Rewrite(deltas, backend_->ops()), IsOk());
  multiply(View(x, {1, kIn}), one, whole);
  for (int rank : {0, 1}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.tensor = 2}, rank));
    KINORA_ASSERT_OK_AND_ASSIGN(const Loaded half, Load(*mesh, DType::kF32, Split::kRows));
    ASSERT_THAT(half.set->Rewrite(deltas, backend_->ops()), IsOk());
    multiply(View(x, {1, kIn}), half, y);
    for (int64_t o = 0; o < kOut; ++o) {  // this rank's half of q, then of k
      const int64_t of = o / (kOut / 2) * kOut + rank * kOut / 2 + o % (kOut / 2);
      EXPECT_FLOAT_EQ(y[o], whole[of]) << rank << " " << o;
    }
  }
}

// Compares sums over the whole matrix and over slices of any width, including partial tiles.
TEST_F(Rewriting, ABlockOfADeltaHasTheBitsOfTheWhole) {
  const std::vector<LowRankTerm> terms = {Term(0.3f), Term(-1.7f)};
  KINORA_ASSERT_OK_AND_ASSIGN(const LowRankDelta delta, LowRankDelta::Read(terms));
  Floats whole(kOut * kIn);
  delta.AddTo({.rows = kOut, .columns = kIn}, whole.data());
  for (const Block& block : {Block{3, 7, 5, 13}, Block{0, 4, 0, 8}, Block{39, 1, 23, 1}, Block{8, 32, 12, 12}}) {
    Floats part(block.rows * block.columns);
    delta.AddTo(block, part.data());
    for (int64_t row = 0; row < block.rows; ++row) {
      for (int64_t i = 0; i < block.columns; ++i) {
        ASSERT_EQ(part[row * block.columns + i], whole[(block.row + row) * kIn + block.column + i]) << row << " " << i;
      }
    }
  }
}

// A text layer lies on one rank; other ranks only check its name and shape.
TEST_F(Rewriting, ADeltaForWhatAnotherRankHoldsIsCheckedAndLeftToIt) {
  KINORA_ASSERT_OK_AND_ASSIGN(WeightLoader loader, WeightLoader::Open(checkpoint_, *alone_, *backend_, DType::kF32));
  const WeightLoader inner = loader.Under("transformer");
  KINORA_ASSERT_OK_AND_ASSIGN(const Weight q, WeightLoader(inner).LoadWeight({"q"}, {.out = kOut, .in = kIn}));
  KINORA_ASSERT_OK_AND_ASSIGN(const Weight k, inner.HeldElsewhere().LoadWeight({"k"}, {.out = kOut, .in = kIn}));
  ASSERT_THAT(loader.Finish(), IsOk());
  const std::string before = Stored(q);
  EXPECT_THAT(loader.weights()->Rewrite({{"transformer.k.weight", {Term(1)}}}, backend_->ops()), IsOk());
  EXPECT_EQ(Stored(q), before);
  EXPECT_THAT(loader.weights()->Rewrite({{"transformer.k.weight", {Term(1, kOut + 1)}}}, backend_->ops()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("transformer.k.weight: the delta is")));
}

TEST_F(Rewriting, AnUnknownTensorIsRefusedByNameBeforeAnythingChanges) {
  KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, DType::kF32));
  const std::string before = Stored(loaded.weight);
  EXPECT_THAT(
      loaded.set->Rewrite({{"transformer.k.weight", {Term(1)}}, {"transformer.v.weight", {Term(1)}}}, backend_->ops()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("transformer.v.weight")));
  EXPECT_EQ(Stored(loaded.weight), before);
}

TEST_F(Rewriting, ADeltaOfAnotherShapeIsRefusedByNameBeforeAnythingChanges) {
  KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, DType::kF32));
  const std::string before = Stored(loaded.weight);
  for (const int64_t out : {kOut - 1, kOut + 1}) {
    EXPECT_THAT(loaded.set->Rewrite({{"transformer.k.weight", {Term(1, out)}}}, backend_->ops()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("transformer.k.weight: the delta is")));
    EXPECT_EQ(Stored(loaded.weight), before);
  }
}

TEST_F(Rewriting, ADeltaThatIsNotFiniteIsRefusedAndTheNextCallRestores) {
  KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, DType::kBF16));
  const std::string before = Stored(loaded.weight);
  down_[5] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(loaded.set->Rewrite({{"transformer.k.weight", {Term(1)}}}, backend_->ops()),
              StatusIs(absl::StatusCode::kOutOfRange, "transformer.k.weight holds NaN or infinity with its delta"));
  EXPECT_THAT(loaded.set->Rewrite({}, backend_->ops()), IsOk());
  EXPECT_EQ(Stored(loaded.weight), before);
}

}  // namespace
}  // namespace kinora
