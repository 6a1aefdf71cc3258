#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "engine/ops/cpu_weight.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "tests/testing/status_matchers.h"
#include "tests/weights/loading.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;
TEST_F(Loading, StackedLayersFollowEachOther) {
  const Floats q = Numbers(15), k = Numbers(15, 7), q_bias = Numbers(3, 2), k_bias = Numbers(3, 9);
  Add("block.q.weight", {3, 5}, q);
  Add("block.k.weight", {3, 5}, k);
  Add("block.q.bias", {3}, q_bias);
  Add("block.k.bias", {3}, k_bias);
  WeightLoader loader = Open().Under("block");
  KINORA_ASSERT_OK_AND_ASSIGN(const Weight weight, loader.LoadWeight({"q", "k"}, {.out = 3, .in = 5}));
  ASSERT_THAT(loader.Finish(), IsOk());
  Floats expected = q, bias, expected_bias = q_bias;
  expected.insert(expected.end(), k.begin(), k.end());
  expected_bias.insert(expected_bias.end(), k_bias.begin(), k_bias.end());
  EXPECT_EQ(Matrix(weight, &bias), expected);
  EXPECT_EQ(bias, expected_bias);
}

TEST_F(Loading, EachTensorRankGetsItsRowsOrColumnsAndTheBiasOnce) {
  const Floats a = Numbers(24), b = Numbers(24, 3), bias = Numbers(4);
  Add("a.weight", {4, 6}, a);
  Add("b.weight", {4, 6}, b);
  Add("a.bias", {4}, bias);
  for (int rank : {0, 1}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.tensor = 2}, rank));
    WeightLoader loader = Open(*mesh);
    KINORA_ASSERT_OK_AND_ASSIGN(
        const Weight rows, loader.LoadWeight({"a", "b"}, {.out = 4, .in = 6, .bias = false, .split = Split::kRows}));
    Floats expected(a.begin() + rank * 12, a.begin() + rank * 12 + 12);
    expected.insert(expected.end(), b.begin() + rank * 12, b.begin() + rank * 12 + 12);
    EXPECT_EQ(Matrix(rows), expected);

    KINORA_ASSERT_OK_AND_ASSIGN(const Weight columns,
                                loader.LoadWeight({"a"}, {.out = 4, .in = 6, .split = Split::kColumns}));
    Floats slice, read_bias;
    for (int row = 0; row < 4; ++row)
      slice.insert(slice.end(), a.begin() + row * 6 + rank * 3, a.begin() + row * 6 + rank * 3 + 3);
    EXPECT_EQ(Matrix(columns, &read_bias), slice);
    EXPECT_EQ(columns.has_bias(), rank == 0);
    EXPECT_EQ(read_bias, rank == 0 ? bias : Floats(4, 0));

    KINORA_ASSERT_OK_AND_ASSIGN(const Weight row_bias,
                                loader.LoadWeight({"a"}, {.out = 4, .in = 6, .split = Split::kRows}));
    Matrix(row_bias, &read_bias);
    EXPECT_EQ(read_bias, Floats(bias.begin() + rank * 2, bias.begin() + rank * 2 + 2));
    KINORA_ASSERT_OK_AND_ASSIGN(const Parameter part, loader.LoadTensor("a.bias", {4}, {.split = Split::kRows}));
    EXPECT_EQ(Values(part), Floats(bias.begin() + rank * 2, bias.begin() + rank * 2 + 2));
    KINORA_ASSERT_OK_AND_ASSIGN(const Weight whole,
                                loader.On(*mesh_).LoadWeight({"a"}, {.out = 4, .in = 6, .split = Split::kRows}));
    EXPECT_EQ(Matrix(whole), a);
    EXPECT_THAT(loader.Finish(), IsOk());
  }
  KINORA_ASSERT_OK_AND_ASSIGN(const auto four, MakeDryMesh({.tensor = 4}, 0));
  EXPECT_THAT(
      Open(*four).LoadWeight({"a"}, {.out = 4, .in = 6, .split = Split::kColumns}),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("a.weight"), HasSubstr("6 does not divide into 4"))));
}

