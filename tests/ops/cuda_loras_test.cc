// LoRAs that the simulated device adds to weights: the sums are those of float32 rounded once, whatever was there
// before, and removing them restores the bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "engine/base/status_macros.h"
#include "engine/ops/clean_weights.h"
#include "engine/ops/cuda/cuda_weight.h"
#include "engine/ops/cuda_traits.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/weights/weight_loader.h"
#include "tests/simt/control.h"
#include "tests/testing/status_matchers.h"
#include "tests/weights/test_files.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using Values = std::vector<float>;

// Values that a file of this dtype holds.
Values Random(int64_t count, int seed, DType dtype, float scale = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  Values values(count);
  for (float& value : values) {
    value = uniform(generator);
    if (dtype == DType::kBF16) value = static_cast<float>(bf16(value));
  }
  return values;
}

// A matrix in a file, with its values.
struct InFile {
  Shape shape;
  Values values;
};

// A checkpoint with linear layers q and k, and LoRAs for them.
class CudaLoras : public testing::Test {
 protected:
  CudaLoras() : backend_(*OpenBackend("cuda", {.threads = 3})) {}

  // Writes tensors as `dtype`.
  std::shared_ptr<const SafetensorsFile> Write(const std::string& name, const std::map<std::string, InFile>& tensors,
                                               DType dtype) {
    std::vector<std::vector<bf16>> narrow;
    std::vector<std::pair<std::string, Tensor>> views;
    for (const auto& [key, tensor] : tensors) {
      narrow.emplace_back(tensor.values.begin(), tensor.values.end());
      const void* const data =
          dtype == DType::kF32 ? static_cast<const void*>(tensor.values.data()) : narrow.back().data();
      views.emplace_back(key, Tensor(dtype, tensor.shape, const_cast<void*>(data)));
    }
    EXPECT_THAT(WriteSafetensors(folder_.File(name), views), IsOk());
    return *SafetensorsFile::Open(folder_.File(name));
  }
  void WriteModel(int64_t out, int64_t in, DType dtype) {
    q_ = Random(out * in, 1, dtype), k_ = Random(out * in, 2, dtype);
    const std::string prefix = "model.diffusion_model.";
    Write("m.safetensors", {{prefix + "q.weight", {{out, in}, q_}}, {prefix + "k.weight", {{out, in}, k_}}}, dtype);
    checkpoint_ = *Checkpoint::Open({.paths = {folder_.File("m.safetensors")}});
  }

