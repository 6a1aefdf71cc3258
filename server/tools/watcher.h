// Follows one job to its end over a connection that may break: after a break it watches again from the last stored
// event that it saw, so no state is missed and none is shown twice.
#ifndef KINORA_SERVER_TOOLS_WATCHER_H_
#define KINORA_SERVER_TOOLS_WATCHER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/connection.h"
#include "server/tools/halt.h"
#include "server/tools/preview_output.h"
#include "server/tools/progress_display.h"
#include "server/tools/serving_wait.h"

namespace kinora {

struct WatchOptions {
  absl::Duration reconnect = absl::Minutes(1);  // a server that stays away for longer ends the watch with UNAVAILABLE
  absl::Duration serving_wait;  // at the start, for a server or a model that is not there yet (serving_wait.h)
  absl::Duration silence =
      absl::Seconds(35);  // the server sends a heartbeat every 10 s; longer silence is a dead stream
  PreviewOutput preview{};
  std::function<void(const v1::VideoEvent&)> on_event;  // every event, on the watching thread
};

class Watcher {
 public:
  // Neither is owned. Notes and progress go to `display`.
  Watcher(const Connection& connection, ProgressDisplay& display, WatchOptions options);

  // Both block until the job ends and fill in `video`, its last state. OK: the outcome is in `video`.
  // UNAVAILABLE: the server stayed away; video->id() is set if the job was accepted. Otherwise the server's refusal.
  grpc::Status Generate(v1::CreateVideoRequest request, v1::Video* video);
  grpc::Status Watch(const std::string& id, int64_t after_sequence, v1::Video* video);

  // From another thread, or after the call: the server was not there yet, so there is no job to cancel.
  bool IsWaitingForServer();
  // From another thread: cancels the job (as soon as its id is known) and says so; the running call ends with the job.
  void CancelJob();
  // From another thread: leaves the job alone; the running call returns CANCELLED.
  void Leave();

 private:
  using Reader = grpc::ClientReader<v1::VideoEvent>;

  grpc::Status Follow(v1::Video* video);
  // Opens a stream and reads it to its end. Nothing: told to leave.
  std::optional<grpc::Status> ReadOnce(v1::Video* video);
  bool WasNeverThere(const grpc::Status& status) const;
  grpc::Status ReadStream(Reader& reader, v1::Video* video);
  void Handle(const v1::VideoEvent& event, v1::Video* video);
  void NoteState(const v1::Video& video);
  bool WaitForServer(absl::Duration pause);    // false: told to leave
  bool WaitToReconnect(absl::Duration pause);  // false: told to leave
  void CancelNow(const std::string& id);
  bool Left();
  void WatchForSilence();

  const Connection& connection_;
  ProgressDisplay& display_;
  const WatchOptions options_;
  const std::unique_ptr<v1::VideoGeneration::Stub> stub_;
  v1::CreateVideoRequest request_;  // of Generate

  Halt halt_;  // of CancelVideo
  absl::Mutex mu_;
  std::string id_ ABSL_GUARDED_BY(mu_);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;  // of the open stream
  absl::Time last_event_ ABSL_GUARDED_BY(mu_);
  bool cancel_ ABSL_GUARDED_BY(mu_) = false;       // asked for
  bool cancel_sent_ ABSL_GUARDED_BY(mu_) = false;  // and accepted by the server
  bool leave_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool waiting_for_server_ ABSL_GUARDED_BY(mu_) = false;
  ServingWait serving_wait_;
  int64_t events_ = 0;    // received on all streams
  int64_t sequence_ = 0;  // last stored event seen
  google::protobuf::Timestamp snapshot_time_;
  std::pair<v1::Video::State, int> noted_state_;  // and its attempt
  bool terminal_ = false;                         // its outcome is known
};

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_WATCHER_H_
