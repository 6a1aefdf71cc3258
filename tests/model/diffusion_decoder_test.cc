// The diffusion decoder on every backend against Lightricks' code, on whole clips. tests/pipeline has its tiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine/config/released_models.h"
#include "engine/diffusion/noise.h"
#include "engine/model/diffusion_video_decoder.h"
#include "engine/ops/dry_backend.h"
#include "nlohmann/json.hpp"
#include "tests/testing/diffusion_decoders.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using Json = nlohmann::json;

// Compares the taps of a case, of which it holds every n-th frame, row and column.
class StridedTaps {
 public:
  StridedTaps(Golden& golden, double tolerance)
      : golden_(golden),
        strides_(Json::parse(golden.metadata("parameters")).value("tap_strides", Json::object())),
        tolerance_(tolerance),
        taps_([this](std::string_view name, const Tensor& value) { Compare(name, value); }) {}
  Taps& taps() { return taps_; }
  int compared() const { return compared_; }

 private:
  void Compare(std::string_view name, const Tensor& value) {
    const std::string key = "tap." + std::string(name);
    if (!golden_.Has(key)) return;
    ++compared_;
    EXPECT_TRUE(Near(Sampled(value, strides_.value(name, 1)).tensor(), golden_.Get(key), tolerance_)) << name;
  }

  // Every n-th position of the first three dimensions, in float32.
  static HostTensor Sampled(const Tensor& value, int64_t n) {
    const Tensor x = value.shape().rank() == 4 ? value : value.Reshape({1, 1, value.rows(), value.width()});
    const auto count = [n](int64_t extent) { return (extent + n - 1) / n; };
    HostTensor sampled(DType::kF32, {count(x.dim(0)), count(x.dim(1)), count(x.dim(2)), x.dim(3)});
    float* to = sampled.f32();
    for (int64_t f = 0; f < x.dim(0); f += n) {
      for (int64_t h = 0; h < x.dim(1); h += n) {
        for (int64_t w = 0; w < x.dim(2); w += n) {
          const int64_t row = ((f * x.dim(1) + h) * x.dim(2) + w) * x.dim(3);
          for (int64_t c = 0; c < x.dim(3); ++c) {
            *to++ = x.dtype() == DType::kF32 ? x.data<float>()[row + c] : static_cast<float>(x.data<bf16>()[row + c]);
          }
        }
      }
    }
    return sampled;
  }

  Golden& golden_;
  const Json strides_;
  const double tolerance_;
  int compared_ = 0;
  Taps taps_;
};

class DiffusionDecoderGolden : public testing::TestWithParam<std::tuple<const char*, DType, TestedBackend>> {};

TEST_P(DiffusionDecoderGolden, FramesAndStagesEqualTheReference) {
  const auto& [name, dtype, on] = GetParam();
  Golden golden(name);
  StridedTaps taps(golden, Tolerance(on, dtype));
  DecoderRun run(golden, on, {.dtype = dtype, .taps = &taps.taps()});
  EXPECT_TRUE(Near(run.Sampled(run.Decode()).tensor(), run.Expected("out.frames").tensor(), Tolerance(on, dtype)));
  EXPECT_EQ(taps.compared() >= 7, golden.Has("tap.conv_in"));
}

std::string CaseName(const testing::TestParamInfo<DiffusionDecoderGolden::ParamType>& info) {
  const auto& [name, dtype, on] = info.param;
  return std::string(name) + "_" + std::string(DTypeName(dtype)) + "_" + on.name;
}

INSTANTIATE_TEST_SUITE_P(All, DiffusionDecoderGolden,
                         testing::Combine(testing::Values("diffusion_decoder", "diffusion_decoder_small",
                                                          "diffusion_decoder_repeat", "diffusion_decoder_gates"),
                                          testing::Values(DType::kF32, DType::kBF16), testing::ValuesIn(Backends())),
                         CaseName);

