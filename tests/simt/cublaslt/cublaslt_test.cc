// Tests the simulated cuBLASLt: its results and every check that rejects a call.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "engine/ops/cuda/cublaslt_abi.h"
#include "tests/simt/control.h"
#include "tests/simt/cublaslt/control.h"
#include "tests/simt/device_buffer.h"
#include "tests/simt/host_gemm.h"

extern "C" {
using namespace kinora::cublaslt;  // NOLINT(google-build-using-namespace)
Status cublasLtCreate(Handle* handle);
Status cublasLtDestroy(Handle handle);
Status cublasLtMatmulDescCreate(MatmulDesc* desc, ComputeType compute, cudaDataType scale);
Status cublasLtMatmulDescDestroy(MatmulDesc desc);
Status cublasLtMatmulDescSetAttribute(MatmulDesc desc, DescAttribute attribute, const void* value, size_t bytes);
Status cublasLtMatrixLayoutCreate(MatrixLayout* layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld);
Status cublasLtMatrixLayoutDestroy(MatrixLayout layout);
Status cublasLtMatrixLayoutSetAttribute(MatrixLayout layout, LayoutAttribute attribute, const void* value,
                                        size_t bytes);
Status cublasLtMatmulPreferenceCreate(Preference* preference);
Status cublasLtMatmulPreferenceDestroy(Preference preference);
Status cublasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceAttribute attribute, const void* value,
                                            size_t bytes);
Status cublasLtMatmulAlgoGetHeuristic(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                                      MatrixLayout d, Preference preference, int wanted, HeuristicResult* results,
                                      int* found);
Status cublasLtMatmulAlgoCheck(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                               MatrixLayout d, const Algorithm* algorithm, HeuristicResult* result);
Status cublasLtMatmul(Handle handle, MatmulDesc desc, const void* alpha, const void* a, MatrixLayout a_layout,
                      const void* b, MatrixLayout b_layout, const void* beta, const void* c, MatrixLayout c_layout,
                      void* d, MatrixLayout d_layout, const Algorithm* algorithm, void* workspace,
                      size_t workspace_bytes, cudaStream_t stream);
}

namespace kinora::simt {
namespace {

constexpr int64_t kM = 5, kN = 3, kK = 4;

// A valid product of 5 x 4 by 4 x 3 matrices; each test changes one thing.
struct Given {
  ComputeType compute = ComputeType::k32F;
  cudaDataType scale = CUDA_R_32F, a_type = CUDA_R_32F, b_type = CUDA_R_32F, c_type = CUDA_R_32F, d_type = CUDA_R_32F;
  int64_t a_ld = kM, b_ld = kK, d_ld = kM, b_rows = kK;
  int32_t batch = 1, b_batch = 1;
  int64_t d_batch_stride = kM * kN;
  Epilogue epilogue = Epilogue::kDefault;
  int32_t bias_type = CUDA_R_32F;
  bool bias = true, with_algorithm = true, live = true;
  uint64_t workspace_allowed = 1 << 20;
  int wanted = 1;
  // Apply to the product only, after the algorithm was chosen.
  size_t workspace_bytes = 1 << 20, workspace_offset = 0, a_offset = 0;
  bool null_a = false, null_d = false, null_c = false, null_alpha = false, d_is_a = false, other_problem = false;
  float beta = 0;
};

class CublasLt : public testing::Test {
 protected:
  ~CublasLt() override {
    cudaStreamDestroy(stream_);
    kinora_cublaslt_offer(1);
  }

  // Returns the first error of the heuristics or the product, or success.
  Status Run(const Given& g);
  Status Ask(const Given& g, Algorithm* algorithm);
  Status Multiply(const Given& g, const Algorithm& algorithm);

  static cudaStream_t NewStream() {
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return stream;
  }

