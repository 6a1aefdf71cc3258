// Kinds of file that a clip is written to, and the one rule by which a path names its kind. No FFmpeg, so that a client
// can tell before it sends a request.
#ifndef KINORA_ENGINE_MEDIA_CONTAINER_H_
#define KINORA_ENGINE_MEDIA_CONTAINER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kinora {

enum class Container {
  kMp4,        // H.264 yuv420p BT.709 and AAC, moov first
  kWebm,       // VP9 and Opus
  kPngFrames,  // one stored ZIP of 000000.png, 000001.png, …; no sound
  kPngFolder,  // the same files in an existing folder (frame_folder.h); each appears whole. The first takes the
               // place of an older clip's; those of a clip that fails later stay
  kWav,        // 16-bit PCM; no picture
};

// By the ending of `path` (.mp4, .webm, .wav, .zip), or kPngFolder for an existing folder and for a path that ends in
// '/'. InvalidArgument otherwise.
absl::StatusOr<Container> ContainerForPath(const std::string& path);
std::string_view ContainerExtension(Container container);  // "mp4"
std::string_view ContainerMediaType(Container container);  // "video/mp4"

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_CONTAINER_H_
