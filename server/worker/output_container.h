// The proto's Container and the engine's, and whether a request and a file's name agree. Shared by worker and tools.
#ifndef KINORA_SERVER_WORKER_OUTPUT_CONTAINER_H_
#define KINORA_SERVER_WORKER_OUTPUT_CONTAINER_H_

#include <optional>

#include "absl/status/status.h"
#include "engine/media/container.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

std::optional<Container> ToContainer(v1::Output::Container container);  // nothing: unspecified
v1::Output::Container ToProto(Container container);                     // a folder of PNG frames: PNG_FRAMES

// InvalidArgument "container: …": `output` asks for another one than `by_path`, what a file's name asks for.
absl::Status CheckContainer(const v1::Output& output, Container by_path);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_OUTPUT_CONTAINER_H_
