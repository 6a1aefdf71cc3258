// Runs op tests on every available backend:
//
//   class Norms : public OpTest {};
//   TEST_P(Norms, AreWhatTheirFormulaSays) {
//     Device device(GetParam());
//     const Tensor x = device.Upload(values, {17, 64}), out = device.Output(DType::kF32, {17, 64});
//     device.ops().LayerNorm(x, 1e-6f, out);
//     EXPECT_TRUE(Near(device.Download(out).tensor(), expected, 1e-6));
//   }
//   INSTANTIATE_TEST_SUITE_P(On, Norms, testing::ValuesIn(Backends()), BackendName);
//
// Each tensor of a Device has its own buffer between two sentinels, and outputs hold NaN until an op writes them. Tests
// therefore detect writes outside an output and elements that were never written.
#ifndef KINORA_TESTS_TESTING_BACKENDS_H_
#define KINORA_TESTS_TESTING_BACKENDS_H_

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/ops/backend.h"
#include "tests/testing/golden.h"

namespace kinora {

struct TestedBackend {
  const char* name;
  absl::StatusOr<std::unique_ptr<Backend>> (*open)(const BackendOptions& options);
  BackendTraits (*traits)(const BackendOptions& options);
};

void PrintTo(const TestedBackend& backend, std::ostream* out);

// The CPU, the walled CPU (walled_backend.h) and, if the build includes it, CUDA (real or simulated).
std::vector<TestedBackend> Backends();
TestedBackend Cpu();
TestedBackend Cuda();                                         // CHECK-fails if the build has no CUDA
double Tolerance(const TestedBackend& backend, DType dtype);  // see golden.h
std::string BackendName(const testing::TestParamInfo<TestedBackend>& info);

class OpTest : public testing::TestWithParam<TestedBackend> {};

// A backend and tensors in its memory. The destructor fails the test if anything was written outside the tensors.
class Device {
 public:
  explicit Device(const TestedBackend& backend, int threads = 2);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Backend& backend() { return *backend_; }
  Ops& ops() { return backend_->ops(); }

  Tensor Upload(const Tensor& host);  // contiguous
  Tensor Upload(const std::vector<float>& values, const Shape& shape);
  Tensor Upload(const Tensor& host, DType dtype);  // converts; f32 or bf16
  // f32 and bf16 outputs are filled with NaN.
  Tensor Output(DType dtype, const Shape& shape);
  // Waits for the ops. Fails the test if one of them failed.
  HostTensor Download(const Tensor& device);
  std::vector<float> Floats(const Tensor& device);  // f32 or bf16

 private:
  static constexpr int64_t kSentinelBytes = 64;
  Tensor Reserve(DType dtype, const Shape& shape);

  std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_BACKENDS_H_
