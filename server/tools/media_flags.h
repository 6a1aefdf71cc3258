// The flags that name files of this machine: pictures, a clip, a sound. A request of `kinora generate` or `create`
// speaks of them by their ids, once they are uploaded (input_upload.h), one of kinora-render by their paths.
#ifndef KINORA_SERVER_TOOLS_MEDIA_FLAGS_H_
#define KINORA_SERVER_TOOLS_MEDIA_FLAGS_H_

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
  std::function<v1::MediaRef*(v1::Generation& generation)> ref;  // where its id belongs
};

// Adds to `generation` what the flags say, with ids left empty, and lists their files. A file of --image that begins
// like a clip is one. InvalidArgument names the flag, NotFound the file.
absl::StatusOr<std::vector<LocalMedia>> AddMedia(const CommandLine& line, v1::Generation& generation);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_MEDIA_FLAGS_H_