  cudaStream_t stream_ = NewStream();
  Handle handle_ = nullptr;
  MatmulDesc desc_ = nullptr;
  MatrixLayout a_ = nullptr, b_ = nullptr, c_ = nullptr, d_ = nullptr;
  Preference preference_ = nullptr;
  DeviceBuffer memory_{std::vector<float>(4096, 0.5f), stream_}, result_{4096}, workspace_{1 << 19};
};

Status CublasLt::Run(const Given& g) {
  EXPECT_EQ(cublasLtCreate(&handle_), Status::kSuccess);
  EXPECT_EQ(cublasLtMatmulDescCreate(&desc_, g.compute, g.scale), Status::kSuccess);
  const void* const bias = g.bias ? memory_.data() : nullptr;
  cublasLtMatmulDescSetAttribute(desc_, DescAttribute::kEpilogue, &g.epilogue, sizeof g.epilogue);
  cublasLtMatmulDescSetAttribute(desc_, DescAttribute::kBiasType, &g.bias_type, sizeof g.bias_type);
  cublasLtMatmulDescSetAttribute(desc_, DescAttribute::kBiasPointer, &bias, sizeof bias);
  const auto layout = [](MatrixLayout* out, cudaDataType type, int64_t rows, int64_t columns, int64_t ld, int32_t batch,
                         int64_t stride) {
    EXPECT_EQ(cublasLtMatrixLayoutCreate(out, type, rows, columns, ld), Status::kSuccess);
    cublasLtMatrixLayoutSetAttribute(*out, LayoutAttribute::kBatchCount, &batch, sizeof batch);
    cublasLtMatrixLayoutSetAttribute(*out, LayoutAttribute::kBatchStride, &stride, sizeof stride);
  };
  layout(&a_, g.a_type, kM, kK, g.a_ld, g.batch, 0);
  layout(&b_, g.b_type, g.b_rows, kN, g.b_ld, g.b_batch, 0);
  layout(&c_, g.c_type, kM, kN, g.d_ld, g.batch, g.d_batch_stride);
  layout(&d_, g.d_type, kM, kN, g.d_ld, g.batch, g.d_batch_stride);
  EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference_), Status::kSuccess);
  cublasLtMatmulPreferenceSetAttribute(preference_, PreferenceAttribute::kMaxWorkspaceBytes, &g.workspace_allowed,
                                       sizeof g.workspace_allowed);
  if (!g.live) cublasLtDestroy(handle_);
  Algorithm algorithm{};
  Status status = Ask(g, &algorithm);
  if (status == Status::kSuccess) status = Multiply(g, algorithm);
  cublasLtMatmulPreferenceDestroy(preference_);
  for (MatrixLayout each : {a_, b_, c_, d_}) cublasLtMatrixLayoutDestroy(each);
  cublasLtMatmulDescDestroy(desc_);
  EXPECT_EQ(g.live ? cublasLtDestroy(handle_) : Status::kSuccess, Status::kSuccess);
  EXPECT_EQ(kinora_cublaslt_alive(), 0);
  return status;
}

Status CublasLt::Ask(const Given& g, Algorithm* algorithm) {
  HeuristicResult results[8];
  int found = 0;
  const Status status =
      cublasLtMatmulAlgoGetHeuristic(handle_, desc_, a_, b_, c_, d_, preference_, g.wanted, results, &found);
  if (status == Status::kSuccess) *algorithm = results[found - 1].algorithm;
  if (g.other_problem) algorithm->data[0] ^= 1;
  return status;
}

Status CublasLt::Multiply(const Given& g, const Algorithm& algorithm) {
  const float alpha = 1;
  char* const a = reinterpret_cast<char*>(memory_.data()) + g.a_offset;
  float* const d = g.d_is_a ? memory_.data() : result_.data();
  char* const workspace = reinterpret_cast<char*>(workspace_.data()) + g.workspace_offset;
  const Status status =
      cublasLtMatmul(handle_, desc_, g.null_alpha ? nullptr : &alpha, g.null_a ? nullptr : a, a_, memory_.data() + 512,
                     b_, &g.beta, g.null_c ? nullptr : d, c_, g.null_d ? nullptr : d, d_,
                     g.with_algorithm ? &algorithm : nullptr, workspace, g.workspace_bytes, stream_);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << Failure();
  return status;
}

