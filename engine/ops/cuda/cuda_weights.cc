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

namespace kinora {
namespace {

constexpr int64_t kRunBytes = int64_t{4} << 20;  // bytes of rows read at once; at least one row

// Returns the number of elements from one row to the next.
int64_t StrideOf(DType dtype, int64_t width) {
  const int64_t row = width * DTypeSize(dtype);
  return (row + kWeightRowAlignment - 1) / kWeightRowAlignment * kWeightRowAlignment / DTypeSize(dtype);
}

int64_t RowBytes(const WeightRows& rows) { return rows.count * rows.taps * rows.in * DTypeSize(rows.dtype); }

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
  for (const WeightStorage* weight : storage) {
    if (static_cast<const CudaWeight*>(weight)->evicted.data() == nullptr) continue;
    return absl::UnimplementedError("weights that live in host memory cannot be rewritten: keep them on the device");
  }
  KINORA_CHECK(rows.dtype == DType::kF32 || rows.dtype == DType::kBF16) << DTypeName(rows.dtype);
  const int64_t row_bytes = RowBytes(rows);
  const int64_t each = std::max<int64_t>(1, std::min(kRunBytes, scratch_.bytes() / pool_.threads()) / row_bytes);
  KINORA_RETURN_IF_ERROR(ReserveStaging(std::min(rows.out, each) * row_bytes));
  const int64_t runs = (rows.out + each - 1) / each;
  std::vector<absl::Status> failures(runs);
  std::atomic<bool> failed = false;  // runs start in order, so none before the first failure is skipped
  pool_.Run(runs, [&](int64_t run, int thread) {
    if (failed) return;
    failures[run] = LayOut(rows, run * each, std::min(rows.out, (run + 1) * each), storage, dtype, thread);
    if (!failures[run].ok()) failed = true;
  });
  absl::Status done = stream_->Synchronize();  // also after a failure: the weights may then be freed
  for (absl::Status& status : failures) KINORA_RETURN_IF_ERROR(std::move(status));
  return done;
}

// Reads and lays out rows [begin, end) of every matrix. thread: the calling thread's number in the pool.
absl::Status CudaOps::LayOut(const WeightRows& rows, int64_t begin, int64_t end,
                             absl::Span<WeightStorage* const> storage, DType dtype, int thread) {
  Staging& staging = *staging_[thread];
  const int64_t width = rows.taps * rows.in, matrix_bytes = (end - begin) * RowBytes(rows) / rows.count;
  cudaStream_t const stream = stream_->handle();
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), "a thread that reads weights"));
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(staging.left), "weights on their way"));
  KINORA_RETURN_IF_ERROR(rows.read(begin, end, staging.pinned.data()));
  char* const landing = static_cast<char*>(scratch_.data()) + thread * (scratch_.bytes() / pool_.threads() / 256 * 256);
  for (int n = 0; n < rows.count; ++n) {
    const auto& weight = static_cast<const CudaWeight&>(*storage[n]);
    const char* const from = static_cast<const char*>(staging.pinned.data()) + n * matrix_bytes;
    char* const to = static_cast<char*>(weight.matrix.data()) + begin * weight.stride * DTypeSize(dtype);
    const bool as_read = rows.dtype == dtype && weight.stride == width;
    KINORA_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(as_read ? to : landing, from, matrix_bytes, cudaMemcpyHostToDevice, stream), "a weight"));
    if (as_read) continue;
    const kernels::Rows read{landing, width, KernelType(rows.dtype)}, laid_out{to, weight.stride, KernelType(dtype)};
    KINORA_RETURN_IF_ERROR(
        CudaStatus(kernels::LaunchCopyRows(read, laid_out, end - begin, width, stream), "a weight's layout"));
  }
  return CudaStatus(cudaEventRecord(staging.left, stream), "weights on their way");
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
