// The CUDA stream and backend on the simulated device: copies, captures, marks and errors.
#include "engine/ops/cuda/cuda_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/ops/backend.h"
#include "engine/ops/cuda/cuda_memory.h"
#include "tests/simt/control.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;

Floats Counting(int64_t count) {
  Floats values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

class CudaStreamTest : public testing::Test {
 protected:
  ~CudaStreamTest() override {
    streams_.clear();
    buffers_.clear();
    simt::Restore();
    simt::Seed(1);
    simt::SetDriver(cudaSuccess, CUDART_VERSION);
    simt::SetDevice(simt::Model::kH100, int64_t{80} << 30);
  }
  CudaStream& NewStream() {
    streams_.push_back(*CudaStream::Create());
    return *streams_.back();
  }
  Tensor Alloc(DType dtype, const Shape& shape) {
    buffers_.push_back(*AllocateOnDevice(shape.elements() * DTypeSize(dtype), "a test"));
    return buffers_.back().View(dtype, shape);
  }
  Floats Read(CudaStream& stream, const Tensor& t) {
    Floats values(t.elements());
    stream.CopyToHost(t, values.data());
    EXPECT_THAT(stream.Synchronize(), IsOk());
    return values;
  }

  std::vector<std::unique_ptr<CudaStream>> streams_;
  std::vector<Buffer> buffers_;
};

TEST_F(CudaStreamTest, CopiesFromTheHostPassThroughAFewPinnedMegabytesInOrder) {
  CudaStream& stream = NewStream();
  const int64_t count = 3 * CudaStream::kStagingBytes / 4 + 5;  // floats; fills the staging ring three times
  Tensor t = Alloc(DType::kF32, {count});
  Floats values = Counting(count);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    simt::Seed(seed, /*random_order=*/seed > 0);  // seed 0: a device that does nothing before it must
    stream.CopyFromHost(values.data(), t);
    Floats expected = values;
    std::fill(values.begin(), values.end(), -1.0f);  // the copy has already read it
    EXPECT_TRUE(Read(stream, t) == expected);
    values = expected;
  }
}

TEST_F(CudaStreamTest, SmallCopiesFromTheHostDoNotWait) {
  CudaStream& stream = NewStream();
  Tensor t = Alloc(DType::kF32, {16});
  const Floats values = Counting(16);
  simt::ResetCounts();
  for (int i = 0; i < 100; ++i) stream.CopyFromHost(values.data(), t);
  EXPECT_EQ(simt::Counted().synchronizations, 0u);
  EXPECT_EQ(Read(stream, t), values);
}

TEST_F(CudaStreamTest, CopyConvertsAndKeepsToTheColumnsOfAView) {
  CudaStream& stream = NewStream();
  Tensor from = Alloc(DType::kF32, {6, 20}), narrow = Alloc(DType::kBF16, {6, 20}), back = Alloc(DType::kF32, {6, 20});
  Floats values = Counting(120);
  values[27] = std::nanf("");
  stream.CopyFromHost(values.data(), from);
  const Floats zeros(120);
  stream.CopyFromHost(zeros.data(), back);
  stream.Copy(from.Columns(3, 19), narrow.Columns(4, 20));
  stream.Copy(narrow.Columns(4, 20), back.Columns(1, 17));
  const Floats got = Read(stream, back);
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t i = 0; i < 20; ++i) {
      const float value = i >= 1 && i < 17 ? values[row * 20 + i + 2] : 0;
      EXPECT_TRUE(got[row * 20 + i] == static_cast<float>(bf16(value)) ||
                  (std::isnan(value) && std::isnan(got[row * 20 + i])))
          << row << ", " << i;
    }
  }
}

TEST_F(CudaStreamTest, CountersPassAsTheyAre) {
  CudaStream& stream = NewStream();
  Tensor from = Alloc(DType::kI32, {4, 6}), to = Alloc(DType::kI32, {4, 3});
  std::vector<int32_t> values(24);
  std::iota(values.begin(), values.end(), 0x7f800001);  // signalling NaNs when seen as floats
  stream.CopyFromHost(values.data(), from);
  stream.Copy(from.Columns(2, 5), to);
  std::vector<int32_t> got(12);
  stream.CopyToHost(to, got.data());
  ASSERT_THAT(stream.Synchronize(), IsOk());
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(got[i], values[i / 3 * 6 + 2 + i % 3]) << i;
}

TEST_F(CudaStreamTest, ACaptureKeepsWorkAndAReplayDoesItOnWhatIsThereThen) {
  CudaStream& stream = NewStream();
  Tensor from = Alloc(DType::kF32, {4}), to = Alloc(DType::kF32, {4});
  const Floats first = {1, 2, 3, 4}, second = {5, 6, 7, 8};
  stream.CopyFromHost(first.data(), from);
  stream.CopyFromHost(first.data(), to);
  KINORA_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Graph> graph, stream.Capture([&] { stream.Copy(from, to); }));
  stream.CopyFromHost(second.data(), from);
  EXPECT_EQ(Read(stream, to), first);
  graph->Replay();
  EXPECT_EQ(Read(stream, to), second);
}