TEST_F(Loading, TensorsAreRoundedAddedToAndKeepTheirShape) {
  Add("norm", {3}, {0.5f, -1, 2});
  Add("table", {2, 2}, {1.00390625f, 1, 2, 3});  // the first lies between two bfloat16 values
  WeightLoader loader = Open();
  KINORA_ASSERT_OK_AND_ASSIGN(const Parameter norm, loader.LoadTensor("norm", {3}, {.add = 1}));
  EXPECT_EQ(Values(norm), Floats({1.5f, 0, 3}));
  KINORA_ASSERT_OK_AND_ASSIGN(const Parameter table, loader.LoadTensor("table", {2, 2}, {.dtype = DType::kBF16}));
  EXPECT_EQ(table.tensor().shape(), Shape({2, 2}));
  EXPECT_EQ(Values(table), Floats({1, 1, 2, 3}));
  EXPECT_THAT(loader.Finish(), IsOk());
}

TEST_F(Loading, PerTensorFp8IsDequantisedExactly) {
  AddBytes("a.weight", DType::kF8E4M3, {2, 2}, {0x38, 0xb9, 0x01, 0x7e});  // 1, −1.125, 2^−9, 448
  Add("a.weight_scale", {}, {0.0625f});
  Add("a.input_scale", {}, {3});
  AddBytes("b.weight", DType::kF8E4M3, {1, 2}, {0x38, 0x40});  // fp8-cast: no scale
  AddBytes("b.bias", DType::kF8E4M3, {1}, {0x30});
  WeightLoader loader = Open();
  KINORA_ASSERT_OK_AND_ASSIGN(const Weight a, loader.LoadWeight({"a"}, {.out = 2, .in = 2, .bias = false}));
  EXPECT_EQ(Matrix(a), Floats({0.0625f, -0.0703125f, std::ldexp(1.0f, -13), 28}));
  KINORA_ASSERT_OK_AND_ASSIGN(const Weight b, loader.LoadWeight({"b"}, {.out = 1, .in = 2}));
  Floats bias;
  EXPECT_EQ(Matrix(b, &bias), Floats({1, 2}));
  EXPECT_EQ(bias, Floats({0.5f}));
  EXPECT_THAT(loader.Finish(), IsOk());
}

TEST_F(Loading, BlockwiseScalesAndNvfp4AreRefusedByName) {
  AddBytes("a.weight", DType::kF8E4M3, {2, 2}, {1, 2, 3, 4});
  Add("a.weight_scale", {2, 1}, {1, 1});
  WeightLoader loader = Open();
  EXPECT_THAT(loader.LoadWeight({"a"}, {.out = 2, .in = 2, .bias = false}), IsOk());
  EXPECT_THAT(loader.Finish(), StatusIs(StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("a.weight_scale"), HasSubstr("one float32 scale"))));

  Add("a.weight_scale_2", {}, {1});
  tensors_.front().first = "model.diffusion_model.a.weight";
  tensors_[2].first = "model.diffusion_model.a.weight_scale_2";
  ASSERT_THAT(WriteSafetensors(folder_.File("nvfp4"), tensors_), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open({.paths = {folder_.File("nvfp4")}}));
  EXPECT_THAT(WeightLoader::Open(checkpoint, *mesh_, *backend_, DType::kF32),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("a.weight_scale_2"), HasSubstr("NVFP4 is not supported"))));
}

TEST_F(Loading, EveryProblemIsNamedAtOnce) {
  Add("wrong_shape.weight", {2, 3}, Numbers(6));
  Add("unread.weight", {1}, {1});
  AddBytes("integer.weight", DType::kI32, {1, 1}, {1, 0, 0, 0});
  WeightLoader loader = Open();
  EXPECT_THAT(loader.LoadWeight({"wrong_shape"}, {.out = 3, .in = 2, .bias = false}), IsOk());
  EXPECT_THAT(loader.LoadWeight({"absent"}, {.out = 3, .in = 2}), IsOk());
  EXPECT_THAT(loader.LoadWeight({"integer"}, {.out = 1, .in = 1, .bias = false}), IsOk());
  EXPECT_THAT(loader.LoadConv("conv", {.out = 2, .in = 2, .kernel = {3}}), IsOk());
  EXPECT_THAT(loader.LoadTransposedConv("up", {.out = 2, .in = 2, .kernel = 4, .stride = 2}), IsOk());
  const absl::Status status = loader.Finish();
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("9 problems with the model's tensors")));
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("wrong_shape.weight: shape [2, 3], the configuration needs [3, 2]"),
            HasSubstr("transformer.absent.weight: missing; the model needs it as [3, 2]"),
            HasSubstr("transformer.absent.bias: missing"), HasSubstr("integer.weight: dtype I32 cannot be a weight"),
            HasSubstr("transformer.conv.weight: missing"), HasSubstr("transformer.up.bias: missing"),
            HasSubstr("model.diffusion_model.unread.weight: nothing reads it"), HasSubstr("m.safetensors")));
}

