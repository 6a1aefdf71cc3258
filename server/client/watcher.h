// Follows one job to its end. After the connection breaks it resumes at the last stored event that it received, so no
// state is missed or shown twice.
#ifndef KINORA_SERVER_CLIENT_WATCHER_H_
#define KINORA_SERVER_CLIENT_WATCHER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/connection.h"
#include "server/client/halt.h"
#include "server/client/preview_output.h"
#include "server/client/serving_wait.h"
#include "server/terminal/progress_display.h"

namespace kinora {

struct WatchOptions {
  absl::Duration reconnect = absl::Minutes(1);  // longest absence of the server; then UNAVAILABLE
  absl::Duration serving_wait;                  // wait for the server and its model at the start (serving_wait.h)
  absl::Duration silence = absl::Seconds(35);   // heartbeats come every 10 s; after this the stream is dead
  const Clock* steady = &Clock::Steady();       // not owned
  PreviewOutput preview{};
  std::function<void(const v1::VideoEvent&)> on_event;  // every event, on the watching thread
};

class Watcher {
 public:
  // `connection` and `display` are not owned. Notes and progress go to `display`.
  Watcher(const Connection& connection, ProgressDisplay& display, WatchOptions options);

  // Both block until the job ends and set `video` to its last state. OK: `video` has the outcome. UNAVAILABLE: the
  // server stayed away; video->id() is set if the job was accepted. Otherwise the server's error.
  grpc::Status Generate(v1::CreateVideoRequest request, v1::Video* video);
  grpc::Status Watch(const std::string& id, int64_t after_sequence, v1::Video* video);

  // From another thread, or after the call: whether it was still waiting for the server, so that there is no job to
  // cancel.
  bool IsWaitingForServer();
  // From another thread: cancels the job as soon as its id is known, and notes an error; the running call ends with the
  // job.
  void CancelJob();
  // From another thread: lets the job continue; the running call returns CANCELLED.
  void Leave();

 private:
  using Reader = grpc::ClientReader<v1::VideoEvent>;

  grpc::Status Follow(v1::Video* video);
  // Opens a stream and reads it to its end. Returns nothing after Leave.
  std::optional<grpc::Status> ReadOnce(v1::Video* video);
  bool WasNeverThere(const grpc::Status& status) const;
  grpc::Status ReadStream(Reader& reader, v1::Video* video);
  void Handle(const v1::VideoEvent& event, v1::Video* video);
  void NoteState(const v1::Video& video);
  void NoteWait(const v1::Video& video);       // notes why it waits
  void AskWait(const v1::Video& video);        // the same, after asking the server
  bool WaitForServer(absl::Duration pause);    // false if stopped
  bool WaitToReconnect(absl::Duration pause);  // false if stopped
  void CancelNow(const std::string& id);
  bool Left();
  void WatchForSilence();

  const Connection& connection_;
  ProgressDisplay& display_;
  const WatchOptions options_;
  const std::unique_ptr<v1::VideoGeneration::Stub> stub_;
  v1::CreateVideoRequest request_;  // for Generate

  Halt halt_;  // for CancelVideo
  absl::Mutex mu_;
  std::string id_ ABSL_GUARDED_BY(mu_);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;  // of the open stream
  absl::Time last_event_ ABSL_GUARDED_BY(mu_);
  bool cancel_ ABSL_GUARDED_BY(mu_) = false;       // requested
  bool cancel_sent_ ABSL_GUARDED_BY(mu_) = false;  // and accepted by the server
  bool leave_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool waiting_for_server_ ABSL_GUARDED_BY(mu_) = false;
  ServingWait serving_wait_;
  int64_t events_ = 0;    // received on all streams
  int64_t sequence_ = 0;  // last stored event seen
  google::protobuf::Timestamp snapshot_time_;
  std::pair<v1::Video::State, int> noted_state_;  // state and attempt
  bool terminal_ = false;                         // the outcome is known
};

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_WATCHER_H_
