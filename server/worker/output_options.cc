#include "server/worker/output_options.h"

#include "engine/base/status_macros.h"
#include "server/common/request_conversion.h"
#include "server/worker/output_container.h"

namespace kinora {

namespace {

// Before the sound is computed, which no such file could hold.
absl::Status CheckSoundAlone(const FileSinkOptions& options, int32_t preview_every_steps) {
  if (options.container == Container::kPngFrames || options.container == Container::kPngFolder) {
    return absl::InvalidArgumentError("container: audio_only makes no picture; nearest: WAV");
  }
  if (preview_every_steps > 0) {
    return absl::InvalidArgumentError("preview_every_steps: audio_only makes no picture; leave it out");
  }
  if (!options.without_audio) return absl::OkStatus();
  return absl::InvalidArgumentError("without_audio: audio_only makes nothing else; leave one of them out");
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
  if (effective.audio_only()) KINORA_RETURN_IF_ERROR(CheckSoundAlone(options, output.preview_every_steps()));
  if (output.has_crf()) options.crf = output.crf();
  if (output.embed_parameters()) options.parameters = ParametersJson(effective);
  if (output.embed_prompt()) options.prompt = effective.prompt();
  return options;
}

}  // namespace kinora