  // Overwrites the values of the model's file in place.
  void OverwriteModel() {
    const std::string path = folder_.File("m.safetensors");
    const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path));
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const std::streamoff values = static_cast<std::streamoff>(q_.size() + k_.size());  // of two bytes or more
    file.seekp(size - 2 * values);
    file << std::string(2 * values, '\x3e');
    ASSERT_TRUE(file.flush());
  }

  struct Loaded {
    Weight weight;  // q stacked on k, or this rank's part of both
    std::shared_ptr<WeightSet> set;
  };
  absl::StatusOr<Loaded> Load(const Mesh& mesh, const WeightSpec& spec, DType precision) {
    KINORA_ASSIGN_OR_RETURN(WeightLoader loader, WeightLoader::Open(checkpoint_, mesh, *backend_, precision));
    Loaded loaded;
    KINORA_ASSIGN_OR_RETURN(loaded.weight, loader.Under("transformer").LoadWeight({"q", "k"}, spec));
    KINORA_RETURN_IF_ERROR(loader.Finish());
    loaded.set = loader.weights();
    return loaded;
  }
  std::string Bytes(const Weight& w) {
    const Buffer& matrix = CudaWeight::Of(w).matrix;
    std::string bytes(matrix.bytes(), '\0');
    backend_->ops().stream().CopyToHost(matrix.View(DType::kU8, {matrix.bytes()}), bytes.data());
    EXPECT_THAT(backend_->ops().stream().Synchronize(), IsOk());
    return bytes;
  }
  Values Stored(const Weight& w) {
    const std::string bytes = Bytes(w);
    Values values;
    for (int64_t row = 0; row < w.out(); ++row) {
      for (int64_t i = 0; i < w.in(); ++i) {
        const char* const at = bytes.data() + (row * CudaWeight::Of(w).stride + i) * DTypeSize(w.dtype());
        bf16 narrow;
        float value;
        std::memcpy(&narrow, at, sizeof narrow);
        std::memcpy(&value, at, DTypeSize(w.dtype()) == 4 ? 4 : 0);
        values.push_back(w.dtype() == DType::kF32 ? value : static_cast<float>(narrow));
      }
    }
    return values;
  }

  struct Factors {
    int64_t out, rank, in;
    Values up, down;
    std::shared_ptr<const SafetensorsFile> file;
  };
  Factors MakeFactors(int64_t out, int64_t rank, int64_t in, int seed, DType dtype) {
    Factors f{out,
              rank,
              in,
              Random(out * rank, seed, dtype),
              Random(rank * in, seed + 1, dtype, 1 / std::sqrt(static_cast<float>(rank))),
              nullptr};
    f.file = Write("lora" + std::to_string(seed), {{"up", {{out, rank}, f.up}}, {"down", {{rank, in}, f.down}}}, dtype);
    return f;
  }
  static LowRankTerm Term(const Factors& f, float strength) {
    return {.up = TensorSource({f.file.get(), f.file->Find("up")}, 1),
            .down = TensorSource({f.file.get(), f.file->Find("down")}, 1),
            .strength = strength};
  }
  static void AddTo(Values& matrix, const Factors& f, double strength) {
    for (int64_t o = 0; o < f.out; ++o) {
      for (int64_t i = 0; i < f.in; ++i) {
        double sum = 0;
        for (int64_t r = 0; r < f.rank; ++r) sum += static_cast<double>(f.up[o * f.rank + r]) * f.down[r * f.in + i];
        matrix[o * f.in + i] = static_cast<float>(matrix[o * f.in + i] + strength * sum);
      }
    }
  }
  // Expects float32 sums that were rounded once: half a unit in the last place of bf16.
  static void ExpectNear(const Values& stored, const Values& expected, DType dtype) {
    ASSERT_EQ(stored.size(), expected.size());
    for (size_t i = 0; i < stored.size(); ++i) {
      const float rounding = dtype == DType::kBF16 ? std::ldexp(1.0f, std::ilogb(expected[i]) - 8) : 0;
      ASSERT_NEAR(stored[i], expected[i], rounding + 2e-6) << i;
    }
  }

  TempFolder folder_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Mesh> alone_ = Mesh::Single();
  Values q_, k_;
  std::shared_ptr<const Checkpoint> checkpoint_;
};

Values Joined(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(CudaLoras, GoOnByProductsOfTheDeviceFromCleanRowsAndComeOffToTheBit) {
  constexpr int64_t kOut = 40, kIn = 27;
  for (const DType file : {DType::kF32, DType::kBF16}) {
    for (const DType precision : {DType::kF32, DType::kBF16}) {
      WriteModel(kOut, kIn, file);
      KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, {.out = kOut, .in = kIn, .bias = false}, precision));
      const std::string before = Bytes(loaded.weight);
      const Factors a = MakeFactors(kOut, 5, kIn, 11, file), b = MakeFactors(kOut, 3, kIn, 21, file);
      const auto rewrite = [&](const WeightDeltas& deltas) {
        const absl::Status status = loaded.set->Rewrite(deltas, backend_->ops());
        EXPECT_THAT(status, IsOk());
        return Stored(loaded.weight);
      };
      Values k = k_, q = q_;
      AddTo(k, a, 0.5);
      ExpectNear(rewrite({{"transformer.k.weight", {Term(a, 0.5f)}}}), Joined(q_, k), precision);
      k = k_;  // another strength, two at once, and another layer: none of the first sum remains
      AddTo(k, a, -1.25);
      AddTo(k, b, 2);
      AddTo(q, b, 1);
      const WeightDeltas both = {{"transformer.k.weight", {Term(a, -1.25f), Term(b, 2)}},
                                 {"transformer.q.weight", {Term(b, 1)}}};
      const Values two = rewrite(both);
      ExpectNear(two, Joined(q, k), precision);
      EXPECT_EQ(rewrite(both), two);
      rewrite({});
      EXPECT_EQ(Bytes(loaded.weight), before);
    }
  }
}

