#include "server/request/clip_length.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kinora {

int32_t FramesOf(const v1::Video& video) {
  if (video.effective().num_frames() != 0) return video.effective().num_frames();
  const v1::Resolved& resolved = video.resolved();
  if (resolved.num_frames() != 0 || resolved.stages().empty()) return resolved.num_frames();
  return resolved.stages().rbegin()->num_frames();  // resolved by an earlier build
}

std::string LengthText(const v1::Generation& generation) {
  if (generation.num_frames() == 0 && generation.has_audio()) return "as long as the given sound";
  if (generation.num_frames() > 0 || !generation.has_auto_length()) {
    return absl::StrCat(generation.num_frames(), " frames");
  }
  const v1::AutoLength& length = generation.auto_length();
  return absl::StrFormat("%g to %g s as the model chooses", length.min_seconds(), length.max_seconds());
}

}  // namespace kinora
