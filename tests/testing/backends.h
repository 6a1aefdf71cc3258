// Op tests run on every backend there is:
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
// A tensor of a Device is its own buffer between two sentinels; outputs hold NaN until an op has written them. What an
// op writes beside its output, and what it leaves out, shows.
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

// The CPU, the CPU behind a wall (walled_backend.h), and CUDA where the build has it, simulated or not.
std::vector<TestedBackend> Backends();
TestedBackend Cpu();
TestedBackend Cuda();                                         // CHECK-fails where the build has none
double Tolerance(const TestedBackend& backend, DType dtype);  // golden.h
std::string BackendName(const testing::TestParamInfo<TestedBackend>& info);

class OpTest : public testing::TestWithParam<TestedBackend> {};

// A backend, and tensors in its memory. The destructor fails the test if anything was written beside them.
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
  Tensor Upload(const Tensor& host, DType dtype);  // converted: f32 and bf16
  // NaN in f32 and bf16.
  Tensor Output(DType dtype, const Shape& shape);
  // Waits for the ops; an error among them fails the test.
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
