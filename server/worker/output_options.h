// Converts the proto's `Output` to options of a file sink, for the worker and kinora-render.
#ifndef KINORA_SERVER_WORKER_OUTPUT_OPTIONS_H_
#define KINORA_SERVER_WORKER_OUTPUT_OPTIONS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "engine/media/file_sink.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// `effective`: the request that embed_parameters and embed_prompt write, and that decides whether MP4 or WAV is the
// default. `by_path`: the container that the output file's name implies, if any. Fails with InvalidArgument
// "container: …" if `output` requests another container than by_path, and "FIELD: …" if a clip without a picture
// cannot have that field.
absl::StatusOr<FileSinkOptions> ToFileSinkOptions(const v1::Output& output, const v1::Generation& effective,
                                                  std::optional<Container> by_path = std::nullopt);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_OUTPUT_OPTIONS_H_