TEST_F(CudaStreamTest, ACaptureThatWaitsOrTouchesTheHostFailsAndTheStreamGoesOn) {
  CudaStream& stream = NewStream();
  Tensor t = Alloc(DType::kF32, {4});
  Floats values(4);
  const std::function<void()> bodies[] = {
      [&] { EXPECT_FALSE(stream.Synchronize().ok()); },
      [&] { EXPECT_FALSE(stream.Capture([] {}).ok()); },
      [&] { stream.CopyFromHost(values.data(), t); },
      [&] { stream.CopyToHost(t, values.data()); },
  };
  for (const auto& body : bodies) {
    EXPECT_THAT(stream.Capture(body).status(), StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_THAT(stream.Synchronize(), IsOk());
    EXPECT_THAT(stream.Capture([] {}), IsOk());
  }
}

TEST_F(CudaStreamTest, TheFirstFailureIsKeptWithOpAndShapeAndNothingRunsBehindIt) {
  CudaStream& stream = NewStream();
  Tensor a = Alloc(DType::kF32, {4, 8}), b = Alloc(DType::kF32, {4});
  const Floats values = Counting(4);
  stream.CopyFromHost(values.data(), b);
  simt::FailCall("kernel", cudaErrorInvalidConfiguration);
  stream.Copy(a.Columns(0, 4), Alloc(DType::kBF16, {4, 4}));
  stream.CopyFromHost(Counting(8).data(), b);
  stream.Fail(absl::InternalError("the second"));
  EXPECT_THAT(stream.Synchronize(), StatusIs(absl::StatusCode::kInternal, HasSubstr("Copy of f32 [4, 4]: ")));
  EXPECT_EQ(Read(stream, b), values);
}

TEST_F(CudaStreamTest, AStreamThatSynchronizesNamesTheOpWhoseWorkFails) {
  for (const bool synchronizes : {false, true}) {
    CudaStream& stream = NewStream();
    stream.SetSynchronizes(synchronizes);
    Tensor a = Alloc(DType::kF32, {4}), b = Alloc(DType::kF32, {2, 3}), c = Alloc(DType::kF32, {2, 3});
    stream.CopyFromHost(Counting(4).data(), a);
    simt::FailCall("cudaStreamSynchronize", cudaErrorIllegalAddress);
    stream.Copy(b, c);
    stream.Copy(a, a);
    EXPECT_THAT(stream.Synchronize(),
                StatusIs(absl::StatusCode::kAborted, HasSubstr(synchronizes ? "Copy of f32 [2, 3]" : "enqueued work")));
    simt::Restore();
  }
}

TEST_F(CudaStreamTest, KeepsWhatWorkNeedsUntilAWaitShowsThatItIsDone) {
  CudaStream& stream = NewStream();
  std::weak_ptr<int> first, second;
  const auto keep = [&](std::weak_ptr<int>& seen) {
    auto object = std::make_shared<int>();
    seen = object;
    stream.Keep(std::move(object));
  };
  keep(first);
  const int64_t mark = stream.Mark();
  keep(second);
  EXPECT_FALSE(first.expired());
  EXPECT_THAT(stream.WaitFor(mark), IsOk());
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(second.expired());
  EXPECT_THAT(stream.Synchronize(), IsOk());
  EXPECT_TRUE(second.expired());
}

TEST_F(CudaStreamTest, KeepsWhatAGraphNeedsUntilItIsDestroyedAndItsLastReplayIsDone) {
  CudaStream &stream = NewStream(), &branch = NewStream();
  std::weak_ptr<int> here, there;
  const auto keep = [](CudaStream& on, std::weak_ptr<int>& seen) {
    auto object = std::make_shared<int>();
    seen = object;
    on.Keep(std::move(object));
  };
  const auto capture = [&] {
    return *stream.Capture([&] {
      keep(stream, here);
      stream.Fork(branch);
      keep(branch, there);
      stream.Join(branch);
    });
  };
  std::unique_ptr<Graph> graph = capture();
  EXPECT_THAT(stream.Synchronize(), IsOk());
  EXPECT_FALSE(here.expired() || there.expired());
  graph = nullptr;  // never replayed
  EXPECT_TRUE(here.expired() && there.expired());
  graph = capture();
  graph->Replay();
  graph = nullptr;
  EXPECT_FALSE(here.expired() || there.expired());
  EXPECT_THAT(stream.Synchronize(), IsOk());
  EXPECT_TRUE(here.expired() && there.expired());
}

TEST_F(CudaStreamTest, KeepsNothingForACaptureThatFails) {
  CudaStream& stream = NewStream();
  std::weak_ptr<int> seen;
  const auto body = [&] {
    auto object = std::make_shared<int>();
    seen = object;
    stream.Keep(std::move(object));
    stream.Fail(absl::AbortedError("a test"));
  };
  EXPECT_FALSE(stream.Capture(body).ok());
  EXPECT_TRUE(seen.expired());
}

TEST_F(CudaStreamTest, ACaptureThatFailsLeavesTheStreamAsItWas) {
  CudaStream& stream = NewStream();
  Tensor t = Alloc(DType::kF32, {4});
  for (const char* call :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphUpload"}) {
    simt::FailCall(call, cudaErrorMemoryAllocation);
    EXPECT_THAT(stream.Capture([&] { stream.Copy(t, t); }), StatusIs(absl::StatusCode::kResourceExhausted)) << call;
    EXPECT_FALSE(stream.failed());
    EXPECT_THAT(stream.Capture([&] { stream.Copy(t, t); }), IsOk()) << call;
  }
  stream.Fail(absl::AbortedError("earlier work"));
  EXPECT_THAT(stream.Capture([] {}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(stream.failed()) << "the wait for it reports it";
  EXPECT_THAT(stream.Synchronize(), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(CudaStreamTest, AMarkIsReachedWhileWorkBehindItIsStillToCome) {
  CudaStream& stream = NewStream();
  simt::Seed(1);
  Tensor t = Alloc(DType::kF32, {4});
  const Floats values = Counting(4);
  stream.CopyFromHost(values.data(), t);
  const int64_t mark = stream.Mark();
  simt::ResetCounts();
  stream.CopyFromHost(values.data(), t);
  const int64_t last = stream.Mark();
  EXPECT_THAT(stream.WaitFor(mark), IsOk());
  EXPECT_THAT(stream.WaitFor(last), IsOk());
  EXPECT_EQ(simt::Counted().synchronizations, 0u);
}

TEST_F(CudaStreamTest, WhatWasEnqueuedBeforeAMarkIsDoneWhenItIsReached) {
  CudaStream& stream = NewStream();
  simt::Seed(1, /*random_order=*/false);  // nothing runs before the host waits for it
  Tensor t = Alloc(DType::kF32, {4});
  KINORA_ASSERT_OK_AND_ASSIGN(const Buffer pinned, AllocatePinned(16, "a test"));
  auto* const got = static_cast<float*>(pinned.data());
  for (const float first : {1.0f, 5.0f, 9.0f}) {
    const Floats values = {first, first + 1, first + 2, first + 3};
    stream.CopyFromHost(values.data(), t);
    stream.CopyToHost(t, got);
    EXPECT_THAT(stream.WaitFor(stream.Mark()), IsOk());
    EXPECT_EQ(Floats(got, got + 4), values);
  }
}

// The device is idle before the second and third turn, because the host enqueues each only after the previous one is
// done. Time before the first turn or within a turn does not count as idle.
TEST_F(CudaStreamTest, TheTimeBetweenTwoTurnsIsIdleAndNoOther) {
  CudaStream& stream = NewStream();
  Tensor t = Alloc(DType::kF32, {4});
  const auto idle_after_turn = [&](bool resumes) {
    stream.BeginTurn(resumes);
    stream.CopyFromHost(Counting(4).data(), t);
    EXPECT_THAT(stream.WaitFor(stream.Mark()), IsOk());
    return stream.idle_seconds();
  };
  EXPECT_EQ(idle_after_turn(false), 0);
  const double once = idle_after_turn(true), twice = idle_after_turn(true);
  EXPECT_GT(once, 0);
  EXPECT_GT(twice, once);
  EXPECT_EQ(idle_after_turn(false), twice);
}

// A cancelled run leaves a turn unfinished. The mark that replaces it ends no turn.
TEST_F(CudaStreamTest, ATurnThatWasNeverWaitedForIsNotIdlenessLater) {
  CudaStream& stream = NewStream();
  stream.BeginTurn(true);
  stream.Mark();
  for (int i = 0; i < Stream::kMarks; ++i) EXPECT_THAT(stream.WaitFor(stream.Mark()), IsOk());
  EXPECT_EQ(stream.idle_seconds(), 0);
}

TEST_F(CudaStreamTest, ALostDeviceEndsEveryWaitAndSaysSo) {
  CudaStream& stream = NewStream();
  const int64_t mark = stream.Mark();
  simt::FailCall("cudaEventQuery", cudaErrorLaunchFailure);
  EXPECT_THAT(stream.WaitFor(mark), StatusIs(absl::StatusCode::kAborted, HasSubstr("the CUDA device is lost")));
  EXPECT_THAT(stream.Synchronize(), StatusIs(absl::StatusCode::kAborted, HasSubstr("the CUDA device is lost")));
  EXPECT_THAT(stream.Synchronize(), StatusIs(absl::StatusCode::kAborted, HasSubstr("the CUDA device is lost")));
}

TEST_F(CudaStreamTest, MemoryThatIsNotThereIsRefusedByName) {
  EXPECT_THAT(AllocateOnDevice(int64_t{1} << 40, "the weights").status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("cannot reserve 1099511627776 bytes of device memory for the weights: ")));
  simt::FailCall("cudaHostAlloc", cudaErrorMemoryAllocation);
  EXPECT_THAT(CudaStream::Create().status(), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(CudaStreamTest, AMachineWithoutAUsableDeviceSaysWhatToDo) {
  const struct {
    cudaError_t answer;
    int version;
    const char* says;
  } machines[] = {
      {cudaErrorNoDevice, 0, "no NVIDIA driver on this machine"},
      {cudaErrorNoDevice, 13000, "no device that CUDA_VISIBLE_DEVICES shows"},
      {cudaErrorInsufficientDriver, 12040,
       "the driver knows CUDA 12.4, this build needs 13.0: update the driver to 580 or later, or on a data center GPU "
       "install the forward-compatibility package cuda-compat-13-0"},
  };
  for (const auto& machine : machines) {
    simt::SetDriver(machine.answer, machine.version);
    for (const absl::Status& status : {OpenBackend("cuda", {}).status(), DeviceName("cuda", {}).status()}) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(machine.says)));
      EXPECT_THAT(status.message(), HasSubstr("or use the cpu"));
    }
    EXPECT_THAT(OpenBackend("", {}), IsOk());
    EXPECT_THAT(TraitsOf("cuda", {}), IsOk());  // a plan needs no device
  }
}

TEST_F(CudaStreamTest, ADeviceWithoutKernelsInThisBuildIsNamedWithThoseThatHaveSome) {
  for (const auto model : {simt::Model::kA100, simt::Model::kL40S, simt::Model::kB200}) {
    simt::SetDevice(model, int64_t{80} << 30);
    EXPECT_THAT(DeviceName("cuda", {}), IsOk());
  }
  const std::pair<simt::Model, const char*> without[] = {
      {simt::Model::kB300,
       "device: cuda: simulated B300 has compute capability 10.3, this build has kernels for 8.0 to 8.9, 9.0, 10.0, "
       "12.0: build Kinora with -DKINORA_CUDA_ARCHS=103-real, or use the cpu"},
      {simt::Model::kGB10,
       "device: cuda: simulated GB10 has compute capability 12.1, this build has kernels for 8.0 to 8.9, 9.0, 10.0, "
       "12.0: build Kinora with -DKINORA_CUDA_ARCHS=121-real, or use the cpu"},
  };
  for (const auto& [model, says] : without) {
    simt::SetDevice(model, int64_t{80} << 30);
    for (const absl::Status& status : {OpenBackend("cuda", {}).status(), DeviceName("cuda", {}).status()}) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, says));
    }
  }
}

