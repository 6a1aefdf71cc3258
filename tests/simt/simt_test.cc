// Tests that the simulated device detects errors in kernels and host code and accepts correct code. Three builds of
// this program detect different errors: a plain one, AddressSanitizer with UBSan, and ThreadSanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <string>
#include <vector>

#include "tests/simt/control.h"
#include "tests/simt/device_buffer.h"
#include "tests/simt/faults.h"

namespace kinora::simt {
namespace {

using testing::HasSubstr;

enum class Build : uint8_t { kPlain, kAddress, kThread };
#if defined(__SANITIZE_ADDRESS__)
constexpr Build kBuild = Build::kAddress;
#elif defined(__SANITIZE_THREAD__)
constexpr Build kBuild = Build::kThread;
#else
constexpr Build kBuild = Build::kPlain;
#endif

class SimtTest : public testing::Test {
 protected:
  SimtTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, so that no report is suppressed as already seen
    Seed(1);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~SimtTest() override {
    GuardDevice(false);
    Restore();
    cudaStreamDestroy(stream_);
  }
  static std::vector<float> Counting() {
    std::vector<float> values(kFaultElements);
    for (int i = 0; i < kFaultElements; ++i) values[i] = static_cast<float>(i);
    return values;
  }
  cudaStream_t stream_ = nullptr;
};

// ---- Incorrect kernels

struct Seen {
  Fault fault;
  const char* name;
  const char* message = nullptr;    // of the device, in every build
  const char* address = nullptr;    // AddressSanitizer's or UBSan's message
  bool race = false;                // ThreadSanitizer reports a race
  bool shows = false;               // in the plain build, results are wrong for some of eight seeds
  float (*right)(int i) = nullptr;  // x[i], or y[i] if `in_y`
  int checked = 0;                  // number of elements to compare
  bool in_y = false;
};

class Faults : public SimtTest, public testing::WithParamInterface<Seen> {};

bool ShowsIn(const Seen& seen, cudaStream_t stream, const std::vector<float>& start) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Seed(seed);
    DeviceBuffer x(start, stream), y(start, stream);
    EXPECT_EQ(LaunchFault(seen.fault, x.data(), y.data(), stream), cudaSuccess);
    const std::vector<float> got = (seen.in_y ? y : x).Read(stream);
    for (int i = 0; i < seen.checked; ++i) {
      if (!(got[i] == seen.right(i))) return true;
    }
  }
  return false;
}

void RunFault(const Seen& seen, cudaStream_t stream, const std::vector<float>& start) {
  DeviceBuffer x(start, stream), y(start, stream);
  LaunchFault(seen.fault, x.data(), y.data(), stream);
  cudaStreamSynchronize(stream);
  std::_Exit(0);  // nothing was detected
}

TEST_P(Faults, AreSeen) {
  const Seen& seen = GetParam();
  if (seen.message != nullptr) {
    DeviceBuffer x(Counting(), stream_), y(Counting(), stream_);
    LaunchFault(seen.fault, x.data(), y.data(), stream_);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
    EXPECT_THAT(Failure(), HasSubstr(seen.message));
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure) << "a lost device stays lost";
  } else if (kBuild == Build::kThread && seen.race) {
    EXPECT_DEATH(RunFault(seen, stream_, Counting()), "data race");
  } else if (kBuild == Build::kAddress && seen.address != nullptr) {
    EXPECT_DEATH(RunFault(seen, stream_, Counting()), seen.address);
  } else if (seen.shows) {
    EXPECT_TRUE(ShowsIn(seen, stream_, Counting()));
  } else {
    GTEST_SKIP() << "not seen in this build";
  }
}

