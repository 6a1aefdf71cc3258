// The layout of weights on the device, and their transfer: host threads read runs of rows into pinned memory; the ops'
// stream copies, converts and lays them out.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/cuda/cuda_weight.h"
#include "engine/ops/cuda_traits.h"
#include "kernels/copy_rows.h"
#include "kernels/finish_product.h"

namespace kinora {
namespace {

constexpr int64_t kRunBytes = int64_t{4} << 20;  // bytes of rows read at once; at least one row

// Returns the number of elements from one row to the next.
int64_t StrideOf(DType dtype, int64_t width) {
  const int64_t row = width * DTypeSize(dtype);
  return (row + kWeightRowAlignment - 1) / kWeightRowAlignment * kWeightRowAlignment / DTypeSize(dtype);
}

int64_t RowBytes(const WeightRows& rows) { return rows.count * rows.taps * rows.in * DTypeSize(rows.dtype); }

// Returns the most bytes that a run of these rows has.
int64_t MostRunBytes(const WeightRows& rows) {
  return std::max(RowBytes(rows), std::min(kRunBytes, rows.out * RowBytes(rows)));
}

absl::Status CheckResident(const CudaWeight& weight) {
  if (weight.evicted.data() == nullptr) return absl::OkStatus();
  return absl::UnimplementedError("weights that live in host memory cannot be rewritten: keep them on the device");
}

}  // namespace

CudaOps::Staging::~Staging() {
  if (left != nullptr) cudaEventDestroy(left);
}

// Reserves at least `bytes` of pinned memory and an event for each thread.
absl::Status CudaOps::ReserveStaging(int64_t bytes) {
  staging_.resize(pool_.threads());
  for (std::unique_ptr<Staging>& staging : staging_) {
    if (staging == nullptr) staging = std::make_unique<Staging>();
    if (staging->left == nullptr) {
      KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&staging->left, cudaEventDisableTiming), "an event"));
    }
    if (staging->pinned.data() != nullptr && staging->pinned.bytes() >= bytes) continue;
    staging->pinned = Buffer();  // freed first, so that the old and the new memory need not fit together
    KINORA_ASSIGN_OR_RETURN(staging->pinned,
                            AllocatePinned(std::max(bytes, kRunBytes), "the rows of weights on their way"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Weight>> CudaOps::PrepareWeights(const WeightRows& rows, const Tensor* bias, DType dtype) {
  KINORA_CHECK(bias == nullptr || (bias->elements() == rows.out && bias->dtype() == DType::kF32 && bias->contiguous()));
  const int64_t bytes = CudaWeightLayout().Bytes(dtype, rows.out, rows.taps, rows.in), width = rows.taps * rows.in;
  std::vector<Weight> weights;
  absl::InlinedVector<WeightStorage*, 4> storage;
  std::vector<bf16> narrow;
  for (int n = 0; n < rows.count; ++n) {
    auto weight = std::make_shared<CudaWeight>();
    weight->stride = StrideOf(dtype, width);
    KINORA_ASSIGN_OR_RETURN(weight->matrix, AllocateOnDevice(bytes, "a weight"));
    if (weight->stride != width) {
      KINORA_RETURN_IF_ERROR(
          CudaStatus(cudaMemsetAsync(weight->matrix.data(), 0, bytes, stream_->handle()), "a weight"));
    }
    const bool has_bias = n == 0 && bias != nullptr;
    if (has_bias) {
      KINORA_ASSIGN_OR_RETURN(weight->bias, AllocateOnDevice(bias->bytes(), "a bias"));
      stream_->CopyFromHost(bias->raw(), weight->bias.View(DType::kF32, {rows.out}));
    }
    if (has_bias && dtype == DType::kBF16) {
      for (int64_t i = 0; i < rows.out; ++i) narrow.emplace_back(bias->data<float>()[i]);
      KINORA_ASSIGN_OR_RETURN(weight->bias_bf16, AllocateOnDevice(rows.out * DTypeSize(dtype), "a bias"));
      stream_->CopyFromHost(narrow.data(), weight->bias_bf16.View(dtype, {rows.out}));
    }
    storage.push_back(weight.get());
    weights.emplace_back(dtype, rows.out, rows.taps, rows.in, has_bias, std::move(weight));
  }
  KINORA_RETURN_IF_ERROR(RewriteWeights(rows, dtype, storage));
  return weights;
}

absl::Status CudaOps::RewriteWeights(const WeightRows& rows, DType dtype, absl::Span<WeightStorage* const> storage) {
  KINORA_CHECK_EQ(static_cast<int>(storage.size()), rows.count);
  absl::InlinedVector<kernels::Rows, 4> to;
  for (const WeightStorage* kept : storage) {
    const auto& weight = *static_cast<const CudaWeight*>(kept);
    KINORA_RETURN_IF_ERROR(CheckResident(weight));
    to.push_back({weight.matrix.data(), weight.stride, KernelType(dtype)});
  }
  auto& first = *static_cast<CudaWeight*>(storage[0]);
  absl::Status laid_out;
  if (first.clean.data() != nullptr) {
    laid_out = CleanCopies::Restore(first, dtype, 0, rows.out, stream_->handle());
  } else {
    KINORA_RETURN_IF_ERROR(ReserveStaging(MostRunBytes(rows)));
    laid_out = ReadRows(rows, 0, rows.out, to, scratch_.View(DType::kU8, {scratch_.bytes()}));
  }
  absl::Status done = stream_->Synchronize();  // also after a failure: the weights may then be freed
  KINORA_RETURN_IF_ERROR(std::move(laid_out));
  KINORA_RETURN_IF_ERROR(std::move(done));
  first.has_products = false;
  return absl::OkStatus();
}

// Rows that one thread reads at once.
struct CudaOps::Run {
  int64_t first = 0;  // row that lies at the beginning of the destination
  int64_t begin = 0, end = 0;
  char* landing = nullptr;  // device memory for rows that are not stored as they are read
};

// Enqueues the copy of rows [begin, end) of every matrix to `to`, where row `begin` comes first. All threads read.
// landing: scratch memory.
absl::Status CudaOps::ReadRows(const WeightRows& rows, int64_t begin, int64_t end, absl::Span<const kernels::Rows> to,
                               const Tensor& landing) {
  KINORA_CHECK(rows.dtype == DType::kF32 || rows.dtype == DType::kBF16) << DTypeName(rows.dtype);
  const int64_t landing_each = landing.bytes() / pool_.threads() / 256 * 256;
  const int64_t each = std::max<int64_t>(1, std::min(kRunBytes, landing_each) / std::max<int64_t>(1, RowBytes(rows)));
  const int64_t runs = (end - begin + each - 1) / each;
  std::vector<absl::Status> failures(runs);
  std::atomic<bool> failed = false;  // runs start in order, so none before the first failure is skipped
  pool_.Run(runs, [&](int64_t i, int thread) {
    if (failed) return;
    const Run run{.first = begin,
                  .begin = begin + i * each,
                  .end = std::min(end, begin + (i + 1) * each),
                  .landing = static_cast<char*>(landing.raw()) + thread * landing_each};
    failures[i] = LayOut(rows, run, to, thread);
    if (!failures[i].ok()) failed = true;
  });
  for (absl::Status& status : failures) KINORA_RETURN_IF_ERROR(std::move(status));
  return absl::OkStatus();
}

// Reads and lays out a run of rows of every matrix. thread: the calling thread's number in the pool.
absl::Status CudaOps::LayOut(const WeightRows& rows, const Run& run, absl::Span<const kernels::Rows> to, int thread) {
  Staging& staging = *staging_[thread];
  const int64_t count = run.end - run.begin, width = rows.taps * rows.in;
  const int64_t matrix_bytes = count * RowBytes(rows) / rows.count;
  cudaStream_t const stream = stream_->handle();
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), "a thread that reads weights"));
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(staging.left), "weights on their way"));
  KINORA_RETURN_IF_ERROR(rows.read(run.begin, run.end, staging.pinned.data()));
  for (int n = 0; n < rows.count; ++n) {
    const char* const from = static_cast<const char*>(staging.pinned.data()) + n * matrix_bytes;
    kernels::Rows laid_out = to[n];
    const int64_t element = laid_out.type == kernels::Type::kF32 ? 4 : 2;
    laid_out.data = static_cast<char*>(laid_out.data) + (run.begin - run.first) * laid_out.stride * element;
    const bool as_read = KernelType(rows.dtype) == laid_out.type && laid_out.stride == width;
    void* const next = as_read ? laid_out.data : run.landing;
    KINORA_RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(next, from, matrix_bytes, cudaMemcpyHostToDevice, stream), "a weight"));
    if (as_read) continue;
    const kernels::Rows read{run.landing, width, KernelType(rows.dtype)};
    KINORA_RETURN_IF_ERROR(
        CudaStatus(kernels::LaunchCopyRows(read, laid_out, count, width, stream), "a weight's layout"));
  }
  return CudaStatus(cudaEventRecord(staging.left, stream), "weights on their way");
}

