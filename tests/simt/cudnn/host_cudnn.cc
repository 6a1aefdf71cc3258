// Test only: implements engine/ops/cuda/cudnn.h on the simulated device.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_status.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/cuda_traits.h"
#include "tests/simt/cudnn/control.h"
#include "tests/simt/cudnn/host_attention.h"
#include "tests/simt/cudnn/host_convolution.h"
#include "tests/simt/cudnn/refusals.h"
#include "tests/simt/library.h"

namespace kinora {
namespace {

constexpr int64_t kBf16 = 2;

std::atomic<int64_t> built_plans = 0, plan_bytes = kMostPlanBytes / 3;

// Adds the memory at `data`: [batch, rows] ranges of heads · width elements.
void AddAccesses(const void* data, const HeadStrides& s, int64_t batch, int64_t heads, int64_t rows, int64_t width,
                 bool written, std::vector<simt::Access>& accesses) {
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      accesses.push_back({.begin = static_cast<const char*>(data) + (b * s.batch + h * s.head) * kBf16,
                          .bytes = width * kBf16,
                          .rows = rows,
                          .stride = s.row * kBf16,
                          .written = written});
    }
  }
}

// Ends the process when work runs whose plan was destroyed, and its kernels with it.
class Lifetime {
 public:
  auto Check() const {
    return [alive = std::weak_ptr<const int>(token_)] {
      KINORA_CHECK(!alive.expired()) << "cuDNN: a plan was destroyed before its work was done";
    };
  }

 private:
  const std::shared_ptr<const int> token_ = std::make_shared<int>();
};

absl::Status CheckAligned(absl::Span<void* const> operands) {
  for (const void* operand : operands) {
    if (reinterpret_cast<uintptr_t>(operand) % 16 != 0) {
      return absl::InternalError("cuDNN: an operand that is not aligned to 16 bytes");
    }
  }
  return absl::OkStatus();
}

class AttentionPlan : public CudnnPlan {
 public:
  explicit AttentionPlan(const CudnnAttention& shape) : shape_(shape) {}
  int64_t workspace_bytes() const override { return 256; }  // as for the library's plans of these shapes
  int64_t memory_bytes() const override { return memory_bytes_; }
  std::string engine() const override { return "definition"; }
  absl::Status Run(absl::Span<void* const> operands, void* workspace, cudaStream_t stream) const override {
    KINORA_CHECK_EQ(operands.size(), shape_.bias ? 5u : 4u);
    KINORA_RETURN_IF_ERROR(CheckAligned(operands));
    const CudnnAttention& a = shape_;
    std::vector<simt::Access> accesses = {{.begin = workspace, .bytes = workspace_bytes(), .written = true}};
    AddAccesses(operands[0], a.q, a.batch, a.heads, a.queries, a.head_width, false, accesses);
    AddAccesses(operands[1], a.k, a.batch, a.kv_heads, a.keys, a.head_width, false, accesses);
    AddAccesses(operands[2], a.v, a.batch, a.kv_heads, a.keys, a.head_width, false, accesses);
    AddAccesses(operands[3], a.out, a.batch, a.heads, a.queries, a.head_width, true, accesses);
    if (a.bias) {
      accesses.push_back({.begin = operands[4], .bytes = a.keys * 4, .rows = a.queries, .stride = a.bias_stride * 4});
    }
    std::vector<void*> kept(operands.begin(), operands.end());
    return CudaStatus(simt::EnqueueLibrary(stream, "cudnn_attention", std::move(accesses),
                                           [shape = shape_, kept = std::move(kept), check = lifetime_.Check()] {
                                             check();
                                             simt::Attend(shape, kept);
                                           }),
                      "cuDNN");
  }

 private:
  const CudnnAttention shape_;
  const int64_t memory_bytes_ = plan_bytes;
  const Lifetime lifetime_;
};

class ConvolutionPlan : public CudnnPlan {
 public:
  explicit ConvolutionPlan(const CudnnConvolution& shape) : shape_(shape) {}
  int64_t workspace_bytes() const override { return 0; }
  int64_t memory_bytes() const override { return memory_bytes_; }
  std::string engine() const override { return "definition"; }
  absl::Status Run(absl::Span<void* const> operands, void*, cudaStream_t stream) const override {
    const CudnnConvolution& c = shape_;
    KINORA_CHECK_EQ(operands.size(), c.bias ? 4u : 3u);
    KINORA_RETURN_IF_ERROR(CheckAligned(operands));
    const int64_t positions = simt::OutputExtent(c.time, c.frames) * simt::OutputExtent(c.height, c.rows) *
                              simt::OutputExtent(c.width, c.columns);
    const int64_t taps = int64_t{1} * c.time.kernel * c.height.kernel * c.width.kernel;
    const auto access = [](const void* begin, int64_t rows, int64_t width, int64_t stride, DType dtype) {
      const int64_t each = DTypeSize(dtype);
      return simt::Access{.begin = begin, .bytes = width * each, .rows = rows, .stride = stride * each};
    };
    std::vector<simt::Access> accesses = {
        access(operands[0], c.frames * c.rows * c.columns, c.in_channels, c.x_stride, c.dtype),
        access(operands[1], c.out_channels, taps * c.in_channels, c.filter_stride, c.dtype),
        access(operands[2], positions, c.out_channels, c.out_stride, c.out_dtype)};
    accesses.back().written = true;
    if (c.bias) accesses.push_back({.begin = operands[3], .bytes = c.out_channels * DTypeSize(c.out_dtype)});
    std::vector<void*> kept(operands.begin(), operands.end());
    return CudaStatus(simt::EnqueueLibrary(stream, "cudnn_convolution", std::move(accesses),
                                           [shape = shape_, kept = std::move(kept), check = lifetime_.Check()] {
                                             check();
                                             simt::Convolve(shape, kept);
                                           }),
                      "cuDNN");
  }

 private:
  const CudnnConvolution shape_;
  const int64_t memory_bytes_ = plan_bytes;
  const Lifetime lifetime_;
};

class HostCudnn : public Cudnn {
 public:
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnAttention& shape) override {
    KINORA_RETURN_IF_ERROR(simt::Supports(shape));
    ++built_plans;
    return std::make_unique<AttentionPlan>(shape);
  }
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnConvolution& shape) override {
    KINORA_RETURN_IF_ERROR(simt::Supports(shape));
    ++built_plans;
    return std::make_unique<ConvolutionPlan>(shape);
  }
};

}  // namespace

int64_t simt::BuiltPlans() { return built_plans; }
void simt::SetPlanBytes(int64_t bytes) { plan_bytes = bytes; }

absl::StatusOr<std::unique_ptr<Cudnn>> OpenCudnn() { return std::make_unique<HostCudnn>(); }

}  // namespace kinora
