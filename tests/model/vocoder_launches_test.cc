// The number of kernels and copies per stage of the vocoder's generators, from a captured graph. On the simulated
// device a library call is one kernel.
#include <gtest/gtest.h>

#include "engine/model/vocoder_generator.h"
#include "engine/ops/cuda/cuda_stream.h"
#include "tests/model/audio_models.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

size_t NodesOf(CudaStream& stream, absl::FunctionRef<void()> body) {
  body();  // one-time choices happen here
  EXPECT_THAT(stream.Synchronize(), IsOk());
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  body();
  EXPECT_EQ(cudaStreamEndCapture(stream.handle(), &graph), cudaSuccess);
  size_t count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  cudaGraphDestroy(graph);
  return count;
}

// Three blocks of three dilations: 18 activations, each written directly in the layout its convolution reads, and 18
// products. The upsampling takes two, each block but the last starts with a copy, and the mean takes two sums and a
// product.
TEST(VocoderLaunches, AStageOfThreeBlocksIsAtMost43) {
  constexpr size_t kStage = 36 + 2 + 2 + 3;
  constexpr size_t kFirst = 2, kLast = 2, kLimit = 1;  // the convolutions around the stages, and the clamp
  GoldenRun run("vocoder_2_3", DType::kF32, Cuda());
  const GeneratorConfig config = GoldenVocoder("2_3").base;
  const Generator generator = OrDie(Generator::Load(run.loader.Under("vocoder").Under("vocoder"), config, "vocoder"));
  const Tensor x = run.rig.Upload(std::vector<float>(2 * config.in_channels, 0.25f), {2, config.in_channels});
  const Tensor out = run.rig.Output(DType::kF32, {2 * generator.factor(), config.out_channels});
  const size_t nodes =
      NodesOf(static_cast<CudaStream&>(run.rig.ops().stream()), [&] { generator.Forward(run.rig.exec, x, out); });
  EXPECT_LE(nodes, config.upsample_rates.size() * kStage + kFirst + kLast + kLimit);
  EXPECT_GE(nodes, config.upsample_rates.size() * 2 * 18) << "nothing was captured";
}

}  // namespace
}  // namespace kinora
