#include "server/worker/output_options.h"

#include "engine/base/status_macros.h"
#include "server/request/output_container.h"
#include "server/request/request_conversion.h"

namespace kinora {

namespace {

// Rejects options that a clip without a picture cannot have, before its sound is computed.
absl::Status CheckSoundAlone(const FileSinkOptions& options, const v1::Output& output) {
  if (options.container == Container::kPngFrames || options.container == Container::kPngFolder) {
    return absl::InvalidArgumentError("container: audio_only generates no picture; nearest: WAV");
  }
  if (output.preview_every_steps() > 0) {
    return absl::InvalidArgumentError("preview_every_steps: audio_only generates no picture; omit it");
  }
  if (output.thumbnail()) {
    return absl::InvalidArgumentError("thumbnail: audio_only generates no picture; omit it");
  }
  if (!options.without_audio) return absl::OkStatus();
  return absl::InvalidArgumentError("without_audio: audio_only generates nothing else; omit one of them");
}

}  // namespace

absl::StatusOr<FileSinkOptions> ToFileSinkOptions(const v1::Output& output, const v1::Generation& effective,
                                                  std::optional<Container> by_path) {
  KINORA_RETURN_IF_ERROR(CheckOutput(output));
  if (by_path.has_value()) KINORA_RETURN_IF_ERROR(CheckContainer(output, *by_path));
  const std::optional<Container> asked = ToContainer(output.container());
  FileSinkOptions options;
  options.container = by_path.has_value()      ? *by_path
                      : asked.has_value()      ? *asked
                      : effective.audio_only() ? Container::kWav
                                               : Container::kMp4;
  options.without_audio = output.without_audio();
  if (effective.audio_only()) KINORA_RETURN_IF_ERROR(CheckSoundAlone(options, output));
  if (output.has_crf()) options.crf = output.crf();
  if (output.embed_parameters()) options.parameters = ParametersJson(effective);
  if (output.embed_prompt()) options.prompt = effective.prompt();
  return options;
}

}  // namespace kinora
