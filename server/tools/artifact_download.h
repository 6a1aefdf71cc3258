// One artifact, from the server to whoever writes it.
#ifndef KINORA_SERVER_TOOLS_ARTIFACT_DOWNLOAD_H_
#define KINORA_SERVER_TOOLS_ARTIFACT_DOWNLOAD_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/connection.h"
#include "server/tools/halt.h"

namespace kinora {

struct DownloadPatience {
  absl::Duration reconnect;  // how long no byte may come, with pauses that grow from a quarter of a second to four
  Halt& halt;                // not owned
};

// Hands the bytes to `write` in their order, then checks size and sha256. A stream that breaks, is silent for half of
// the patience (5 s to 30 s) or has no place at the server is opened again at the byte it reached. `local` gets an
// error of this side: that of `write`, or DataLoss if the bytes are not the artifact's; the returned status is the
// server's, CANCELLED after a halt.
grpc::Status DownloadArtifact(const Connection& connection, const std::string& video_id, const v1::Artifact& artifact,
                              DownloadPatience patience, absl::FunctionRef<absl::Status(std::string_view)> write,
                              absl::Status* local);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_ARTIFACT_DOWNLOAD_H_