TEST_F(CublasLt, MultipliesAndAddsTheBias) {
  ASSERT_EQ(Run({.epilogue = Epilogue::kBias}), Status::kSuccess);
  EXPECT_EQ(result_.Read(stream_)[kM * kN - 1], 4 * 0.25f + 0.5f);
  ASSERT_EQ(Run({.batch = 2, .b_batch = 2}), Status::kSuccess);
  EXPECT_EQ(result_.Read(stream_)[2 * kM * kN - 1], 1.0f);
  ASSERT_EQ(Run({.with_algorithm = false, .beta = 1.0f}), Status::kSuccess);
  EXPECT_EQ(result_.Read(stream_)[0], 2.0f);
}

TEST_F(CublasLt, RefusesTypesThatNoAlgorithmHas) {
  const auto expect = [this](const Given& g) { EXPECT_EQ(Run(g), Status::kNotSupported); };
  expect({.compute = static_cast<ComputeType>(64)});
  expect({.scale = CUDA_R_16BF});
  expect({.b_type = CUDA_R_16BF});
  expect({.c_type = CUDA_R_16BF, .d_type = CUDA_R_16BF});
  expect({.a_type = CUDA_R_16F, .b_type = CUDA_R_16F});
  expect({.d_type = CUDA_R_16BF});
}

TEST_F(CublasLt, RefusesABiasOfAnotherTypeThanTheResult) {
  EXPECT_EQ(Run({.epilogue = Epilogue::kBias, .bias_type = CUDA_R_16BF}), Status::kNotSupported);
  const Given narrow{.a_type = CUDA_R_16BF,
                     .b_type = CUDA_R_16BF,
                     .c_type = CUDA_R_16BF,
                     .d_type = CUDA_R_16BF,
                     .epilogue = Epilogue::kGeluBias,
                     .bias_type = CUDA_R_32F};
  EXPECT_EQ(Run(narrow), Status::kNotSupported);
}

TEST_F(CublasLt, RefusesShapesStridesAndBatchesThatDoNotFit) {
  const auto expect = [this](const Given& g) { EXPECT_EQ(Run(g), Status::kInvalidValue); };
  expect({.a_ld = kM - 1});
  expect({.b_ld = kK - 1});
  expect({.d_ld = kM - 1});
  expect({.b_ld = kK + 1, .b_rows = kK + 1});
  expect({.batch = 2, .b_batch = 1});
  expect({.batch = 2, .b_batch = 2, .d_batch_stride = 0});
  expect({.batch = 2, .b_batch = 2, .d_batch_stride = kM * kN - 1});
}

TEST_F(CublasLt, RefusesWhatIsMissingOrOver) {
  EXPECT_EQ(Run({.live = false}), Status::kNotInitialized);
  const auto expect = [this](const Given& g) { EXPECT_EQ(Run(g), Status::kInvalidValue); };
  expect({.wanted = 0});
  expect({.null_a = true});
  expect({.null_d = true});
  expect({.null_alpha = true});
  expect({.null_c = true, .beta = 1.0f});
  expect({.epilogue = Epilogue::kBias, .bias = false});
  expect({.d_is_a = true});
  expect({.other_problem = true});
  EXPECT_EQ(Run({.null_c = true}), Status::kSuccess);
}

TEST_F(CublasLt, RefusesAnAlgorithmBeyondItsWorkspaceOrItsAlignment) {
  kinora_cublaslt_offer(2);
  EXPECT_EQ(Run({.wanted = 2}), Status::kSuccess);
  EXPECT_EQ(Run({.wanted = 2, .workspace_bytes = (1 << 20) - 1}), Status::kInvalidValue);
  EXPECT_EQ(Run({.wanted = 2, .workspace_offset = 8}), Status::kInvalidValue);
  EXPECT_EQ(Run({.a_offset = 4}), Status::kNotSupported);  // an alignment of 256 bytes was requested
  EXPECT_EQ(Run({.a_offset = 2}), Status::kInvalidValue);
  kinora_cublaslt_offer(0);
  EXPECT_EQ(Run({}), Status::kNotSupported);
}

