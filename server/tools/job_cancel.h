// CancelVideo, for all that end jobs.
#ifndef KINORA_SERVER_TOOLS_JOB_CANCEL_H_
#define KINORA_SERVER_TOOLS_JOB_CANCEL_H_

#include <string>

#include "kinora/v1/video_generation.pb.h"
#include "server/tools/connection.h"
#include "server/tools/halt.h"
#include "server/tools/progress_display.h"

namespace kinora {

// `video`: the job as it is then, CANCELLED or still running.
grpc::Status CancelJob(const Connection& connection, const std::string& id, v1::Video* video, Halt& halt);

// The same for who follows the job anyway: what went wrong is noted, unless it is the halt. Whether the server took it.
bool CancelJobOrNote(const Connection& connection, const std::string& id, ProgressDisplay& display, Halt& halt);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_JOB_CANCEL_H_