// A matrix that is rewritten with products. As many of its rows as the scratch memory holds are widened to float32,
// from the clean copy or else from the file; each product adds to them there; then they are rounded into the matrix.
class CudaOps::ProductSums {
 public:
  ProductSums(CudaOps& ops, const Rewriting& one);
  // The rows' sums, complete on return.
  absl::Status Run();

 private:
  absl::Status RunBlock(int64_t begin, int64_t end, int32_t* bad_row);
  absl::Status AddProduct(const RowsProduct& product, int64_t first, const Tensor& sums);

  CudaOps& ops_;
  const Rewriting& one_;
  const CudaWeight& weight_;
  Scratch scratch_;
  int64_t widest_ = 0, block_ = 0;                // largest rank; rows at once
  Tensor landing_, sums_, up_, bad_rows_, down_;  // up_ and down_: bytes
};

CudaOps::ProductSums::ProductSums(CudaOps& ops, const Rewriting& one)
    : ops_(ops), one_(one), weight_(static_cast<const CudaWeight&>(*one.storage[0])), scratch_(ops.scratch_) {
  KINORA_CHECK(one.rows.count == 1 && one.rows.taps == 1 && one.storage.size() == 1);
  constexpr int64_t kFloat = 4, kMargin = 4096;  // between the pieces
  for (const RowsProduct& product : one.products) {
    KINORA_CHECK(product.up.in == product.down.out && product.down.in == one.rows.in && product.first >= 0 &&
                 product.first + product.up.out <= one.rows.out && product.up.dtype == product.down.dtype);
    widest_ = std::max(widest_, product.up.in);
  }
  const int64_t row = (one.rows.in + widest_) * kFloat;
  block_ = std::clamp<int64_t>(scratch_.left() / 2 / row, 1, std::max<int64_t>(1, one.rows.out));
  landing_ = scratch_.Take(DType::kU8, {scratch_.left() / 4});
  sums_ = scratch_.Take(DType::kF32, {block_, one.rows.in});
  up_ = scratch_.Take(DType::kU8, {block_ * widest_ * kFloat});
  bad_rows_ = scratch_.Take(DType::kI32, {(one.rows.out + block_ - 1) / block_});
  down_ = scratch_.Take(DType::kU8, {scratch_.left() - kMargin});
}