const Seen kFaults[] = {
    {.fault = Fault::kNoBarrier,
     .name = "NoBarrier",
     .race = true,
     .shows = true,
     .right = [](int i) { return 127.0f - static_cast<float>(i); },
     .checked = 128},
    {.fault = Fault::kNoSecondBarrier, .name = "NoSecondBarrier", .race = true},
    {.fault = Fault::kReadsPast, .name = "ReadsPast", .address = "use-after-poison"},
    {.fault = Fault::kWritesPastShared, .name = "WritesPastShared", .address = "heap-buffer-overflow"},
    {.fault = Fault::kHalfABarrier, .name = "HalfABarrier", .message = "deadlock"},
    {.fault = Fault::kTwoBarriers, .name = "TwoBarriers", .message = "divergent barrier"},
    {.fault = Fault::kInactiveLane, .name = "InactiveLane", .message = "is read and takes no part"},
    {.fault = Fault::kLeavesEarly, .name = "LeavesEarly", .message = "has returned"},
    {.fault = Fault::kLanesDisagree, .name = "LanesDisagree", .message = "lanes of one mask disagree"},
    {.fault = Fault::kReturnsBeforeABarrier, .name = "ReturnsBeforeABarrier", .message = "a barrier after a return"},
    {.fault = Fault::kMisaligned, .name = "Misaligned", .address = "misaligned address"},
    {.fault = Fault::kMisalignedCopy, .name = "MisalignedCopy", .message = "not aligned to 16 bytes"},
    {.fault = Fault::kNoWait,
     .name = "NoWait",
     .shows = true,
     .right = [](int i) { return static_cast<float>(i); },
     .checked = 128,
     .in_y = true},
    {.fault = Fault::kUninitialised,
     .name = "Uninitialised",
     .shows = true,
     .right = [](int) { return 1.0f; },
     .checked = 64,
     .in_y = true},
    {.fault = Fault::kNotAtomic, .name = "NotAtomic", .race = true},
    {.fault = Fault::kAsIfBlocksRanInOrder, .name = "AsIfBlocksRanInOrder", .race = true},
    {.fault = Fault::kTooMuchShared, .name = "TooMuchShared", .message = "bytes of shared memory; a block can have"},
    {.fault = Fault::kNeverWaits, .name = "NeverWaits", .message = "ended without WaitForPrevious"},
    {.fault = Fault::kReadsBeforeItWaits, .name = "ReadsBeforeItWaits", .race = true},
};
void PrintTo(const Seen& seen, std::ostream* out) { *out << seen.name; }
INSTANTIATE_TEST_SUITE_P(All, Faults, testing::ValuesIn(kFaults), [](const auto& info) { return info.param.name; });

TEST_F(SimtTest, MessagesNameThreadsAndLines) {
  DeviceBuffer x(Counting(), stream_);
  LaunchFault(Fault::kTwoBarriers, x.data(), x.data(), stream_);
  cudaStreamSynchronize(stream_);
  EXPECT_THAT(Failure(),
              testing::ContainsRegex("thread [0-9]+ of block .0,0,0. is at __syncthreads .*faults.cu:[0-9]+"));
}

// ---- Incorrect host code

TEST_F(SimtTest, HostMemoryAsAnArgumentIsSeen) {
  std::vector<float> host(64);
  LaunchDouble(host.data(), stream_);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_THAT(Failure(), HasSubstr("points to host memory"));
}

TEST_F(SimtTest, TheHostDiesWhereItTouchesDeviceMemory) {
  if (kBuild != Build::kPlain) GTEST_SKIP() << "sanitizers take the signal";
  DeviceBuffer x(Counting(), stream_);
  cudaStreamSynchronize(stream_);
  GuardDevice(true);
  EXPECT_EXIT(std::_Exit(x.data()[3] > 0 ? 1 : 0), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EQ(LaunchDouble(x.data(), stream_), cudaSuccess);  // a kernel may access it
  EXPECT_EQ(x.Read(stream_)[3], 6);
}

TEST_F(SimtTest, AStreamThatDoesNotWaitForAnotherIsSeen) {
  const auto run = [&](bool event_recorded) {
    cudaStream_t other = nullptr;
    cudaEvent_t event = nullptr;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    DeviceBuffer x(Counting(), stream_), y(Counting(), stream_);
    cudaStreamSynchronize(stream_);
    LaunchDouble(x.data(), stream_);
    if (event_recorded) {
      cudaEventRecord(event, stream_);
      cudaStreamWaitEvent(other, event, 0);
    }
    LaunchAdd(y.data(), x.data(), other);
    cudaStreamSynchronize(other);
    const bool right = y.Read(other)[5] == 15;
    cudaStreamSynchronize(stream_);
    cudaEventDestroy(event);
    cudaStreamDestroy(other);
    return right;
  };
  int right = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Seed(seed);
    EXPECT_TRUE(run(true)) << seed;
    if (kBuild != Build::kThread) right += run(false) ? 1 : 0;
  }
  if (kBuild == Build::kThread) {
    EXPECT_DEATH((run(false), std::_Exit(0)), "data race");
  } else {
    EXPECT_LT(right, 16);
  }
}

