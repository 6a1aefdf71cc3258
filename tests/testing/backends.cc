#include "tests/testing/backends.h"

#include <algorithm>
#include <cstring>

#include "engine/tensor/cpu_stream.h"
#include "tests/testing/walled_backend.h"

namespace kinora {
namespace {

constexpr uint8_t kSentinel = 0x5a;

}  // namespace

void PrintTo(const TestedBackend& backend, std::ostream* out) { *out << backend.name; }

std::vector<TestedBackend> Backends() {
  std::vector<TestedBackend> backends = {
      {"cpu", [](const BackendOptions& options) { return OpenBackend("cpu", options); },
       [](const BackendOptions& options) { return TraitsOf("cpu", options).value(); }},
      {"walled", OpenWalledBackend, WalledTraits}};
  if (!absl::IsUnimplemented(DeviceName("cuda", {}).status())) {  // this build has it
    backends.push_back({"cuda", [](const BackendOptions& options) { return OpenBackend("cuda", options); },
                        [](const BackendOptions& options) { return TraitsOf("cuda", options).value(); }});
  }
  return backends;
}

TestedBackend Cpu() { return Backends().front(); }

TestedBackend Cuda() {
  TestedBackend last = Backends().back();
  KINORA_CHECK(std::string_view(last.name) == "cuda") << "this build has no CUDA backend";
  return last;
}

double Tolerance(const TestedBackend& backend, DType dtype) {
  return Tolerance(std::string_view(backend.name) == "cuda" ? TestBackend::kCuda : TestBackend::kCpu, dtype);
}

std::string BackendName(const testing::TestParamInfo<TestedBackend>& info) { return info.param.name; }

Device::Device(const TestedBackend& backend, int threads) {
  auto opened = backend.open({.threads = threads});
  KINORA_CHECK(opened.ok()) << opened.status().ToString();
  backend_ = *std::move(opened);
}

Tensor Device::Reserve(DType dtype, const Shape& shape) {
  const int64_t bytes = shape.elements() * DTypeSize(dtype), whole = bytes + 2 * kSentinelBytes;
  auto buffer = backend_->Allocate(whole, "a tensor of a test");
  KINORA_CHECK(buffer.ok()) << buffer.status().ToString();
  std::vector<uint8_t> contents(whole, kSentinel);
  std::fill_n(contents.begin() + kSentinelBytes, bytes, uint8_t{0xff});
  ops().stream().CopyFromHost(contents.data(), buffer->View(DType::kU8, {whole}));
  buffers_.push_back(*std::move(buffer));
  return Tensor(dtype, shape, static_cast<char*>(buffers_.back().data()) + kSentinelBytes);
}

Device::~Device() {
  for (const Buffer& buffer : buffers_) {
    std::vector<uint8_t> contents(buffer.bytes());
    ops().stream().CopyToHost(buffer.View(DType::kU8, {buffer.bytes()}), contents.data());
    EXPECT_TRUE(ops().stream().Synchronize().ok());
    const auto whole = [](auto begin, auto end) {
      return std::all_of(begin, end, [](uint8_t b) { return b == kSentinel; });
    };
    EXPECT_TRUE(whole(contents.begin(), contents.begin() + kSentinelBytes)) << "an op wrote before a tensor";
    EXPECT_TRUE(whole(contents.end() - kSentinelBytes, contents.end())) << "an op wrote after a tensor";
  }
}

Tensor Device::Upload(const Tensor& host) {
  Tensor device = Reserve(host.dtype(), host.shape());
  ops().stream().CopyFromHost(host.raw(), device);
  return device;
}

Tensor Device::Upload(const std::vector<float>& values, const Shape& shape) {
  KINORA_CHECK_EQ(static_cast<int64_t>(values.size()), shape.elements());
  return Upload(Tensor(DType::kF32, shape, const_cast<float*>(values.data())));
}

Tensor Device::Upload(const Tensor& host, DType dtype) {
  const HostTensor converted(dtype, host.shape());
  CopyElements(host, converted.tensor());
  return Upload(converted.tensor());
}

Tensor Device::Output(DType dtype, const Shape& shape) { return Reserve(dtype, shape); }

HostTensor Device::Download(const Tensor& device) {
  HostTensor host(device.dtype(), device.shape());
  ops().stream().CopyToHost(device, host.tensor().raw());
  const absl::Status status = ops().stream().Synchronize();
  EXPECT_TRUE(status.ok()) << status.ToString();
  return host;
}

std::vector<float> Device::Floats(const Tensor& device) {
  const HostTensor host = Download(device);
  std::vector<float> values(device.elements());
  CopyElements(host.tensor(), Tensor(DType::kF32, device.shape(), values.data()));
  return values;
}

}  // namespace kinora
