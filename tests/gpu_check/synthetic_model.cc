#include "tests/gpu_check/synthetic_model.h"

#include <fstream>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/config/config_reader.h"
#include "engine/ops/dry_backend.h"

namespace kinora {
namespace {

constexpr int64_t kStep = 7919 * 32;  // elements between the starts of two tensors, so that operands differ

void Shrink(ModelConfig& config) {
  TransformerConfig& t = config.transformer;
  t.layers = 2;
  for (ModalityConfig* m : {&t.video, &t.audio}) m->heads = 2;
  t.video.head_dim = 16;
  t.audio.head_dim = 8;
  t.video.context_width = t.video.width();
  t.audio.context_width = t.audio.width();
  t.caption_channels = 24;
  for (VideoDecoderBlock& block : config.video_decoder.blocks) {
    block.in_channels /= 32;
    block.out_channels /= 32;
    block.layers = std::min<int64_t>(block.layers, 1);
  }
  for (VideoEncoderBlock& block : config.video_encoder.blocks) {
    block.in_channels = std::min<int64_t>(block.in_channels, 128);
    block.out_channels = std::min<int64_t>(block.out_channels, 128);
    block.layers = std::min<int64_t>(block.layers, 1);
  }
  config.audio_encoder.vae.channels = 32;
}

}  // namespace

absl::StatusOr<ModelConfig> SyntheticConfig(const Settings& settings, const std::string& family) {
  const std::string path = Cat(settings.configs, "/lightricks_", family, ".json");
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::NotFoundError(Cat("--configs: ", path, " is not there, or not JSON"));
  KINORA_ASSIGN_OR_RETURN(ModelConfig config,
                          ParseLightricksConfig(json["config"].dump(), json["model_version"].get<std::string>()));
  if (settings.small) Shrink(config);
  return config;
}

absl::StatusOr<SyntheticWeights> SyntheticWeights::Make(const Settings& settings) {
  // Large enough for the largest tensor (a feed-forward matrix) and for different start positions.
  const int64_t elements = settings.small ? int64_t{1} << 20 : int64_t{1} << 27;
  const std::string path = settings.work + "/weights.safetensors";
  SafetensorsWriter writer;
  writer.Declare("values", DType::kBF16, {elements});
  KINORA_RETURN_IF_ERROR(writer.Open(path));
  std::vector<bf16> chunk(1 << 20);
  uint32_t state = 20240229;
  for (int64_t done = 0; done < elements; done += static_cast<int64_t>(chunk.size())) {
    for (bf16& value : chunk) {  // the deviation for products over 4096 values
      state = state * 1664525u + 1013904223u;
      value = bf16(0.027f * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f + 1.0f / 16777216.0f));
    }
    KINORA_RETURN_IF_ERROR(writer.Append("values", chunk.data(), static_cast<int64_t>(chunk.size()) * 2));
  }
  KINORA_RETURN_IF_ERROR(writer.Close());
  SyntheticWeights weights;
  KINORA_ASSIGN_OR_RETURN(weights.file_, SafetensorsFile::Open(path));
  return weights;
}

absl::StatusOr<std::shared_ptr<const Checkpoint>> SyntheticWeights::CheckpointFor(
    const std::function<absl::Status(const WeightLoader&)>& load) const {
  DryBackend dry;
  const auto mesh = Mesh::Single();
  const WeightLoader loader = WeightLoader::Dry(*mesh, dry, DType::kBF16);
  KINORA_RETURN_IF_ERROR(load(loader));
  const int64_t all = file_->tensors().front().bytes;
  std::vector<TensorInfo> tensors;
  int64_t place = 0;
  for (const RecordedTensor& tensor : loader.recorded()) {
    const int64_t bytes = tensor.shape.elements() * DTypeSize(DType::kBF16);
    if (bytes > all) return absl::InvalidArgumentError(Cat(tensor.name, ": larger than the drawn values"));
    if (place + bytes > all) place %= std::max<int64_t>(1, all - bytes);
    tensors.push_back({tensor.name, DType::kBF16, tensor.shape, place / 64 * 64, bytes});
    place += kStep * DTypeSize(DType::kBF16);
  }
  return Checkpoint::Of(file_, std::move(tensors));
}

}  // namespace kinora
