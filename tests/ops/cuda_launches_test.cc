// The number of kernels that the CUDA backend's fused ops launch.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kinora
