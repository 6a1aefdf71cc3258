// Uploads local files to the server.
#ifndef KINORA_SERVER_CLIENT_INPUT_UPLOAD_H_
#define KINORA_SERVER_CLIENT_INPUT_UPLOAD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/connection.h"
#include "server/client/halt.h"
#include "server/request/media_flags.h"
#include "server/terminal/progress_display.h"

namespace kinora {

// How long the server may be unreachable, and the halt that Ctrl-C raises.
struct UploadPatience {
  absl::Duration reconnect;
  Halt& halt;
};

// Uploads a file. Resumes an earlier upload of the same content, and sends no data if the content is already stored.
// Retries a call that breaks, or that finds another upload of the same content, for up to `patience.reconnect`. Returns
// the server's status. `local` gets local errors: an unreadable file.
grpc::Status UploadFile(const Connection& connection, const std::string& path, const UploadPatience& patience,
                        ProgressDisplay& display, v1::Input* input, absl::Status* local);

// Uploads each file once and writes its id into all requests.
grpc::Status UploadMedia(const Connection& connection, const std::vector<LocalMedia>& media,
                         const UploadPatience& patience, ProgressDisplay& display,
                         std::vector<v1::CreateVideoRequest>& requests, absl::Status* local);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_INPUT_UPLOAD_H_
