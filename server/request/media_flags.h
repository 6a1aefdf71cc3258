// Flags that name local files: images, clips, a sound. `kinora generate` and `create` upload the files (input_upload.h)
// and refer to them by their ids; kinora-render refers to them by their paths.
#ifndef KINORA_SERVER_REQUEST_MEDIA_FLAGS_H_
#define KINORA_SERVER_REQUEST_MEDIA_FLAGS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

absl::Span<const FlagSpec> MediaFlags();

struct LocalMedia {
  std::string path;
  std::function<v1::MediaRef*(v1::Generation& generation)> ref;  // returns the field for its id
};

// Adds the flags' conditions, sound and retake to `generation`, with empty ids, and returns their files. A file of
// --image that begins like a clip is added as one. InvalidArgument names the flag, NotFound the file.
absl::StatusOr<std::vector<LocalMedia>> AddMedia(const CommandLine& line, v1::Generation& generation);

}  // namespace kinora

#endif  // KINORA_SERVER_REQUEST_MEDIA_FLAGS_H_
