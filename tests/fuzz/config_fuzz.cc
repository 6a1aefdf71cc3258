// The first byte selects Lightricks metadata (l), a diffusers folder (d), a Gemma config.json (g) or a
// tokenizer_config.json (t). A configuration that passes validation must load dry, without a crash and without
// allocating the model's memory.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/check.h"
#include "engine/config/config_reader.h"
#include "engine/model/audio_decoder.h"
#include "engine/model/diffusion_video_decoder.h"
#include "engine/model/text_encoder.h"
#include "engine/model/transformer.h"
#include "engine/model/video_decoder.h"
#include "engine/model/vocoder.h"
#include "engine/ops/dry_backend.h"
#include "engine/pipeline/diffusion_decoder.h"
#include "engine/weights/json_text.h"

namespace kinora {
namespace {

absl::StatusOr<ModelConfig> ParseComponents(std::string_view text) {
  const auto json = ParseJsonText(text, "components");
  if (!json.ok() || !json->is_object()) return absl::InvalidArgumentError("not an object");
  std::map<std::string, std::string, std::less<>> components;
  for (const auto& [component, config] : json->items()) components[component] = config.dump();
  return ParseDiffusersConfigs(components);
}

// Plans and decodes a small and a large clip without memory.
void DecodeDry(DryBackend& backend, const Mesh& mesh, const WeightLoader& weights, const VideoDecoderConfig& config) {
  auto loaded = DiffusionVideoDecoder::Load(weights, config, {});
  if (!loaded.ok() || config.diffusion->steps > 8) return;
  const DiffusionDecoder decoder(std::make_shared<DiffusionVideoDecoder>(*std::move(loaded)));
  Arena arena = Arena::Dry();
  Exec exec{.backend = backend, .arena = arena, .host = arena, .mesh = mesh, .dtype = DType::kBF16};
  for (const Shape& latent : {Shape{1, 1, 1, config.latent_channels}, {16, 74, 128, config.latent_channels}}) {
    const auto plan = decoder.Plan(latent, std::nullopt);
    KINORA_CHECK(plan.ok()) << plan.status();
    const PlannedTile tile{.time = &plan->time.back(), .height = &plan->height[0], .width = &plan->width[0]};
    const Tensor z(DType::kF32, latent, nullptr);
    const Tensor features = decoder.Features(exec, *plan, z, &absl::OkStatus).value();
    const Tensor out(DType::kF32, tile.OutputShape(decoder.colours()), nullptr);
    KINORA_CHECK(decoder.Decode(exec, *plan, features, tile, {}, &absl::OkStatus, out).ok());
  }
}

void LoadDry(const ModelConfig& config) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  const WeightLoader root = WeightLoader::Dry(*mesh, backend, DType::kBF16);
  const int64_t layers = config.transformer.layers + config.connector.video.layers + config.connector.audio.layers;
  if (layers <= 8) {  // more layers only take time
    (void)Transformer::Load(root.Under("transformer"), config.transformer);
    if (config.gemma && config.gemma->layers <= 8) {
      (void)TextEncoder::Load(root, *config.gemma, config.connector, nullptr, {.cache_bytes = 0});
    }
  }
  if (const auto& diffusion = config.video_decoder.diffusion) {
    int64_t blocks = diffusion->denoiser.blocks;
    for (const auto& stage : diffusion->stages) blocks += stage.blocks;
    if (blocks <= 64) DecodeDry(backend, *mesh, root.Under("vae"), config.video_decoder);
  } else {
    (void)VideoDecoder::Load(root.Under("vae"), config.video_decoder);
  }
  (void)AudioDecoder::Load(root.Under("audio_vae"), config.audio_decoder);
  (void)Vocoder::Load(root.Under("vocoder"), config.vocoder, config.audio_decoder);
}

}  // namespace
}  // namespace kinora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 't') {
    const auto rows = ParsePromptRows(text);
    KINORA_CHECK(!rows.ok() || (*rows >= 1 && *rows <= kMaxPromptRows)) << *rows;
    return 0;
  }
  if (data[0] == 'g') {
    const auto gemma = ParseGemmaConfig(text);
    ModelConfig model;
    model.connector.gated_attention = true;
    if (!gemma.ok()) return 0;
    model.gemma = *gemma;
    model.connector.text_width = gemma->width;
    model.connector.text_states = gemma->layers + 1;
    LoadDry(model);
    return 0;
  }
  const auto model = data[0] == 'd' ? ParseComponents(text) : ParseLightricksConfig(text, "2.3.0");
  if (model.ok() && ValidateModelConfig(*model).ok()) LoadDry(*model);
  return 0;
}