// The file is overwritten after the first change, which shows where the rows of the second and third come from.
TEST_F(CudaLoras, ChangesStartFromCopiesWhereThereIsMemoryForThem) {
  constexpr int64_t kOut = 40, kIn = 27;
  auto& keeps = dynamic_cast<KeepsCleanWeights&>(*backend_);
  for (const auto& [file, precision] :
       {std::pair{DType::kBF16, DType::kBF16}, {DType::kBF16, DType::kF32}, {DType::kF32, DType::kF32}}) {
    WriteModel(kOut, kIn, file);
    const Factors a = MakeFactors(kOut, 5, kIn, 11, file), b = MakeFactors(kOut, 3, kIn, 21, file);
    const WeightDeltas first = {{"transformer.k.weight", {Term(a, 0.5f)}}};
    const WeightDeltas second = {{"transformer.k.weight", {Term(b, 2)}}, {"transformer.q.weight", {Term(a, 1)}}};
    Values q = q_, k = k_;
    AddTo(q, a, 1);
    AddTo(k, b, 2);
    const int64_t bytes = CudaWeightLayout().Bytes(precision, 2 * kOut, 1, kIn);
    for (const CleanMemory& more : {CleanMemory{.device_bytes = bytes}, {.host_bytes = bytes}, {bytes - 1, bytes}}) {
      const CleanMemory before = keeps.clean_weights();
      keeps.KeepCleanWeights({before.device_bytes + more.device_bytes, before.host_bytes + more.host_bytes});
      WriteModel(kOut, kIn, file);
      KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, {.out = kOut, .in = kIn, .bias = false}, precision));
      const std::string clean = Bytes(loaded.weight);
      ASSERT_THAT(loaded.set->Rewrite(first, backend_->ops()), IsOk());
      EXPECT_EQ(keeps.clean_weights().bytes(), before.bytes() + bytes);
      EXPECT_EQ(keeps.clean_weights().host_bytes, before.host_bytes + more.host_bytes);
      OverwriteModel();
      ASSERT_THAT(loaded.set->Rewrite(second, backend_->ops()), IsOk());
      ExpectNear(Stored(loaded.weight), Joined(q, k), precision);
      ASSERT_THAT(loaded.set->Rewrite({}, backend_->ops()), IsOk());
      EXPECT_EQ(Bytes(loaded.weight), clean);
      EXPECT_EQ(keeps.clean_weights().bytes(), before.bytes() + bytes);
    }
  }
}

TEST_F(CudaLoras, WeightsThatFindNoMemoryForACopyOrHaveLostBitsComeFromTheFile) {
  constexpr int64_t kOut = 16, kIn = 32;
  auto& keeps = dynamic_cast<KeepsCleanWeights&>(*backend_);
  const int64_t bytes = CudaWeightLayout().Bytes(DType::kBF16, 2 * kOut, 1, kIn);
  const auto expect_no_copy = [&](DType file, DType precision) {
    WriteModel(kOut, kIn, file);
    KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, {.out = kOut, .in = kIn, .bias = false}, precision));
    const Factors f = MakeFactors(kOut, 2, kIn, 11, file);
    const std::string clean = Bytes(loaded.weight);
    EXPECT_THAT(loaded.set->Rewrite({{"transformer.k.weight", {Term(f, 1)}}}, backend_->ops()), IsOk());
    EXPECT_EQ(keeps.clean_weights(), CleanMemory{});
    Values k = k_;
    AddTo(k, f, 1);
    ExpectNear(Stored(loaded.weight), Joined(q_, k), precision);
    EXPECT_THAT(loaded.set->Rewrite({}, backend_->ops()), IsOk());
    EXPECT_EQ(Bytes(loaded.weight), clean);
    OverwriteModel();
    EXPECT_THAT(loaded.set->Rewrite({{"transformer.k.weight", {Term(f, 1)}}}, backend_->ops()), IsOk());
    EXPECT_THAT(loaded.set->Rewrite({}, backend_->ops()), IsOk());
    EXPECT_NE(Bytes(loaded.weight), clean);
  };
  keeps.KeepCleanWeights({.device_bytes = bytes - 1, .host_bytes = bytes - 1});
  expect_no_copy(DType::kBF16, DType::kBF16);
  keeps.KeepCleanWeights({.device_bytes = 4 * bytes, .host_bytes = 4 * bytes});
  expect_no_copy(DType::kF32, DType::kBF16);
}

