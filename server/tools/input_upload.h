// Files of this machine, on their way to the server.
#ifndef KINORA_SERVER_TOOLS_INPUT_UPLOAD_H_
#define KINORA_SERVER_TOOLS_INPUT_UPLOAD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/connection.h"
#include "server/tools/halt.h"
#include "server/tools/media_flags.h"
#include "server/tools/progress_display.h"

namespace kinora {

// On whose patience: how long a server may stay away, and what a Ctrl-C ends.
struct UploadPatience {
  absl::Duration reconnect;
  Halt& halt;
};

// Uploads a file, from where an earlier upload of the same content broke off, or not at all where it is stored. A call
// that breaks, or finds another one at the same content, is made again after pauses, for as long as `patience` says.
// `local` gets an error of this side: a file that cannot be read. The returned status is the server's.
grpc::Status UploadFile(const Connection& connection, const std::string& path, const UploadPatience& patience,
                        ProgressDisplay& display, v1::Input* input, absl::Status* local);

// Uploads each file once and writes its id into all requests.
grpc::Status UploadMedia(const Connection& connection, const std::vector<LocalMedia>& media,
                         const UploadPatience& patience, ProgressDisplay& display,
                         std::vector<v1::CreateVideoRequest>& requests, absl::Status* local);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_INPUT_UPLOAD_H_
