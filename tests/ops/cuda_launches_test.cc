// The number of kernels that the CUDA backend's fused ops launch.
#include <gtest/gtest.h>

#include "engine/ops/cuda/cuda_stream.h"
#include "tests/simt/control.h"
#include "tests/testing/backends.h"

namespace kinora {
namespace {

TEST(CudaLaunches, AGuidedStepIsTwoWithCleanLatentsToo) {
  Device device(Cuda());
  const Tensor sigmas = device.Upload({0.9f, 0.4f}, {2}), z = device.Upload(std::vector<float>(64, 1), {8, 8});
  const Prediction prediction{.v = device.Upload(std::vector<float>(128, 2), {16, 8}),
                              .sigma = sigmas.Rows(0, 1),
                              .weights = device.Upload({-2, 3, 0.7f}, {3}),
                              .cond = 1,
                              .clean = device.Upload(std::vector<float>(64, 3), {8, 8}),
                              .mask = {.table = device.Upload(std::vector<float>(24, 0), {1, 3, 8})},
                              .x0 = device.Output(DType::kF32, {8, 8})};
  simt::ResetCounts();
  device.ops().GuidedEulerStep(prediction, sigmas, z);
  EXPECT_EQ(simt::Counted().launches, 2u);
}

// The last convolution of the video decoder is one cuDNN call, without im2col before it.
TEST(CudaLaunches, ABf16ConvolutionToFloatIsOne) {
  Device device(Cuda());
  HostTensor x(DType::kBF16, {1, 4, 5, 16}), matrix(DType::kBF16, {48, 9, 16}), bias(DType::kF32, {48});
  const Weight w = *device.ops().PrepareWeight(matrix.tensor(), &bias.tensor(), DType::kBF16);
  const ConvAxis side{.kernel = 3, .before = 1, .after = 1};
  const Tensor in = device.Upload(x.tensor()), out = device.Output(DType::kF32, {1, 4, 5, 48});
  simt::ResetCounts();
  device.ops().Conv(in, w, {.height = side, .width = side}, out);
  EXPECT_EQ(simt::Counted().launches, 1u);
}

// Number of kernels and library calls of a convolution in time, over pictures with 2^27 elements. It is only captured:
// neither operand has memory.
size_t CallsOfAConvolution(int64_t frames) {
  Device device(Cuda());
  const Weight w = *device.ops().PrepareWeight(HostTensor(DType::kBF16, {8, 3, 8}).tensor(), nullptr, DType::kBF16);
  void* const nowhere = reinterpret_cast<void*>(uintptr_t{1} << 40);
  const Tensor x(DType::kBF16, {frames, 4096, 4096, 8}, nowhere), out(DType::kBF16, x.shape(), nowhere);
  EXPECT_TRUE(device.ops().stream().Synchronize().ok());
  cudaStream_t const stream = static_cast<CudaStream&>(device.ops().stream()).handle();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  device.ops().Conv(x, w, {.time = {.kernel = 3, .before = 1, .after = 1}}, out);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  size_t count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  cudaGraphDestroy(graph);
  return count;
}

TEST(CudaLaunches, AConvolutionBeyond32BitsIsSeveralCalls) {
  EXPECT_EQ(CallsOfAConvolution(15), 1u);
  EXPECT_EQ(CallsOfAConvolution(16), 2u);  // 2^31 elements
  EXPECT_EQ(CallsOfAConvolution(40), 4u);  // 13 results of 15 frames
}

}  // namespace
}  // namespace kinora
