// Products with the simulated cuBLASLt: batches, tuning and its cache, and a missing library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "engine/ops/backend.h"
#include "engine/ops/cuda/cublaslt.h"
#include "engine/ops/cuda/cuda_memory.h"
#include "engine/ops/cuda/cuda_stream.h"
#include "tests/simt/control.h"
#include "tests/simt/cublaslt/control.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Contents(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}
void Write(const std::string& file, const std::string& text) { std::ofstream(file) << text; }

class CudaProducts : public testing::Test {
 protected:
  CudaProducts() {
    workspace_ = *AllocateOnDevice(64 << 20, "a test");
    stream_ = *CudaStream::Create();
  }
  ~CudaProducts() override {
    kinora_cublaslt_offer(1);
    kinora_cublaslt_pretend(130100);
    simt::Restore();
  }
  std::unique_ptr<Products> Open(const std::string& tuning_file = "") {
    auto products = Products::Open(workspace_.bytes(), {.tuning_file = tuning_file, .device = "a device"});
    EXPECT_THAT(products, IsOk());
    return *std::move(products);
  }
  // Consecutive f32 values.
  Tensor Values(int64_t count, float first = 0.0f) {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = std::sin(first + 0.7f * static_cast<float>(i));
    buffers_.push_back(*AllocateOnDevice(count * 4, "a test"));
    const Tensor t = buffers_.back().View(DType::kF32, {count});
    stream_->CopyFromHost(values.data(), t);
    return t;
  }
  std::vector<float> Floats(const Tensor& t) {
    std::vector<float> values(t.elements());
    stream_->CopyToHost(t, values.data());
    EXPECT_THAT(stream_->Synchronize(), IsOk());
    return values;
  }
  // The number of kernels that the product launches.
  int64_t Launches(Products& products, const Product& product) {
    const auto before = simt::Counted().launches;
    EXPECT_THAT(products.Run(product, workspace_, stream_->handle()), IsOk());
    return static_cast<int64_t>(simt::Counted().launches - before);
  }
  Product Small() {
    return {.m = 6,
            .n = 8,
            .k = 5,
            .a = {.data = Values(30).raw(), .stride = 5},
            .b = {.data = Values(40).raw(), .stride = 5, .transposed = true},
            .d = {.data = Values(48).raw(), .stride = 8}};
  }

  Buffer workspace_;
  std::vector<Buffer> buffers_;
  std::unique_ptr<CudaStream> stream_;
};

TEST_F(CudaProducts, BatchesOfEveryOrderEqualTheirDefinition) {
  constexpr int64_t kM = 5, kN = 7, kK = 3;
  constexpr int kBatch = 4;
  const Tensor a = Values(kBatch * kM * kK), b = Values(kN * kK, 2), d = Values(kBatch * kM * kN);
  const std::vector<float> left = Floats(a), right = Floats(b), before = Floats(d);
  const auto products = Open();
  std::vector<float> sum = before;
  for (int form = 0; form < 4; ++form) {
    const bool a_flipped = (form & 1) != 0, b_flipped = (form & 2) != 0;
    // The heads of packed rows for d: adjacent matrices.
    ASSERT_THAT(
        products->Run(
            {.m = kM,
             .n = kN,
             .k = kK,
             .a = {.data = a.raw(), .stride = a_flipped ? kM : kK, .transposed = a_flipped, .batch_stride = kM * kK},
             .b = {.data = b.raw(), .stride = b_flipped ? kK : kN, .transposed = b_flipped},
             .d = {.data = d.raw(), .stride = kBatch * kN, .batch_stride = kN},
             .batch = kBatch,
             .alpha = 0.5f,
             .add = true},
            workspace_, stream_->handle()),
        IsOk());
    const std::vector<float> out = Floats(d);
    for (int64_t n = 0; n < kBatch; ++n) {
      for (int64_t i = 0; i < kM; ++i) {
        for (int64_t j = 0; j < kN; ++j) {
          double product = 0;
          for (int64_t p = 0; p < kK; ++p) {
            product += 0.5 * left[n * kM * kK + (a_flipped ? p * kM + i : i * kK + p)] *
                       right[b_flipped ? j * kK + p : p * kN + j];
          }
          const int64_t at = i * kBatch * kN + n * kN + j;
          ASSERT_NEAR(out[at], sum[at] + product, 1e-5) << "form " << form;
          sum[at] = out[at];
        }
      }
    }
  }
}

