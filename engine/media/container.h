// File formats of clips, and the rule that determines the format of a path. Does not need FFmpeg, so that a client can
// check a path before it sends a request.
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
  kPngFolder,  // the same files in a folder (frame_folder.h), each written atomically. The first frame replaces those
               // of an older clip; frames of a clip that fails later remain
  kWav,        // 16-bit PCM; no picture
};

// Returns kPngFolder for an existing folder and for a path that ends in '/', otherwise the format of the extension
// (.mp4, .webm, .wav, .zip). Fails with InvalidArgument for any other path.
absl::StatusOr<Container> ContainerForPath(const std::string& path);
std::string_view ContainerExtension(Container container);  // "mp4"
std::string_view ContainerMediaType(Container container);  // "video/mp4"

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_CONTAINER_H_
