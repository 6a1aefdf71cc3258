#include "tests/testing/diffusion_decoders.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/check.h"
#include "engine/config/config_reader.h"
#include "engine/diffusion/noise.h"
#include "nlohmann/json.hpp"

namespace kinora {
namespace {

using Json = nlohmann::json;

Json ParametersOf(const Golden& golden) { return Json::parse(golden.metadata("parameters")); }

int64_t FromText(const Json& value) {
  return value.is_string() ? std::stoll(value.get<std::string>()) : value.get<int64_t>();
}

}  // namespace

DecoderRun::DecoderRun(Golden& golden, const TestedBackend& on, const Options& options)
    : golden_(golden), rig_(on, options.dtype, options.taps, options.mesh, /*arena_bytes=*/512 << 20) {
  auto config = ParseLightricksConfig(golden.metadata("config"), golden.metadata("model_version"));
  KINORA_CHECK(config.ok()) << config.status();
  if (options.change != nullptr) options.change(*config->video_decoder.diffusion);
  if (golden.HasMetadata("drawn")) drawn_ = std::make_unique<DrawnCheckpoint>(golden);
  WeightLoader weights = rig_.Open({.paths = {drawn_ != nullptr ? drawn_->path() : golden.WriteCheckpoint()}});
  const bool repeat = ParametersOf(golden).value("width_borders", "shift") == "repeat";
  auto decoder = DiffusionVideoDecoder::Load(
      weights.Under("vae"), config->video_decoder,
      {.border = repeat ? DecoderBorder::kRepeat : DecoderBorder::kShift, .slab_elements = options.slab_elements});
  KINORA_CHECK(decoder.ok()) << decoder.status();
  KINORA_CHECK(weights.Finish().ok()) << weights.Finish();
  decoder_ = std::make_shared<const DiffusionVideoDecoder>(*std::move(decoder));
}

uint64_t DecoderRun::seed() const { return static_cast<uint64_t>(FromText(ParametersOf(golden_)["seed"])); }

std::vector<std::vector<float>> DecoderRun::Noise() {
  const Json parameters = ParametersOf(golden_);
  NoiseSource source(seed());
  std::vector<std::vector<float>> draws;
  for (const Json& shape : parameters["noise"]) {
    int64_t elements = 1;
    for (const Json& extent : shape) elements *= FromText(extent);
    draws.emplace_back(elements);
    source.Fill(absl::MakeSpan(draws.back()));
    const Tensor& begin = golden_.Get("in.noise_begin");
    const float* const known = begin.data<float>() + (draws.size() - 1) * begin.width();
    for (int64_t i = 0; i < begin.width(); ++i) EXPECT_NEAR(draws.back()[i], known[i], 1e-5) << "noise";
    const float* const end = golden_.Get("in.noise_end").data<float>() + (draws.size() - 1) * begin.width();
    for (int64_t i = 0; i < begin.width(); ++i) {
      EXPECT_NEAR(draws.back()[elements - begin.width() + i], end[i], 1e-5) << "noise";
    }
  }
  return draws;
}

HostTensor DecoderRun::Decode() {
  const HostTensor latent = ToChannelsLast(golden_.Get("in.latent"));
  const Shape shape = latent.tensor().shape();
  const DiffusionVideoDecoder::Tile tile{.begin = {0, 0, 0}, .end = decoder_->CellsOf(shape), .last = true};
  const Shape out_shape = decoder_->OutputShape(tile);
  const std::vector<std::vector<float>> noise = Noise();
  const Tensor out = rig_.Output(DType::kF32, out_shape);
  ArenaScope scope(rig_.arena);
  const Tensor features = *decoder_->Features(rig_.exec, rig_.Upload(latent.tensor()), &absl::OkStatus);
  KINORA_CHECK(decoder_->Decode(rig_.exec, features, tile, {.values = noise.front()}, &absl::OkStatus, out).ok());
  const HostTensor whole = rig_.Download(out);
  const int64_t time = decoder_->config().time_factor(), space = decoder_->config().space_factor();
  const auto padding = decoder_->PaddingOf(shape);
  const Shape clip = {time * (shape[0] - 1) + 1, space * shape[1], space * shape[2], out_shape[3]};
  HostTensor frames(DType::kF32, clip);
  float* to = frames.f32();
  for (int64_t f = 0; f < clip[0]; ++f) {
    for (int64_t h = 0; h < clip[1]; ++h) {
      const int64_t row = (f * out_shape[1] + padding[1] * space + h) * out_shape[2] + padding[2] * space;
      to = std::copy_n(whole.tensor().data<float>() + row * clip[3], clip[2] * clip[3], to);
    }
  }
  return frames;
}

HostTensor DecoderRun::Sampled(const HostTensor& frames) const {
  const int64_t n = FromText(ParametersOf(golden_)["sample_stride"]);
  const Shape& shape = frames.tensor().shape();
  HostTensor sampled(DType::kF32, {shape[0], (shape[1] + n - 1) / n, (shape[2] + n - 1) / n, shape[3]});
  float* to = sampled.f32();
  for (int64_t f = 0; f < shape[0]; ++f) {
    for (int64_t h = 0; h < shape[1]; h += n) {
      for (int64_t w = 0; w < shape[2]; w += n) {
        const int64_t row = (f * shape[1] + h) * shape[2] + w;
        to = std::copy_n(frames.tensor().data<float>() + row * shape[3], shape[3], to);
      }
    }
  }
  return sampled;
}

}  // namespace kinora