TEST_F(CudaProducts, TheFirstOfAProblemMeasuresAndTheFileSparesTheNextProcessThat) {
  kinora_cublaslt_offer(8);
  const TemporaryDirectory folder;
  const std::string file = folder.File("cache/products.txt");
  const Product product = Small();
  auto products = Open(file);
  EXPECT_EQ(Launches(*products, product), 8 * 4 + 1);
  EXPECT_EQ(Launches(*products, product), 1);
  EXPECT_THAT(Contents(file), AllOf(HasSubstr("a device cublasLt 130100\t"), HasSubstr("6x8x5*1")));
  EXPECT_EQ(Launches(*Open(file), product), 1);
  kinora_cublaslt_pretend(130200);  // algorithms of one version are invalid in another
  EXPECT_EQ(Launches(*Open(file), product), 8 * 4 + 1);
  kinora_cublaslt_pretend(130100);
  EXPECT_EQ(Launches(*Open(file), product), 1);  // both versions' algorithms are kept
}

TEST_F(CudaProducts, NothingIsMeasuredInACaptureOrWhereAProductAdds) {
  kinora_cublaslt_offer(8);
  const TemporaryDirectory folder;
  auto products = Open(folder.File("products.txt"));
  Product product = Small();
  const auto before = simt::Counted();
  const auto graph =
      stream_->Capture([&] { EXPECT_THAT(products->Run(product, workspace_, stream_->handle()), IsOk()); });
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(simt::Counted().synchronizations, before.synchronizations);
  product.add = true;
  EXPECT_EQ(Launches(*products, product), 1);
  EXPECT_EQ(Contents(folder.File("products.txt")), "");
}

TEST_F(CudaProducts, ATornOrForeignFileCostsAMeasurementOnly) {
  kinora_cublaslt_offer(3);
  const TemporaryDirectory folder;
  const std::string file = folder.File("products.txt");
  const Product product = Small();
  Launches(*Open(file), product);
  const std::string whole = Contents(file);
  std::string changed = whole;
  changed[whole.find("cublasLt ") + 12] ^= 1;
  std::string algorithm = whole;
  algorithm[algorithm.rfind('\t') - 3] ^= 1;
  for (const std::string& text : {whole.substr(0, whole.size() / 2), whole.substr(0, whole.size() - 9), changed,
                                  algorithm, std::string("\0\xff\t\t\t\n\n", 7), std::string(100'000, '\t')}) {
    Write(file, text);
    EXPECT_EQ(Launches(*Open(file), product), 3 * 4 + 1);
    EXPECT_EQ(Launches(*Open(file), product), 1);
    EXPECT_THAT(Contents(file), HasSubstr(whole.substr(0, whole.find('\t'))));
  }
  const auto nowhere = Open("/proc/nowhere/products.txt");
  EXPECT_EQ(Launches(*nowhere, product), 3 * 4 + 1);
  EXPECT_EQ(Launches(*nowhere, product), 1);
}

TEST_F(CudaProducts, WithoutAnAlgorithmItSaysForWhat) {
  kinora_cublaslt_offer(0);
  auto products = Open();
  EXPECT_FALSE(products->Supports(Small()));
  EXPECT_THAT(products->Run(Small(), workspace_, stream_->handle()),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("CUBLAS_STATUS_NOT_SUPPORTED"), HasSubstr("f32>f32:6x8x5"))));
}

TEST_F(CudaProducts, AFailedLaunchIsTheLibrarysAndAllOfItIsGivenBack) {
  const int before = kinora_cublaslt_alive();
  {
    auto products = Open();
    ASSERT_THAT(products->Run(Small(), workspace_, stream_->handle()), IsOk());
    simt::FailCall("kernel", cudaErrorInvalidValue);
    EXPECT_THAT(products->Run(Small(), workspace_, stream_->handle()),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("CUBLAS_STATUS_EXECUTION_FAILED")));
  }
  EXPECT_EQ(kinora_cublaslt_alive(), before);
}

