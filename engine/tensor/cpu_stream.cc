#include "engine/tensor/cpu_stream.h"

#include <cstring>

namespace kinora {

class CpuGraph : public Graph {
 public:
  CpuGraph(CpuStream& stream, CpuStream::Closures closures) : stream_(stream), closures_(std::move(closures)) {}
  void Replay() override {
    for (const auto& closure : closures_) {
      if (!stream_.failure_.ok()) return;
      if (!Tracing()) {
        closure.work();
        continue;
      }
      const absl::Time begin = TraceNow();
      closure.work();
      AddTraceSpan("op", closure.name, begin, TraceNow(), closure.traced);
    }
  }

 private:
  CpuStream& stream_;
  const CpuStream::Closures closures_;
};

void CopyElements(const Tensor& from, const Tensor& to) {
  const int64_t width = from.width();
  for (int64_t row = 0; row < from.rows(); ++row) {
    if (from.dtype() == to.dtype()) {
      const int64_t size = DTypeSize(from.dtype());
      std::memcpy(static_cast<char*>(to.raw()) + row * to.row_stride() * size,
                  static_cast<const char*>(from.raw()) + row * from.row_stride() * size, width * size);
    } else if (from.dtype() == DType::kF32) {
      const float* in = from.data<float>() + row * from.row_stride();
      bf16* out = to.data<bf16>() + row * to.row_stride();
      for (int64_t i = 0; i < width; ++i) out[i] = bf16(in[i]);
    } else {
      const bf16* in = from.data<bf16>() + row * from.row_stride();
      float* out = to.data<float>() + row * to.row_stride();
      for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(in[i]);
    }
  }
}

void CpuStream::Copy(const Tensor& from, Tensor to) {
  KINORA_CHECK(from.elements() == to.elements()) << from.shape().ToString() << " to " << to.shape().ToString();
  if (from.elements() == 0) return;
  if (from.width() != to.width()) {  // regrouping is free when both are contiguous
    KINORA_CHECK(from.contiguous() && to.contiguous()) << from.shape().ToString() << " to " << to.shape().ToString();
    CpuStream::Copy(from.Reshape({from.elements()}), to.Reshape({to.elements()}));
    return;
  }
  Enqueue([from, to] { CopyElements(from, to); });
}

CpuStream& OnCpu(Stream& stream) {
  auto* cpu = dynamic_cast<CpuStream*>(&stream);
  KINORA_CHECK(cpu != nullptr) << "work of the CPU on another device's stream";
  return *cpu;
}

void CpuStream::CopyFromHost(const void* host, Tensor to) {
  KINORA_CHECK(to.contiguous()) << to.shape().ToString();
  if (capturing()) Fail(absl::FailedPreconditionError("host memory read inside a capture"));
  if (failure_.ok() && to.raw() != host && to.bytes() > 0) std::memcpy(to.raw(), host, to.bytes());
}

void CpuStream::CopyToHost(const Tensor& from, void* host) {
  KINORA_CHECK(from.contiguous()) << from.shape().ToString();
  if (capturing()) Fail(absl::FailedPreconditionError("host memory written inside a capture"));
  if (failure_.ok() && from.raw() != host && from.bytes() > 0) std::memcpy(host, from.raw(), from.bytes());
}

Tensor CpuStream::HostSide(const Tensor& device, ArenaScope&) const {
  KINORA_CHECK(device.contiguous()) << device.shape().ToString();
  return device;
}

absl::StatusOr<std::unique_ptr<Graph>> CpuStream::Capture(std::function<void()> body) {
  if (capturing()) {
    Fail(absl::FailedPreconditionError("a capture is already in progress on this stream"));
    return failure_;
  }
  if (!failure_.ok()) return failure_;  // from earlier work, such as a lost rank
  Closures closures;
  recording_ = &closures;
  body();
  recording_ = nullptr;
  if (!failure_.ok()) return std::exchange(failure_, absl::OkStatus());
  return std::make_unique<CpuGraph>(*this, std::move(closures));
}

absl::Status CpuStream::Synchronize() {
  if (recording_ != nullptr) {
    Fail(absl::FailedPreconditionError("Synchronize inside a capture"));
    return failure_;
  }
  return std::exchange(failure_, absl::OkStatus());
}

absl::Status CpuStream::WaitFor(int64_t) { return failure_; }  // work is done when it is enqueued

void CpuStream::Fail(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
}

}  // namespace kinora
