#include "server/worker/model_options.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/model/decoder_border.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/text/tokenizer.h"
#include "engine/weights/lora.h"
#include "server/request/model_conversion.h"
#include "server/worker/lora_folder.h"

namespace kinora {

absl::StatusOr<ModelOptions> ReadModelOptions(const v1::WorkerConfig& config) {
  ModelOptions read;
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(config.device(), {}));
  read.pipeline.device = traits.device;
  const std::vector<std::string> files(config.model().begin(), config.model().end());
  KINORA_ASSIGN_OR_RETURN(read.pipeline.files, ModelFiles::Parse(files));
  KINORA_ASSIGN_OR_RETURN(read.pipeline.precision, Precision::Parse(config.precision()));
  if (config.has_cuda_off()) {
    KINORA_ASSIGN_OR_RETURN(read.pipeline.cuda.off, ParseCudaOff("cuda_off", config.cuda_off()));
  }
  if (config.has_cuda_synchronize()) read.pipeline.cuda.synchronize = config.cuda_synchronize();
  const absl::StatusOr<MeshShape> shape = MeshShape::Parse(config.ranks());
  if (!shape.ok()) return absl::InvalidArgumentError(absl::StrCat("ranks: ", std::string(shape.status().message())));
  read.shape = *shape;
  const int threads = config.threads() > 0 ? config.threads() : static_cast<int>(std::thread::hardware_concurrency());
  read.pipeline.lora_cache = std::make_shared<FactorCache>(config.lora_cache_bytes());
  read.pipeline.threads = std::max(1, threads / shape->ranks());
  read.pipeline.untiled_decode = config.untiled_decode();
  KINORA_ASSIGN_OR_RETURN(read.pipeline.decoder_border, ParseDecoderBorder("decoder_border", config.decoder_border()));
  return read;
}

absl::Status CheckRanks(const v1::WorkerConfig& config, const MeshShape& shape, const std::string& device,
                        int world_size) {
  if (shape.ranks() > 1 && world_size == 1 && device != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks: ", shape.ToString(), " on ", device,
                     ": each process has one device; set the group's `processes: ", shape.ranks(), "`"));
  }
  if (world_size == 1 || shape.ranks() == world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ranks: \"", config.ranks(), "\" is ", shape.ranks(),
                                                 " ranks, but the group has ", world_size, " processes; use ",
                                                 absl::StrJoin(MeshShape::Of(world_size), " or ")));
}

absl::Status CheckModelConfig(const v1::WorkerConfig& config) {
  KINORA_ASSIGN_OR_RETURN(ModelOptions read, ReadModelOptions(config));
  KINORA_RETURN_IF_ERROR(DeviceName(config.device(), {}).status());
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(config.device(), {}));
  KINORA_RETURN_IF_ERROR(read.pipeline.precision.CheckOn(traits));
  KINORA_RETURN_IF_ERROR(CheckRanks(config, read.shape, traits.device, config.world_size()));
  if (!config.lora_folder().empty()) KINORA_RETURN_IF_ERROR(LoraFolder::Check(config.lora_folder()));
  KINORA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(read.pipeline.files));
  if (!Tokenizer::IsIn(*checkpoint)) {
    return absl::InvalidArgumentError(
        "model: has no text encoder with a tokenizer; give its folder as text_encoder=DIR");
  }
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeDryMesh(read.shape));
  GenerationRequest usual;
  usual.prompt = "a";
  usual.recipe = Recipe::kOneStage;  // supported by every kind of model
  const MemoryLimit any{.bytes = std::numeric_limits<int64_t>::max(), .by = "nothing"};
  return Pipeline::PlanWithin(any, *mesh, usual, read.pipeline).status();
}

absl::StatusOr<v1::ModelInfo> DescribeModelFiles(const v1::WorkerConfig& config) {
  if (config.model().empty()) return absl::InvalidArgumentError("model: must name at least one path");
  const std::vector<std::string> files(config.model().begin(), config.model().end());
  PipelineOptions options;
  KINORA_ASSIGN_OR_RETURN(options.files, ModelFiles::Parse(files));
  KINORA_ASSIGN_OR_RETURN(const ModelDescription description, Pipeline::DescribeFiles(options));
  return ToModelInfo(description, ModelId(config));
}

std::string ModelId(const v1::WorkerConfig& config) {
  if (!config.model_id().empty()) return config.model_id();
  for (const std::string& argument : config.model()) {
    if (argument.find('=') != std::string::npos) continue;
    std::filesystem::path path(argument);
    if (path.filename().empty()) path = path.parent_path();
    return path.extension() == ".safetensors" ? path.stem() : path.filename();
  }
  return "model";
}

}  // namespace kinora
