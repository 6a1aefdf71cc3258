// The jobs of one command: queues all of them, then follows them one after the other with one progress bar.
//
// The jobs continue if this command dies, as those of `kinora create`. The server runs them in order, on all its
// groups. If its queue is full, the batch queues the rest as its jobs end; if it has no unfinished job left, it waits
// for room. The first job waits for room only as long as with any other command.
#ifndef KINORA_SERVER_CLIENT_BATCH_H_
#define KINORA_SERVER_CLIENT_BATCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/command_line.h"
#include "engine/base/growing_pause.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/watcher.h"

namespace kinora {

absl::Span<const FlagSpec> BatchFlags();  // --count, --seeds

// Returns one request per clip; without the flags, one. --count N uses seeds from --seed on, or random seeds from the
// server without --seed; --seeds lists them, "1..8" or "3,7,20..29". In a batch "-1", "-2", … is appended to the
// request_id. InvalidArgument names the flag.
absl::StatusOr<std::vector<v1::CreateVideoRequest>> RequestsOfBatch(const CommandLine& line,
                                                                    const v1::CreateVideoRequest& request);

class Batch {
 public:
  // `connection` and `display` are not owned. `on_end` gets each clip's final state and its number, from 1, and returns
  // its exit status.
  Batch(const Connection& connection, ProgressDisplay& display, WatchOptions watch,
        std::function<ExitStatus(const v1::Video& video, int n)> on_end)
      : connection_(connection), display_(display), watch_(std::move(watch)), on_end_(std::move(on_end)) {}

  // Blocks until all jobs have ended or were left. Returns the first exit status other than kSuccess.
  ExitStatus Run(const std::vector<v1::CreateVideoRequest>& requests, bool json);

  // From another thread: stops queueing and cancels the unfinished jobs; Run returns once they have ended. Returns when
  // the server has been asked to cancel each, or Leave was called.
  void Cancel();
  // From another thread: lets the jobs continue; Run returns kUnreachable, or kCancelled after Cancel.
  void Leave();

 private:
  // Queues jobs while there is room. Returns the error if the server rejects one.
  grpc::Status Queue(const std::vector<v1::CreateVideoRequest>& requests, size_t ended);
  grpc::Status Create(const v1::CreateVideoRequest& request, bool first, v1::Video* video);
  std::string IdAfter(size_t ended);  // id of the next job to follow; "" if none
  grpc::Status Follow(const std::string& id, v1::Video* video);
  bool AwaitRoom(const grpc::Status& full);  // pauses; false after Cancel or Leave
  bool Pause(absl::Duration pause);          // likewise
  bool cancelled() {
    absl::MutexLock lock(&mu_);
    return cancelled_;
  }
  bool left() {
    absl::MutexLock lock(&mu_);
    return left_;
  }
  bool stopping() {
    absl::MutexLock lock(&mu_);
    return cancelled_ || left_;
  }

  const Connection& connection_;
  ProgressDisplay& display_;
  const WatchOptions watch_;
  const std::function<ExitStatus(const v1::Video&, int)> on_end_;

  Halt halt_;                                                    // for CreateVideo and CancelVideo
  GrowingPause room_pause_{absl::Seconds(1), absl::Seconds(5)};  // between attempts at a full queue, without RetryInfo
  bool room_noted_ = false;
  absl::Mutex mu_;
  std::vector<std::string> ids_ ABSL_GUARDED_BY(mu_);  // of the jobs queued so far
  size_t ended_ ABSL_GUARDED_BY(mu_) = 0;              // how many have ended
  Watcher* watcher_ ABSL_GUARDED_BY(mu_) = nullptr;    // of the followed job
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool left_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_BATCH_H_