absl::Status CudaOps::ProductSums::Run() {
  constexpr int kNone = 0x7f;  // each byte of a row that none reaches
  std::vector<int32_t> bad_rows(bad_rows_.elements());
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(bad_rows_.raw(), kNone, bad_rows_.bytes(), ops_.stream_->handle()),
                                    "a check of weights"));
  for (int64_t begin = 0, n = 0; begin < one_.rows.out; begin += block_, ++n) {
    KINORA_RETURN_IF_ERROR(RunBlock(begin, std::min(one_.rows.out, begin + block_), bad_rows_.data<int32_t>() + n));
  }
  ops_.stream_->CopyToHost(bad_rows_, bad_rows.data());
  KINORA_RETURN_IF_ERROR(ops_.stream_->Synchronize());
  *one_.bad_row = -1;
  for (size_t n = bad_rows.size(); n-- > 0;) {
    if (bad_rows[n] < block_) *one_.bad_row = static_cast<int64_t>(n) * block_ + bad_rows[n];
  }
  return absl::OkStatus();
}

absl::Status CudaOps::ProductSums::RunBlock(int64_t begin, int64_t end, int32_t* bad_row) {
  const Tensor sums = sums_.Rows(0, end - begin);
  const kernels::Rows to = View(sums);
  cudaStream_t const stream = ops_.stream_->handle();
  KINORA_RETURN_IF_ERROR(weight_.clean.data() != nullptr
                             ? CleanCopies::Widen(weight_, one_.dtype, begin, end, sums, stream)
                             : ops_.ReadRows(one_.rows, begin, end, {&to, 1}, landing_));
  for (const RowsProduct& product : one_.products) KINORA_RETURN_IF_ERROR(AddProduct(product, begin, sums));
  char* const matrix = static_cast<char*>(weight_.matrix.data()) + begin * weight_.stride * DTypeSize(one_.dtype);
  return CudaStatus(kernels::LaunchFinishProduct({.rows = end - begin,
                                                  .width = one_.rows.in,
                                                  .y = View(sums),
                                                  .out = {matrix, weight_.stride, KernelType(one_.dtype)},
                                                  .bad_row = bad_row},
                                                 stream),
                    "a weight with its products");
}

