#include "server/client/job_cancel.h"

#include "absl/strings/str_cat.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/api_call.h"

namespace kinora {

grpc::Status CancelJob(const Connection& connection, const std::string& id, v1::Video* video, Halt& halt) {
  v1::CancelVideoRequest request;
  request.set_id(id);
  return Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::CancelVideo, request, video, halt);
}

bool CancelJobOrNote(const Connection& connection, const std::string& id, ProgressDisplay& display, Halt& halt) {
  v1::Video video;
  const grpc::Status status = CancelJob(connection, id, &video, halt);
  if (!status.ok() && !halt.raised()) {
    display.Note(absl::StrCat("job ", id, " could not be cancelled: ", status.error_message(),
                              "; it continues. Try again later: kinora cancel ", id));
  }
  return status.ok();
}

}  // namespace kinora
