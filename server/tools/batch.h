// Several jobs of one command: queued at once, then followed one after the other with one bar.
//
// Each is a job like those of `kinora create`, so it goes on if this command dies; the server runs them in their order,
// on as many groups as it has. Where its queue is full, the rest is queued as jobs of the batch end; if others have
// filled it by then, as soon as there is room. The first waits for room no longer than any other command would.
#ifndef KINORA_SERVER_TOOLS_BATCH_H_
#define KINORA_SERVER_TOOLS_BATCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/command_line.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/tools/watcher.h"

namespace kinora {

absl::Span<const FlagSpec> BatchFlags();  // --count, --seeds

// One request per clip of the batch that the flags ask for; of one clip without them. --count N after --seed S has
// seeds from S on, and without one seeds that the server draws; --seeds lists them, "1..8" or "3,7,20..29". A
// request_id that was given gets "-1", "-2", …. InvalidArgument names the flag.
absl::StatusOr<std::vector<v1::CreateVideoRequest>> RequestsOfBatch(const CommandLine& line,
                                                                    const v1::CreateVideoRequest& request);

class Batch {
 public:
  // Neither is owned. `on_end` gets each clip's last state and its number, from 1, and returns what became of it.
  Batch(const Connection& connection, ProgressDisplay& display, WatchOptions watch,
        std::function<ExitStatus(const v1::Video& video, int n)> on_end)
      : connection_(connection), display_(display), watch_(std::move(watch)), on_end_(std::move(on_end)) {}

  // Until all have ended, or left. The exit status of the first that went wrong.
  ExitStatus Run(const std::vector<v1::CreateVideoRequest>& requests, bool json);

  // From another thread: queues no more and cancels those that have not ended; the running call ends with them. Returns
  // when the server has been told of each, or Leave was called.
  void Cancel();
  // From another thread: leaves the jobs alone; the running call returns kUnreachable, or kCancelled after Cancel.
  void Leave();

 private:
  // Queues what there is room for. An error: the next one was refused.
  grpc::Status Queue(const std::vector<v1::CreateVideoRequest>& requests, size_t ended);
  grpc::Status Create(const v1::CreateVideoRequest& request, bool first, v1::Video* video);
  std::string IdAfter(size_t ended);  // of the job to be followed now; "": there is none
  grpc::Status Follow(const std::string& id, v1::Video* video);
  bool AwaitRoom(const grpc::Status& full);  // pauses; false: told to stop
  bool Pause(absl::Duration pause);          // the same
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

  Halt halt_;                                     // of CreateVideo and CancelVideo
  absl::Duration room_pause_ = absl::Seconds(1);  // before the full queue is asked again, if it does not say
  bool room_noted_ = false;
  absl::Mutex mu_;
  std::vector<std::string> ids_ ABSL_GUARDED_BY(mu_);  // of the jobs so far
  size_t ended_ ABSL_GUARDED_BY(mu_) = 0;              // of them
  Watcher* watcher_ ABSL_GUARDED_BY(mu_) = nullptr;    // of the job that is followed now
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool left_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_BATCH_H_
