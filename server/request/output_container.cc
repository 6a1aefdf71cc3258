#include "server/request/output_container.h"

#include "absl/strings/str_cat.h"

namespace kinora {

std::optional<Container> ToContainer(v1::Output::Container container) {
  switch (container) {
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

v1::Output::Container ToProto(Container container) {
  switch (container) {
    case Container::kMp4:
      return v1::Output::MP4;
    case Container::kWebm:
      return v1::Output::WEBM;
    case Container::kPngFrames:
    case Container::kPngFolder:
      return v1::Output::PNG_FRAMES;
    case Container::kWav:
      return v1::Output::WAV;
  }
  return v1::Output::CONTAINER_UNSPECIFIED;
}

absl::Status CheckContainer(const v1::Output& output, Container by_path) {
  if (!ToContainer(output.container()).has_value() || output.container() == ToProto(by_path)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("container: ", v1::Output::Container_Name(output.container()), " does not fit the output's name"));
}

}  // namespace kinora