TEST_F(CublasLt, RefusesAttributesOfAnotherSize) {
  MatmulDesc desc = nullptr;
  MatrixLayout layout = nullptr;
  Preference preference = nullptr;
  cublasLtMatmulDescCreate(&desc, ComputeType::k32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 1, 1, 1);
  cublasLtMatmulPreferenceCreate(&preference);
  const int64_t value = 1;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, DescAttribute::kTransA, &value, 8), Status::kInvalidValue);
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, DescAttribute::kTransA, nullptr, 4), Status::kInvalidValue);
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, static_cast<DescAttribute>(99), &value, 4), Status::kInvalidValue);
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, LayoutAttribute::kBatchCount, &value, 8), Status::kInvalidValue);
  EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, PreferenceAttribute::kMaxWorkspaceBytes, &value, 4),
            Status::kInvalidValue);
  cublasLtMatmulDescDestroy(desc);
  cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulPreferenceDestroy(preference);
  EXPECT_EQ(kinora_cublaslt_alive(), 0);
}

TEST_F(CublasLt, LosesTheDeviceWhereAProductLeavesItsMemory) {
  DeviceBuffer small{16};
  EXPECT_EQ(cublasLtCreate(&handle_), Status::kSuccess);
  cublasLtMatmulDescCreate(&desc_, ComputeType::k32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&a_, CUDA_R_32F, kM, kK, 8192);
  cublasLtMatrixLayoutCreate(&b_, CUDA_R_32F, kK, kN, kK);
  cublasLtMatrixLayoutCreate(&d_, CUDA_R_32F, kM, kN, kM);
  const float one = 1, zero = 0;
  cublasLtMatmul(handle_, desc_, &one, small.data(), a_, memory_.data(), b_, &zero, result_.data(), d_, result_.data(),
                 d_, nullptr, nullptr, 0, stream_);  // fails already if the work runs immediately
  EXPECT_NE(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_NE(Failure().find("cublasLtMatmul reads outside of an allocation"), std::string::npos) << Failure();
  Restore();
  for (MatrixLayout each : {a_, b_, d_}) cublasLtMatrixLayoutDestroy(each);
  cublasLtMatmulDescDestroy(desc_);
  cublasLtDestroy(handle_);
}

TEST(HostGemm, EqualsItsDefinitionForEveryOrderAndEdge) {
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {13, 33, 257}, {97, 1025, 3}, {2, 40, 600}}) {
    for (int form = 0; form < 8; ++form) {
      const bool a_flipped = (form & 1) != 0, b_flipped = (form & 2) != 0, narrow = (form & 4) != 0;
      std::vector<float> a(m * k), b(k * n), sums(m * n, NAN);
      std::vector<uint16_t> narrow_a, narrow_b;
      for (size_t i = 0; i < a.size(); ++i) a[i] = std::sin(0.7f * static_cast<float>(i));
      for (size_t i = 0; i < b.size(); ++i) b[i] = std::cos(0.3f * static_cast<float>(i));
      for (float& v : a) v = narrow ? FromBf16(narrow_a.emplace_back(ToBf16(v))) : v;
      for (float& v : b) v = narrow ? FromBf16(narrow_b.emplace_back(ToBf16(v))) : v;
      const void* const left = narrow ? static_cast<const void*>(narrow_a.data()) : a.data();
      const void* const right = narrow ? static_cast<const void*>(narrow_b.data()) : b.data();
      HostGemm(m, n, k, {left, narrow, a_flipped ? 1 : k, a_flipped ? m : 1},
               {right, narrow, b_flipped ? 1 : n, b_flipped ? k : 1}, sums.data(), n);
      for (int i = 0; i < m; i += 3) {
        for (int j = 0; j < n; j += 7) {
          double expected = 0;
          for (int p = 0; p < k; ++p) {
            expected += double{a[a_flipped ? p * m + i : i * k + p]} * b[b_flipped ? j * k + p : p * n + j];
          }
          ASSERT_NEAR(sums[i * n + j], expected, 1e-4) << m << "x" << n << "x" << k << " form " << form;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kinora::simt