TEST_F(Loading, TheFirstTwentyProblemsAreListed) {
  Add("x", {1}, {1});
  WeightLoader loader = Open();
  for (int i = 0; i < 30; ++i) EXPECT_THAT(loader.LoadTensor("t" + std::to_string(i), {1}), IsOk());
  const std::string message(loader.Finish().message());
  EXPECT_THAT(message,
              AllOf(HasSubstr("31 problems"), HasSubstr("t19:"), Not(HasSubstr("t20:")), HasSubstr("and 11 more")));
}

TEST_F(Loading, ValuesThatAreNotFiniteAreNamedEachOnce) {
  Floats nan = Numbers(6), infinite = Numbers(6);
  nan[4] = std::numeric_limits<float>::quiet_NaN();
  nan[5] = nan[4];
  infinite[0] = -std::numeric_limits<float>::infinity();
  Add("nan.weight", {2, 3}, nan);
  Add("inf", {6}, infinite);
  Add("good", {1}, {std::numeric_limits<float>::max()});
  AddBytes("f8", DType::kF8E4M3, {1, 1}, {0x7f});
  WeightLoader loader = Open();
  EXPECT_THAT(loader.LoadInterleaved("nan", {.out = 2, .in = 1, .count = 3, .end = 3, .bias = false}), IsOk());
  EXPECT_THAT(loader.LoadTensor("inf", {6}, {.dtype = DType::kBF16}), IsOk());
  EXPECT_THAT(loader.LoadTensor("good", {1}), IsOk());
  EXPECT_THAT(loader.LoadTensor("f8", {1, 1}), IsOk());
  const std::string message(loader.Finish().message());
  EXPECT_THAT(message, AllOf(HasSubstr("3 problems"), HasSubstr("nan.weight: holds NaN"), HasSubstr("inf: holds NaN"),
                             HasSubstr("f8: holds NaN"), Not(HasSubstr("good"))));
}

// The bytes that the backend stores.
std::string Stored(const Weight& weight) {
  const CpuWeight& stored = CpuWeight::Of(weight);
  std::string bytes(static_cast<const char*>(stored.panels.data()), stored.panels.bytes());
  if (weight.has_bias()) bytes.append(static_cast<const char*>(stored.bias.data()), weight.out() * 4);
  return bytes;
}

TEST_F(Loading, ThreadsTheFilesDtypeAndTheLengthOfRunsChangeNoBit) {
  // Several chunks of 1 MiB, an odd width, and a number of rows that is not a multiple of a panel. Every value is a
  // bfloat16.
  constexpr int64_t kOut = 1111, kIn = 1237;
  const Floats wide = Numbers(kOut * kIn), conv = Numbers(40 * 2111 * 3), bias = Numbers(kOut);
  const auto narrow = [](const Floats& values) {
    std::vector<uint8_t> bytes(2 * values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = bf16(values[i]).bits;
      bytes[2 * i] = static_cast<uint8_t>(bits);
      bytes[2 * i + 1] = static_cast<uint8_t>(bits >> 8);
    }
    return bytes;
  };
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    std::vector<std::string> stored;
    for (const bool narrow_file : {false, true}) {
      tensors_.clear();
      const auto add = [&](const std::string& name, const Shape& shape, const Floats& values) {
        narrow_file ? AddBytes(name, DType::kBF16, shape, narrow(values)) : Add(name, shape, values);
      };
      add("a.weight", {kOut, kIn}, wide);
      Add("b.weight", {kOut, kIn}, wide);  // float32 in both files: a stack of two dtypes
      add("a.bias", {kOut}, bias);
      Add("b.bias", {kOut}, bias);
      add("c.weight", {40, 2111, 3}, conv);
      add("table", {kIn, kOut}, wide);
      for (const int threads : {1, 3}) {
        KINORA_ASSERT_OK_AND_ASSIGN(backend_, OpenBackend("cpu", {.threads = threads}));
        KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.tensor = 1}, 0));
        WeightLoader loader = Open(*mesh, precision);
        KINORA_ASSERT_OK_AND_ASSIGN(const Weight stack, loader.LoadWeight({"a", "b"}, {.out = kOut, .in = kIn}));
        KINORA_ASSERT_OK_AND_ASSIGN(
            const auto parts,
            loader.LoadInterleaved("a", {.out = kOut, .in = kIn, .count = 1, .end = 1, .bias = false}));
        const ConvSpec spec{.out = 40, .in = 2111, .kernel = {3}, .bias = false, .order = {.factor = {2, 1, 2}}};
        KINORA_ASSERT_OK_AND_ASSIGN(const Weight taps, loader.LoadConv("c", spec));
        KINORA_ASSERT_OK_AND_ASSIGN(const Parameter table,
                                    loader.LoadTensor("table", {kIn, kOut}, {.dtype = precision}));
        ASSERT_THAT(loader.Finish(), IsOk());
        const Tensor& t = table.tensor();
        stored.push_back(Stored(stack) + Stored(parts[0]) + Stored(taps) +
                         std::string(static_cast<const char*>(t.raw()), t.bytes()));
        EXPECT_TRUE(stored.back() == stored.front()) << threads << " threads, bfloat16 file: " << narrow_file;
      }
    }
  }
}

