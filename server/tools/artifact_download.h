// One artifact, from the server into a file.
#ifndef KINORA_SERVER_TOOLS_ARTIFACT_DOWNLOAD_H_
#define KINORA_SERVER_TOOLS_ARTIFACT_DOWNLOAD_H_

#include <string>

#include "absl/status/status.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/connection.h"

namespace kinora {

// Writes PATH.XXXX.part, checks size and sha256, then renames: PATH is whole or not there. A broken stream goes on at
// the byte it reached, three times. `local` gets an error of this side: the file cannot be written (Internal), or the
// bytes are not the artifact's (DataLoss); the returned status is the server's.
grpc::Status DownloadArtifact(const Connection& connection, const std::string& video_id, const v1::Artifact& artifact,
                              const std::string& path, absl::Status* local);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_ARTIFACT_DOWNLOAD_H_
