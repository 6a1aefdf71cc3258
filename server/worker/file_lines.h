// File transfers between this worker and a frontend with which it shares no directory. Thread-safe.
#ifndef KINORA_SERVER_WORKER_FILE_LINES_H_
#define KINORA_SERVER_WORKER_FILE_LINES_H_

#include <functional>

#include "server/worker/input_line.h"
#include "server/worker/upload_line.h"

namespace kinora {

struct FileLines {
  // send: sends a message to the frontend; called on any thread.
  explicit FileLines(const std::function<void(const v1::WorkerMessage&)>& send) : artifacts(send), inputs(send) {}
  // Ends present and later transfers with `why`, which must not be OK.
  void Abort(const absl::Status& why) {
    artifacts.Abort(why);
    inputs.Abort(why);
  }

  UploadLine artifacts;
  InputLine inputs;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_FILE_LINES_H_