TEST_F(Loading, ColumnsOfLongAndOfShortRowsAreThoseOfTheFile) {
  for (const int64_t in : {6, 40000}) {  // below and above the size at which a rank reads only its part
    tensors_.clear();
    const Floats values = Numbers(3 * in);
    Add("a.weight", {3, in}, values);
    for (const int rank : {0, 1}) {
      KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.tensor = 2}, rank));
      const WeightSpec spec{.out = 3, .in = in, .bias = false, .split = Split::kColumns};
      WeightLoader loader = Open(*mesh);
      KINORA_ASSERT_OK_AND_ASSIGN(const Weight part, loader.LoadWeight({"a"}, spec));
      Floats slice;
      for (int64_t row = 0; row < 3; ++row) {
        const auto begin = values.begin() + row * in + rank * in / 2;
        slice.insert(slice.end(), begin, begin + in / 2);
      }
      KINORA_ASSERT_OK_AND_ASSIGN(
          const Weight expected,
          backend_->ops().PrepareWeight(Tensor(DType::kF32, {3, in / 2}, slice.data()), nullptr, DType::kF32));
      EXPECT_TRUE(Stored(part) == Stored(expected)) << in << " columns, rank " << rank;
    }
  }
}

TEST_F(Loading, ProblemsComeInTheOrderOfTheModelWhateverThreadFindsThem) {
  KINORA_ASSERT_OK_AND_ASSIGN(backend_, OpenBackend("cpu", {.threads = 4}));
  Floats first = Numbers(600 * 700), second = first;
  first.back() = std::numeric_limits<float>::quiet_NaN();
  second.front() = std::numeric_limits<float>::infinity();
  Add("one.weight", {600, 700}, first);
  Add("two.weight", {600, 700}, second);
  WeightLoader loader = Open();
  EXPECT_THAT(loader.LoadWeight({"one", "two"}, {.out = 600, .in = 700, .bias = false}), IsOk());
  const std::string message(loader.Finish().message());
  EXPECT_THAT(message, AllOf(HasSubstr("2 problems"), testing::ContainsRegex("one.weight: holds.*two.weight: holds")));
}

TEST_F(Loading, AFileThatShrinksUnderManyThreadsFailsByName) {
  KINORA_ASSERT_OK_AND_ASSIGN(backend_, OpenBackend("cpu", {.threads = 4}));
  Add("a.weight", {2000, 1000}, Numbers(2'000'000));
  WeightLoader loader = Open();
  std::filesystem::resize_file(folder_.File("m.safetensors"), 2'000'000);
  EXPECT_THAT(loader.LoadWeight({"a"}, {.out = 2000, .in = 1000, .bias = false}),
              StatusIs(StatusCode::kDataLoss, HasSubstr("a.weight")));
  EXPECT_THAT(loader.LoadTensor("a.weight", {2000, 1000}), StatusIs(StatusCode::kDataLoss, HasSubstr("a.weight")));
}