TEST_F(SimtTest, APinnedSourceIsReadLate) {
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 256, 0), cudaSuccess);
  DeviceBuffer x(Counting(), stream_);
  int late = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Seed(seed);
    auto* values = static_cast<float*>(pinned);
    values[0] = 5;
    cudaMemcpyAsync(x.data(), pinned, 256, cudaMemcpyHostToDevice, stream_);
    if (kBuild != Build::kThread) values[0] = 6;  // too early
    late += x.Read(stream_)[0] == 6 ? 1 : 0;
  }
  if (kBuild != Build::kThread) {
    EXPECT_GT(late, 0);
  }
  cudaFreeHost(pinned);
}

TEST_F(SimtTest, CopiesBeyondAnAllocationAndInWrongDirectionsAreRefused) {
  DeviceBuffer x(Counting(), stream_);
  std::vector<float> host(kFaultElements + 1);
  const size_t bytes = host.size() * sizeof(float);
  EXPECT_EQ(cudaMemcpyAsync(x.data(), host.data(), bytes, cudaMemcpyHostToDevice, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(x.data(), host.data(), 4, cudaMemcpyDeviceToHost, stream_),
            cudaErrorInvalidMemcpyDirection);
}

TEST_F(SimtTest, LaunchesThatNoDeviceTakesAreRefused) {
  EXPECT_EQ(LaunchDouble(nullptr, nullptr), cudaErrorInvalidResourceHandle);
  FailCall("kernel", cudaErrorInvalidDeviceFunction, 1);
  DeviceBuffer x(Counting(), stream_);
  EXPECT_EQ(LaunchDouble(x.data(), stream_), cudaSuccess);
  EXPECT_EQ(LaunchDouble(x.data(), stream_), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(LaunchDouble(x.data(), stream_), cudaSuccess);
}

// ---- Memory

TEST_F(SimtTest, FreshMemoryHoldsNan) {
  DeviceBuffer x(3 << 20);  // more than the file of NaNs holds
  const std::vector<float> values = x.Read(stream_);
  for (const size_t i : {size_t{0}, values.size() / 2, values.size() - 1}) EXPECT_TRUE(std::isnan(values[i])) << i;
}

TEST_F(SimtTest, MemoryRunsOutAtTheBudgetAndComesBack) {
  size_t free_bytes = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  EXPECT_EQ(total, size_t{80} << 30);
  void *large = nullptr, *more = nullptr;
  ASSERT_EQ(cudaMalloc(&large, free_bytes), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFree(large), cudaSuccess);
  EXPECT_EQ(cudaFree(large), cudaErrorInvalidValue) << "twice";
  ASSERT_EQ(cudaMalloc(&more, 1), cudaSuccess);
  EXPECT_NE(more, large) << "addresses never come back";
  EXPECT_EQ(cudaFree(more), cudaSuccess);
}

// ---- Captures and graphs

TEST_F(SimtTest, AGraphOfTwoBranchesReplaysInAnyOrderThatItsEdgesAllow) {
  cudaStream_t side = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
  const std::vector<float> ones(64, 1.0f);
  DeviceBuffer a(ones, stream_), b(ones, stream_);
  cudaStreamSynchronize(stream_);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaEventRecord(fork, stream_);
  cudaStreamWaitEvent(side, fork, 0);
  LaunchDouble(a.data(), stream_);
  LaunchDouble(b.data(), side);
  LaunchDouble(b.data(), side);
  cudaEventRecord(join, side);
  cudaStreamWaitEvent(stream_, join, 0);
  LaunchAdd(a.data(), b.data(), stream_);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 6u);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ResetCounts();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(Counted().synchronizations, 0u);
  EXPECT_EQ(Counted().launches, 0u);
  EXPECT_EQ(a.Read(stream_)[7], (1 * 2 + 4) * 2 + 16);
  EXPECT_EQ(Counted().kernels, 8u);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
  cudaStreamDestroy(side);
}

TEST_F(SimtTest, WhatACaptureCannotHoldBreaksIt) {
  DeviceBuffer x(Counting(), stream_);
  std::vector<float> host(64);
  cudaGraph_t graph = nullptr;
  const auto begin = [&] { ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess); };
  begin();
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_EQ(cudaMemcpyAsync(x.data(), host.data(), 256, cudaMemcpyHostToDevice, stream_),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  cudaStream_t side = nullptr;
  cudaEvent_t fork = nullptr;
  cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
  begin();
  cudaEventRecord(fork, stream_);
  cudaStreamWaitEvent(side, fork, 0);
  LaunchDouble(x.data(), side);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(x.Read(stream_)[5], 5) << "what was captured is not done";
  cudaEventDestroy(fork);
  cudaStreamDestroy(side);
}

}  // namespace
}  // namespace kinora::simt
