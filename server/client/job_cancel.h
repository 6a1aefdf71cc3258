// CancelVideo, for all commands that end jobs.
#ifndef KINORA_SERVER_CLIENT_JOB_CANCEL_H_
#define KINORA_SERVER_CLIENT_JOB_CANCEL_H_

#include <string>

#include "kinora/v1/video_generation.pb.h"
#include "server/client/connection.h"
#include "server/client/halt.h"
#include "server/terminal/progress_display.h"

namespace kinora {

// `video`: the job after the call, CANCELLED or still running.
grpc::Status CancelJob(const Connection& connection, const std::string& id, v1::Video* video, Halt& halt);

// Like CancelJob, for callers that follow the job anyway: notes an error on `display`, unless it is the halt. Returns
// whether the server accepted the request.
bool CancelJobOrNote(const Connection& connection, const std::string& id, ProgressDisplay& display, Halt& halt);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_JOB_CANCEL_H_