TEST_F(Loading, ComponentsOfWhichNothingWasReadMayHoldAnything) {
  Add("a", {1}, {1});
  WeightLoader loader = Open();
  EXPECT_THAT(loader.Finish(), IsOk());
}

TEST_F(Loading, ATruncatedFileEndsTheLoadWithItsName) {
  Add("a.weight", {2, 2}, Numbers(4));
  WeightLoader loader = Open();
  std::filesystem::resize_file(folder_.File("m.safetensors"),
                               std::filesystem::file_size(folder_.File("m.safetensors")) - 4);
  EXPECT_THAT(loader.LoadWeight({"a"}, {.out = 2, .in = 2, .bias = false}),
              StatusIs(StatusCode::kDataLoss, HasSubstr("a.weight")));
}

// Defines a convolution with stride 1 and zero padding of half the kernel, on [frames, height, width, in].
Floats NaiveConv(const Floats& w, const Floats& bias, int out, int in, std::array<int, 3> k, const Floats& x,
                 std::array<int, 3> n) {
  Floats y(n[0] * n[1] * n[2] * out);
  for (int t = 0; t < n[0]; ++t)
    for (int h = 0; h < n[1]; ++h)
      for (int v = 0; v < n[2]; ++v)
        for (int o = 0; o < out; ++o) {
          float sum = bias[o];
          for (int kt = 0; kt < k[0]; ++kt)
            for (int kh = 0; kh < k[1]; ++kh)
              for (int kw = 0; kw < k[2]; ++kw) {
                const int st = t + kt - k[0] / 2, sh = h + kh - k[1] / 2, sv = v + kw - k[2] / 2;
                if (st < 0 || sh < 0 || sv < 0 || st >= n[0] || sh >= n[1] || sv >= n[2]) continue;
                for (int i = 0; i < in; ++i) {
                  sum += w[(((o * in + i) * k[0] + kt) * k[1] + kh) * k[2] + kw] *
                         x[((st * n[1] + sh) * n[2] + sv) * in + i];
                }
              }
          y[((t * n[1] + h) * n[2] + v) * out + o] = sum;
        }
  return y;
}

TEST_F(Loading, ConvolutionsGetTheirTapsAndChannelsInTheOrderThatOpsRead) {
  constexpr int kOut = 16, kIn = 3;
  const Floats w = Numbers(kOut * kIn * 27), bias = Numbers(kOut), x = Numbers(2 * 3 * 4 * kIn);
  Add("c.weight", {kOut, kIn, 3, 3, 3}, w);
  Add("c.bias", {kOut}, bias);
  WeightLoader loader = Open();
  const Floats naive = NaiveConv(w, bias, kOut, kIn, {3, 3, 3}, x, {2, 3, 4});
  for (bool patches : {false, true}) {
    const ChannelOrder order =
        patches ? ChannelOrder{.factor = {1, 2, 4}, .width_before_height = true} : ChannelOrder{.factor = {2, 2, 2}};
    KINORA_ASSERT_OK_AND_ASSIGN(const Weight conv,
                                loader.LoadConv("c", {.out = kOut, .in = kIn, .kernel = {3, 3, 3}, .order = order}));
    Floats input = x, y(2 * 3 * 4 * kOut);
    const ConvAxis axis{.kernel = 3, .before = 1, .after = 1};
    backend_->ops().Conv(Tensor(DType::kF32, {2, 3, 4, kIn}, input.data()), conv,
                         {.time = axis, .height = axis, .width = axis}, Tensor(DType::kF32, {2, 3, 4, kOut}, y.data()));
    ASSERT_THAT(backend_->ops().stream().Synchronize(), IsOk());
    for (int row = 0; row < 24; ++row) {
      for (int c = 0; c < 2; ++c)
        for (int t = 0; t < order.factor.time; ++t)
          for (int h = 0; h < order.factor.height; ++h)
            for (int v = 0; v < order.factor.width; ++v) {
              const int file = patches ? (c * 4 + v) * 2 + h : ((c * 2 + t) * 2 + h) * 2 + v;
              const int wanted = ((t * order.factor.height + h) * order.factor.width + v) * 2 + c;
              ASSERT_EQ(y[row * kOut + wanted], naive[row * kOut + file]) << row << " " << wanted;
            }
    }
  }
}

