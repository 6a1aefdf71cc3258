// The proto's `Output` as options of a file sink. Shared by the worker and kinora-render.
#ifndef KINORA_SERVER_WORKER_OUTPUT_OPTIONS_H_
#define KINORA_SERVER_WORKER_OUTPUT_OPTIONS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "engine/media/file_sink.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// `effective`: what embed_parameters and embed_prompt write, and whether MP4 or WAV is the default.
// `by_path`: the container that a file's name asks for, if there is one; InvalidArgument "container: …" if `output`
// asks for another, and "FIELD: …" for what a clip without a picture has not.
absl::StatusOr<FileSinkOptions> ToFileSinkOptions(const v1::Output& output, const v1::Generation& effective,
                                                  std::optional<Container> by_path = std::nullopt);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_OUTPUT_OPTIONS_H_