TEST_F(CudaLoras, MemoryThatTheSystemDoesNotHaveEndsTheCopiesNotTheChange) {
  constexpr int64_t kOut = 16, kIn = 32;
  auto& keeps = dynamic_cast<KeepsCleanWeights&>(*backend_);
  WriteModel(kOut, kIn, DType::kBF16);
  KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, {.out = kOut, .in = kIn, .bias = false}, DType::kBF16));
  const Factors f = MakeFactors(kOut, 2, kIn, 11, DType::kBF16);
  Values k = k_;
  AddTo(k, f, 1);
  keeps.KeepCleanWeights({.device_bytes = 1 << 20, .host_bytes = 1 << 20});
  simt::FailCall("cudaMalloc", cudaErrorMemoryAllocation);
  simt::FailCall("cudaHostAlloc", cudaErrorMemoryAllocation);
  ASSERT_THAT(loaded.set->Rewrite({{"transformer.k.weight", {Term(f, 1)}}}, backend_->ops()), IsOk());
  ExpectNear(Stored(loaded.weight), Joined(q_, k), DType::kBF16);
  EXPECT_EQ(keeps.clean_weights(), CleanMemory{});
}

TEST_F(CudaLoras, ACopyThatFailsIsNotTakenForTheWeight) {
  constexpr int64_t kOut = 8, kIn = 16;
  auto& keeps = dynamic_cast<KeepsCleanWeights&>(*backend_);
  WriteModel(kOut, kIn, DType::kBF16);
  KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, {.out = kOut, .in = kIn, .bias = false}, DType::kBF16));
  const std::string before = Bytes(loaded.weight);
  const Factors f = MakeFactors(kOut, 2, kIn, 11, DType::kBF16);
  keeps.KeepCleanWeights({.host_bytes = 1 << 20});
  simt::FailCall("cudaMemcpyAsync", cudaErrorInvalidValue);
  EXPECT_THAT(loaded.set->Rewrite({{"transformer.k.weight", {Term(f, 1)}}}, backend_->ops()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("a copy of a weight")));
  EXPECT_EQ(keeps.clean_weights(), CleanMemory{});
  EXPECT_THAT(loaded.set->Rewrite({}, backend_->ops()), IsOk());
  EXPECT_EQ(Bytes(loaded.weight), before);
}

TEST_F(CudaLoras, EachRankAddsItsPart) {
  constexpr int64_t kOut = 24, kIn = 16;
  WriteModel(kOut, kIn, DType::kBF16);
  const Factors f = MakeFactors(kOut, 4, kIn, 11, DType::kBF16);
  const WeightDeltas deltas = {{"transformer.q.weight", {Term(f, 1)}}, {"transformer.k.weight", {Term(f, -2)}}};
  Values q = q_, k = k_;
  AddTo(q, f, 1);
  AddTo(k, f, -2);
  for (const Split split : {Split::kRows, Split::kColumns}) {
    for (const int rank : {0, 1}) {
      KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.tensor = 2}, rank));
      const WeightSpec spec{.out = kOut, .in = kIn, .bias = false, .split = split};
      KINORA_ASSERT_OK_AND_ASSIGN(const Loaded half, Load(*mesh, spec, DType::kF32));
      ASSERT_THAT(half.set->Rewrite(deltas, backend_->ops()), IsOk());
      const int64_t rows = split == Split::kRows ? kOut / 2 : kOut, columns = split == Split::kRows ? kIn : kIn / 2;
      Values part;
      for (const Values* const whole : {&q, &k}) {
        for (int64_t o = 0; o < rows; ++o) {
          const int64_t row = split == Split::kRows ? rank * rows + o : o;
          const auto from = whole->begin() + row * kIn + (split == Split::kRows ? 0 : rank * columns);
          part.insert(part.end(), from, from + columns);
        }
      }
      ExpectNear(Stored(half.weight), part, DType::kF32);
    }
  }
}

