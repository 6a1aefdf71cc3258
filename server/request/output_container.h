// Converts between the proto's Container and the engine's, and checks that a request and the name of its output file
// agree. Shared by worker and tools.
#ifndef KINORA_SERVER_REQUEST_OUTPUT_CONTAINER_H_
#define KINORA_SERVER_REQUEST_OUTPUT_CONTAINER_H_

#include <optional>

#include "absl/status/status.h"
#include "engine/media/container.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

std::optional<Container> ToContainer(v1::Output::Container container);  // nullopt: unspecified
v1::Output::Container ToProto(Container container);                     // PNG_FRAMES also for a folder of frames

// InvalidArgument "container: …" if `output` requests a container other than `by_path`, which the file's name
// selects.
absl::Status CheckContainer(const v1::Output& output, Container by_path);

}  // namespace kinora

#endif  // KINORA_SERVER_REQUEST_OUTPUT_CONTAINER_H_
