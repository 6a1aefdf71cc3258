#include "server/worker/output_options.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/request_conversion.h"

namespace kinora {
namespace {

std::optional<Container> AskedFor(const v1::Output& output) {
  switch (output.container()) {
    case v1::Output::MP4:
      return Container::kMp4;
    case v1::Output::WEBM:
      return Container::kWebm;
    case v1::Output::PNG_FRAMES:
      return Container::kPngFrames;
    case v1::Output::WAV:
      return Container::kWav;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<FileSinkOptions> ToFileSinkOptions(const v1::Output& output, const v1::Generation& effective,
                                                  std::optional<Container> by_path) {
  KINORA_RETURN_IF_ERROR(CheckOutput(output));
  const std::optional<Container> asked = AskedFor(output);
  const bool folder_of_frames = by_path == Container::kPngFolder && asked == Container::kPngFrames;
  if (asked.has_value() && by_path.has_value() && asked != by_path && !folder_of_frames) {
    return absl::InvalidArgumentError(
        absl::StrCat("container: ", v1::Output::Container_Name(output.container()), " does not fit the output's name"));
  }
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
