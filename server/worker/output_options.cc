#include "server/worker/output_options.h"

#include "engine/base/status_macros.h"
#include "server/common/request_conversion.h"
#include "server/worker/output_container.h"

namespace kinora {

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
  if (output.has_crf()) options.crf = output.crf();
  if (output.embed_parameters()) options.parameters = ParametersJson(effective);
  if (output.embed_prompt()) options.prompt = effective.prompt();
  return options;
}

}  // namespace kinora