TEST_F(Loading, ATransposedConvolutionIsAnOrdinaryOneAndDepthToSpace) {
  for (const auto& [kernel, stride] : {std::pair{16, 6}, {15, 5}, {8, 2}, {4, 2}, {11, 5}, {12, 6}, {3, 1}}) {
    constexpr int kIn = 3, kOut = 2, kRows = 7;
    tensors_.clear();
    const Floats w = Numbers(kIn * kOut * kernel), bias = Numbers(kOut), x = Numbers(kRows * kIn);
    Add("u.weight", {kIn, kOut, kernel}, w);
    Add("u.bias", {kOut}, bias);
    WeightLoader loader = Open();
    KINORA_ASSERT_OK_AND_ASSIGN(
        const TransposedConv up,
        loader.LoadTransposedConv("u", {.out = kOut, .in = kIn, .kernel = kernel, .stride = stride}));
    Floats input = x, phases(kRows * stride * kOut), y(kRows * stride * kOut);
    const Tensor middle(DType::kF32, {kRows, 1, 1, stride * kOut}, phases.data());
    backend_->ops().Conv(Tensor(DType::kF32, {kRows, 1, 1, kIn}, input.data()), up.weight,
                         {.time = {.kernel = up.taps, .before = up.before, .after = up.after}}, middle);
    backend_->ops().DepthToSpace(middle, {.factor = {.time = stride}},
                                 Tensor(DType::kF32, {kRows * stride, 1, 1, kOut}, y.data()));
    ASSERT_THAT(backend_->ops().stream().Synchronize(), IsOk());
    const int padding = (kernel - stride) / 2;
    for (int n = 0; n < kRows * stride; ++n) {
      for (int o = 0; o < kOut; ++o) {
        float expected = bias[o];
        for (int i = 0; i < kRows; ++i) {
          const int k = n + padding - i * stride;
          for (int c = 0; c < kIn && k >= 0 && k < kernel; ++c)
            expected += x[i * kIn + c] * w[(c * kOut + o) * kernel + k];
        }
        ASSERT_EQ(y[n * kOut + o], expected) << kernel << " " << stride << " " << n;
      }
    }
  }
}

TEST(DryLoading, RecordsEveryNameAndCountsParameters) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  WeightLoader loader = WeightLoader::Dry(*mesh, backend, DType::kBF16).Under("transformer");
  KINORA_ASSERT_OK_AND_ASSIGN(const Weight weight, loader.LoadWeight({"q", "k"}, {.out = 4096, .in = 8192}));
  EXPECT_EQ(weight.out(), 8192);
  EXPECT_THAT(loader.LoadConv("conv", {.out = 8, .in = 4, .kernel = {3, 3, 3}}), IsOk());
  EXPECT_THAT(loader.LoadTransposedConv("up", {.out = 8, .in = 4, .kernel = 4, .stride = 2}), IsOk());
  EXPECT_THAT(loader.LoadInterleaved("p", {.out = 8, .in = 4, .count = 49, .end = 49}), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const Parameter table, loader.LoadTensor("table", {6, 4}));
  EXPECT_EQ(table.tensor().raw(), nullptr);
  EXPECT_EQ(loader.recorded_elements(),
            2 * (4096 * 8192 + 4096) + (8 * 4 * 27 + 8) + (8 * 4 * 4 + 8) + (8 * 4 * 49 + 8) + 24);
  EXPECT_EQ(loader.recorded().front().name, "transformer.q.weight");
  EXPECT_EQ(loader.recorded().back().shape, Shape({6, 4}));
  EXPECT_THAT(loader.Finish(), IsOk());
}

TEST(DryLoading, DryOpsCheckAFileWithoutReadingIt) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  const std::string tiny = KINORA_SOURCE_DIR "/models/tiny/ltx-2.3-tiny-dev.safetensors";
  KINORA_ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open({.paths = {tiny}}));
  KINORA_ASSERT_OK_AND_ASSIGN(WeightLoader loader, WeightLoader::Open(checkpoint, *mesh, backend, DType::kBF16));
  EXPECT_TRUE(loader.Has("vae.decoder.conv_in.conv.weight"));
  EXPECT_THAT(loader.LoadTensor("vae.decoder.conv_in.conv.bias", {3}), IsOk());
  EXPECT_THAT(loader.Finish(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("vae.decoder.conv_in.conv.bias: shape")));
}

}  // namespace
}  // namespace kinora
