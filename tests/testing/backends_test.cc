// Tests that the walled backend protects its memory and that the op-test fixtures detect what they promise to.
#include "tests/testing/backends.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <thread>

#include "engine/tensor/cpu_stream.h"
#include "tests/testing/walled_backend.h"

namespace kinora {
namespace {

class EachBackend : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, EachBackend, testing::ValuesIn(Backends()), BackendName);

TEST_P(EachBackend, OutputsAreNanUntilAnOpHasWrittenThem) {
  Device device(GetParam());
  const Tensor out = device.Output(DType::kF32, {3, 4});
  for (float value : device.Floats(out)) EXPECT_TRUE(std::isnan(value));
  device.ops().Fill(2.0f, out);
  for (float value : device.Floats(out)) EXPECT_EQ(value, 2.0f);
}

TEST_P(EachBackend, WhatAnOpWritesBesideItsOutputShows) {
  const TestedBackend backend = GetParam();
  for (const int64_t beside : {-4, 12}) {
    EXPECT_NONFATAL_FAILURE(
        {
          Device device(backend);
          const Tensor out = device.Output(DType::kF32, {12});
          device.ops().Fill(1.0f, Tensor(DType::kF32, {4}, static_cast<float*>(out.raw()) + beside));
        },
        "an op wrote");
  }
}

TEST_P(EachBackend, UploadsItsMemoryAndNamesWhatItCannotHave) {
  Device device(GetParam());
  Buffer host = *Buffer::Allocate(8);
  *static_cast<double*>(host.data()) = 0.25;
  const Buffer uploaded = *device.backend().Upload(std::move(host), "a number");
  double back = 0;
  device.ops().stream().CopyToHost(uploaded.View(DType::kU8, {8}), &back);
  EXPECT_TRUE(device.ops().stream().Synchronize().ok());
  EXPECT_EQ(back, 0.25);
  const absl::Status none = device.backend().Allocate(int64_t{1} << 60, "the sea").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(none.message()).find("the sea"), std::string::npos);
}

// An op that runs on its own thread during the object's lifetime.
class RunningOp {
 public:
  explicit RunningOp(Device& device)
      : thread_([this, &device] {
          auto& stream = dynamic_cast<CpuStream&>(device.ops().stream());
          stream.Enqueue([this] {
            running_ = true;
            while (!done_) std::this_thread::yield();
          });
        }) {
    while (!running_) std::this_thread::yield();
  }
  ~RunningOp() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> running_{false}, done_{false};
  std::thread thread_;
};

float ReadOnHost(const Tensor& device) { return *const_cast<const volatile float*>(device.data<float>()); }
void WriteOnHost(const Tensor& device) { *const_cast<volatile float*>(device.data<float>()) = 1.0f; }

TEST(WalledBackendDeathTest, AHostThatReadsOrWritesDeviceMemoryDiesAlsoWhileAnOpRuns) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const TestedBackend walled = Backends()[1];
  ASSERT_STREQ(walled.name, "walled");
  const auto touch = [&](bool during_op, void (*access)(const Tensor&)) {
    Device device(walled);
    const Tensor tensor = device.Output(DType::kF32, {16});
    device.ops().Fill(1.0f, tensor);
    if (!during_op) return access(tensor);
    const RunningOp op(device);
    access(tensor);
  };
  const auto read = [](const Tensor& t) { static_cast<void>(ReadOnHost(t)); };
  const auto write = [](const Tensor& t) { WriteOnHost(t); };
  EXPECT_EXIT(touch(false, read), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(touch(false, write), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(touch(true, read), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(touch(true, write), testing::KilledBySignal(SIGSEGV), "");
  touch(true, [](const Tensor&) {});  // all other accesses survive
}

TEST(WalledBackendDeathTest, AnOpThatIsGivenHostMemoryEndsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Device device(Backends()[1]);
  float host[4] = {};
  EXPECT_DEATH(device.ops().Fill(1.0f, Tensor(DType::kF32, {4}, host)), "host memory for device memory");
}

}  // namespace
}  // namespace kinora
