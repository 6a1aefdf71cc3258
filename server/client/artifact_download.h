// Downloads one artifact from the server.
#ifndef KINORA_SERVER_CLIENT_ARTIFACT_DOWNLOAD_H_
#define KINORA_SERVER_CLIENT_ARTIFACT_DOWNLOAD_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/connection.h"
#include "server/client/halt.h"

namespace kinora {

struct DownloadPatience {
  absl::Duration reconnect;  // longest time without data; the pauses between attempts grow from 0.25 s to 4 s
  Halt& halt;                // not owned
};

// Passes the bytes to `write` in order, then checks size and SHA-256. If the stream breaks, sends nothing for half of
// `patience.reconnect` (5 s to 30 s), or is rejected because the server is full, it reopens the stream at the next
// byte. Returns the server's status, or CANCELLED after a halt. `local` gets local errors: those of `write`, or
// DataLoss if the bytes do not match the artifact.
grpc::Status DownloadArtifact(const Connection& connection, const std::string& video_id, const v1::Artifact& artifact,
                              DownloadPatience patience, absl::FunctionRef<absl::Status(std::string_view)> write,
                              absl::Status* local);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_ARTIFACT_DOWNLOAD_H_