TEST_F(CudaStreamTest, TheBackendGivesMemoryOfBothKindsAndNamesItsDevice) {
  EXPECT_THAT(*DeviceName("cuda", {}), HasSubstr("H100"));
  KINORA_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> backend, OpenBackend("cuda", {.threads = 2}));
  EXPECT_EQ(backend->usable_memory().by, "the device's free memory");
  KINORA_ASSERT_OK_AND_ASSIGN(Buffer host, backend->AllocateHost(64, "a test"));
  auto* const values = static_cast<float*>(host.data());
  std::iota(values, values + 16, 1.0f);
  KINORA_ASSERT_OK_AND_ASSIGN(const Buffer device, backend->Upload(std::move(host), "a test"));
  Floats got(16);
  backend->ops().stream().CopyToHost(device.View(DType::kF32, {16}), got.data());
  EXPECT_THAT(backend->ops().stream().Synchronize(), IsOk());
  EXPECT_EQ(got, Counting(16));
}

TEST_F(CudaStreamTest, FlagsOfTheProgramReachTheBackend) {
  setenv(kCudaOffVariable, "tuning", 1);
  KINORA_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> whole, OpenBackend("cuda", {}));
  EXPECT_NE(whole->branch(), nullptr);
  EXPECT_TRUE(whole->ops().stream().can_capture());
  const CudaFlags flags{.off = CudaSwitches{.graphs = false, .branch = false}};
  KINORA_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> less, OpenBackend("cuda", {.cuda = flags}));
  unsetenv(kCudaOffVariable);
  EXPECT_EQ(less->branch(), nullptr);
  EXPECT_FALSE(less->ops().stream().can_capture());
}

}  // namespace
}  // namespace kinora