// If the library rejected the description, our own kernel would replace it with one more launch, without an error.
TEST_F(CudaProducts, BiasAndGeluAreTheLibrarysInEachDtype) {
  constexpr int64_t kRows = 8, kIn = 16, kOut = 24;
  const auto backend = *OpenBackend("cuda", {});
  std::vector<float> values(kOut * kIn, 0.5f);
  const Tensor matrix(DType::kF32, {kOut, kIn}, values.data()), bias(DType::kF32, {kOut}, values.data());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Weight w = *backend->ops().PrepareWeight(matrix, &bias, dtype);
    const Buffer x = *backend->Allocate(kRows * kIn * 4, "a test"),
                 out = *backend->Allocate(kRows * kOut * 4, "a test");
    const Tensor to = out.View(dtype, {kRows, kOut});
    backend->ops().Fill(0.0f, x.View(dtype, {kRows, kIn}));
    for (const Activation activation : {Activation::kNone, Activation::kGeluTanh}) {
      simt::ResetCounts();
      backend->ops().Matmul(x.View(dtype, {kRows, kIn}), w, {.activation = activation}, to);
      EXPECT_THAT(backend->ops().stream().Synchronize(), IsOk());
      EXPECT_EQ(simt::Counted().launches, 1u) << DTypeName(dtype);
    }
  }
}

// Blocks of rows; each block uses its own part of the gate's rows.
TEST_F(CudaProducts, MoreRowsThanTheScratchMemoryHoldsGoInBlocks) {
  constexpr int64_t kRows = 4200, kWidth = 16'384;  // 275 MB of float32
  const auto backend = *OpenBackend("cuda", {});
  std::vector<float> matrix(kWidth, 1.0f);
  const Weight w = *backend->ops().PrepareWeight(Tensor(DType::kF32, {kWidth, 1}, matrix.data()), nullptr, DType::kF32);
  const Buffer memory = *backend->Allocate(kRows * kWidth * 4, "a test");
  const Tensor out = memory.View(DType::kF32, {kRows, kWidth}), x = Values(kRows).Reshape({kRows, 1});
  buffers_.push_back(*backend->Allocate(2 * kWidth * 4, "a test"));
  const Tensor table = buffers_.back().View(DType::kF32, {2, 1, kWidth});
  for (const int64_t period : {kRows, int64_t{7}}) {
    std::vector<int32_t> rows(period);
    for (int64_t i = 0; i < period; ++i) rows[i] = static_cast<int32_t>(i % 3 % 2);
    buffers_.push_back(*backend->Allocate(period * 4, "a test"));
    const Tensor row = buffers_.back().View(DType::kI32, {period});
    const std::vector<float> x_values = Floats(x);
    backend->ops().stream().CopyFromHost(rows.data(), row);
    backend->ops().Fill(0.25f, table.Rows(0, 1));
    backend->ops().Fill(2.0f, table.Rows(1, 2));
    backend->ops().Fill(1.0f, out);
    backend->ops().Matmul(x, w, {.accumulate = Accumulate::kGated, .gate = {{.table = table, .row = row}, 0}}, out);
    std::vector<float> result(kWidth);
    for (int64_t r = 0; r < kRows; r += 41) {
      backend->ops().stream().CopyToHost(out.Rows(r, r + 1), result.data());
      ASSERT_THAT(backend->ops().stream().Synchronize(), IsOk());
      const float expected = 1.0f + x_values[r] * (rows[r % period] == 0 ? 0.25f : 2.0f);
      for (const int64_t c : {int64_t{0}, kWidth / 2 + 1, kWidth - 1}) ASSERT_NEAR(result[c], expected, 1e-6) << r;
    }
  }
}

TEST_F(CudaProducts, ALibraryThatIsMissingStrangeOrOldIsNamedWithWhatToDo) {
  const auto expect = [this](const std::string& library, const std::string& why) {
    EXPECT_THAT(
        Products::Open(workspace_.bytes(), {.library = library}),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr(library + " " + why), HasSubstr("LD_LIBRARY_PATH"), HasSubstr("use the cpu"))));
  };
  expect("libcublasLt.so.0", "cannot be opened");
  expect("libkinora_simt.so", "has no function cublasLtGetVersion");
  kinora_cublaslt_pretend(120900);
  expect(cublaslt::kLibrary, "is version 12, this program needs version 13");
}

}  // namespace
}  // namespace kinora