// On the simulated device, windows of 11 x 11 x 11 take minutes; tests/kernels and tests/ops have smaller grids of
// them.
std::vector<TestedBackend> BackendsForLargeWindows() {
  std::vector<TestedBackend> backends = Backends();
  std::erase_if(backends, [](const TestedBackend& on) { return std::string_view(on.name) == "cuda"; });
  return backends;
}
INSTANTIATE_TEST_SUITE_P(Released, DiffusionDecoderGolden,
                         testing::Combine(testing::Values("diffusion_decoder_released"),
                                          testing::Values(DType::kF32, DType::kBF16),
                                          testing::ValuesIn(BackendsForLargeWindows())),
                         CaseName);

// A block needs memory for a slab of time, and its results do not depend on the slab. The denoiser's planes have 30,720
// and 24,576 elements.
TEST(DiffusionDecoder, SlabsChangeNoBits) {
  for (const auto& [name, elements] : {std::pair("diffusion_decoder", 1),
                                       {"diffusion_decoder", 2 * 30720},
                                       {"diffusion_decoder", 7 * 30720},
                                       {"diffusion_decoder_repeat", 1},
                                       {"diffusion_decoder_repeat", 5 * 24576}}) {
    Golden golden(name);
    DecoderRun whole(golden, Cpu(), {}), slabs(golden, Cpu(), {.slab_elements = elements});
    const HostTensor a = whole.Decode(), b = slabs.Decode();
    EXPECT_EQ(RelativeError(a.tensor(), b.tensor()), 0) << name;
    EXPECT_LT(slabs.rig().arena.peak(), whole.rig().arena.peak()) << name;
  }
}

// The released decoder without weights, and the backend that counts its cost.
struct DryDecoder {
  DryDecoder()
      : loader(WeightLoader::Dry(*mesh, backend, DType::kBF16)),
        decoder(*DiffusionVideoDecoder::Load(
            loader.Under("vae"), ReleasedModelConfig("ltx-2.5-22b-diffusion-decoder")->video_decoder, {})) {}

  double TeraFlops(const Shape& latent) {
    Arena arena = Arena::Dry();
    Exec exec{.backend = backend, .arena = arena, .host = arena, .mesh = *mesh, .dtype = DType::kBF16};
    backend.ops().ResetCost();
    const Tensor features = *decoder.Features(exec, Tensor(DType::kF32, latent, nullptr), &absl::OkStatus);
    const DiffusionVideoDecoder::Tile tile{.end = decoder.CellsOf(latent), .last = true};
    const Tensor out(DType::kF32, decoder.OutputShape(tile), nullptr);
    EXPECT_TRUE(decoder.Decode(exec, features, tile, {}, &absl::OkStatus, out).ok());
    return backend.ops().cost().flops() * 1e-12;
  }

  std::unique_ptr<Mesh> mesh = Mesh::Single();
  DryBackend backend;
  WeightLoader loader;
  DiffusionVideoDecoder decoder;
};

TEST(DiffusionDecoder, TheReleasedOneHasItsKnownTensorsAndParameters) {
  DryDecoder released;
  // 310 decoder tensors without type_emb, which is not read, and two statistics.
  EXPECT_EQ(released.loader.recorded().size(), 309u + 2);
  EXPECT_NEAR(static_cast<double>(released.loader.recorded_elements()) * 1e-6, 417.13, 0.01);
}

// The cost of every stage of ltx_core, and what it costs to compute the context for each block: seven more times the
// last upsampling, without the ghost frames.
TEST(DiffusionDecoder, TheReleasedOneCostsItsKnownFlops) {
  DryDecoder released;
  const auto again = [](double cells) { return 2 * cells * 512 * 2048 * 1e-12; };
  const double small = 3.9 + 5.7 + 2.1 + 8.1 + 85.6 + 7 * again(61 * 64 * 96);
  EXPECT_NEAR(released.TeraFlops({16, 16, 24, 128}), small, 0.01 * small);
  const double large = 9.7 + 14.3 + 5.2 + 20.3 + 214 + 7 * again(61 * 96 * 160);
  EXPECT_NEAR(released.TeraFlops({16, 24, 40, 128}), large, 0.01 * large);
}

}  // namespace
}  // namespace kinora