// sums: of the rows from `first` on.
absl::Status CudaOps::ProductSums::AddProduct(const RowsProduct& product, int64_t first, const Tensor& sums) {
  const int64_t begin = std::max(first, product.first);
  const int64_t end = std::min(first + sums.rows(), product.first + product.up.out);
  const DType dtype = product.up.dtype;
  const int64_t rank = product.up.in, in = product.down.in, size = DTypeSize(dtype);
  if (begin >= end || rank == 0) return absl::OkStatus();
  const kernels::Rows up{up_.raw(), rank, KernelType(dtype)}, down{down_.raw(), in, KernelType(dtype)};
  KINORA_RETURN_IF_ERROR(ops_.ReadRows(product.up, begin - product.first, end - product.first, {&up, 1}, landing_));
  const int64_t most = std::max<int64_t>(1, down_.bytes() / (in * size));
  for (int64_t depth = 0; depth < rank; depth += most) {
    const int64_t depth_end = std::min(rank, depth + most);
    KINORA_RETURN_IF_ERROR(ops_.ReadRows(product.down, depth, depth_end, {&down, 1}, landing_));
    KINORA_RETURN_IF_ERROR(
        ops_.RunProduct({.m = end - begin,
                         .n = in,
                         .k = depth_end - depth,
                         .a = {.data = static_cast<char*>(up_.raw()) + depth * size, .dtype = dtype, .stride = rank},
                         .b = {.data = down_.raw(), .dtype = dtype, .stride = in},
                         .d = {.data = sums.Rows(begin - first, end - first).raw(), .stride = in},
                         .alpha = product.factor,
                         .add = true}));
  }
  return absl::OkStatus();
}

absl::Status CudaOps::RewriteWeights(absl::Span<const Rewriting> many) {
  for (const Rewriting& one : many) {
    if (one.products.empty()) {
      KINORA_RETURN_IF_ERROR(RewriteWeights(one.rows, one.dtype, one.storage));
      continue;
    }
    auto& weight = static_cast<CudaWeight&>(*one.storage[0]);
    KINORA_RETURN_IF_ERROR(CheckResident(weight));
    KINORA_RETURN_IF_ERROR(clean_.Keep(one.rows.dtype, one.dtype, weight, stream_->handle()));
    weight.has_products = true;
    int64_t bytes = MostRunBytes(one.rows);
    for (const RowsProduct& product : one.products) {
      bytes = std::max({bytes, MostRunBytes(product.up), MostRunBytes(product.down)});
    }
    KINORA_RETURN_IF_ERROR(ReserveStaging(bytes));
    absl::Status added = ProductSums(*this, one).Run();
    absl::Status waited = stream_->Synchronize();  // also after a failure, as above
    KINORA_RETURN_IF_ERROR(std::move(added));
    KINORA_RETURN_IF_ERROR(std::move(waited));
  }
  return absl::OkStatus();
}

absl::Status CudaOps::EvictWeight(const Weight& w) {
  if (w.storage() == nullptr) return absl::OkStatus();  // of a model that will be rejected
  auto& weight = static_cast<CudaWeight&>(*w.storage());
  KINORA_CHECK(!w.has_bias() && weight.evicted.data() == nullptr);
  const int64_t bytes = weight.matrix.bytes();
  KINORA_ASSIGN_OR_RETURN(Buffer pinned, AllocatePinned(bytes, "a weight that the device has no room for"));
  const cudaError_t copied =
      cudaMemcpyAsync(pinned.data(), weight.matrix.data(), bytes, cudaMemcpyDeviceToHost, stream_->handle());
  KINORA_RETURN_IF_ERROR(CudaStatus(copied, "a weight on its way to the host"));
  KINORA_RETURN_IF_ERROR(stream_->Synchronize());
  weight.evicted = std::move(pinned);
  const Buffer gone = std::exchange(weight.matrix, Buffer());
  return absl::OkStatus();
}

void CudaOps::FetchWeight(const Weight& w, const Tensor& memory) {
  auto& weight = static_cast<CudaWeight&>(*w.storage());
  const int64_t bytes = weight.evicted.bytes();
  KINORA_CHECK(weight.evicted.data() != nullptr && memory.contiguous() && memory.bytes() == bytes)
      << memory.shape().ToString() << " for a weight of " << bytes << " bytes";
  weight.matrix = Buffer(memory.raw(), bytes, /*release=*/nullptr);
  stream_->Enqueue("FetchWeight", memory, [&](cudaStream_t stream) {
    return cudaMemcpyAsync(memory.raw(), weight.evicted.data(), bytes, cudaMemcpyHostToDevice, stream);
  });
}

}  // namespace kinora