// The first has more rows and their factors, the second more of `down`, than the scratch memory holds at once.
TEST_F(CudaLoras, MatricesAndFactorsThatDoNotFitTheScratchMemoryGoInParts) {
  struct Sizes {
    int64_t out, rank, in;
    DType dtype;
  };
  for (const auto& [out, rank, in, dtype] : {Sizes{400, 50'000, 8, DType::kBF16}, {2, 125'000, 400, DType::kF32}}) {
    WriteModel(out, in, DType::kBF16);
    const Factors f = MakeFactors(out, rank, in, 31, dtype);
    KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, {.out = out, .in = in, .bias = false}, DType::kF32));
    ASSERT_THAT(loaded.set->Rewrite({{"transformer.k.weight", {Term(f, 1)}}}, backend_->ops()), IsOk());
    Values k = k_;
    AddTo(k, f, 1);
    const Values stored = Stored(loaded.weight), expected = Joined(q_, k);
    for (size_t i = 0; i < stored.size(); ++i) ASSERT_NEAR(stored[i], expected[i], 1e-3) << i;
  }
}

TEST_F(CudaLoras, ASumThatIsNotFiniteIsRefusedByItsTensorAndTheNextCallRestores) {
  constexpr int64_t kOut = 9, kIn = 16;
  WriteModel(kOut, kIn, DType::kBF16);
  KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, {.out = kOut, .in = kIn, .bias = false}, DType::kBF16));
  const std::string before = Bytes(loaded.weight);
  Factors f = MakeFactors(kOut, 2, kIn, 11, DType::kBF16);
  const Factors good = f;
  f.up[2 * kOut - 1] = std::numeric_limits<float>::infinity();  // of the last row
  f.file = Write("bad", {{"up", {{kOut, 2}, f.up}}, {"down", {{2, kIn}, f.down}}}, DType::kBF16);
  const WeightDeltas deltas = {{"transformer.q.weight", {Term(f, 1)}}, {"transformer.k.weight", {Term(good, 1)}}};
  EXPECT_THAT(loaded.set->Rewrite(deltas, backend_->ops()),
              StatusIs(absl::StatusCode::kOutOfRange, "transformer.q.weight holds NaN or infinity with its delta"));
  EXPECT_THAT(loaded.set->Rewrite({}, backend_->ops()), IsOk());
  EXPECT_EQ(Bytes(loaded.weight), before);
}

TEST_F(CudaLoras, AFailureOfTheDeviceIsReportedAndTheNextCallRepairs) {
  constexpr int64_t kOut = 8, kIn = 16;
  WriteModel(kOut, kIn, DType::kBF16);
  KINORA_ASSERT_OK_AND_ASSIGN(Loaded loaded, Load(*alone_, {.out = kOut, .in = kIn, .bias = false}, DType::kBF16));
  const std::string before = Bytes(loaded.weight);
  const Factors f = MakeFactors(kOut, 2, kIn, 11, DType::kBF16);
  simt::FailCall("cudaMemcpyAsync", cudaErrorInvalidValue, 2);
  EXPECT_THAT(loaded.set->Rewrite({{"transformer.k.weight", {Term(f, 1)}}}, backend_->ops()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("a weight")));
  EXPECT_THAT(loaded.set->Rewrite({}, backend_->ops()), IsOk());
  EXPECT_EQ(Bytes(loaded.weight), before);
}

}  // namespace
}  // namespace kinora
