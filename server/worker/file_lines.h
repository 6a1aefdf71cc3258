// The ways of files between this worker and a frontend that it shares no directory with. Thread-safe.
#ifndef KINORA_SERVER_WORKER_FILE_LINES_H_
#define KINORA_SERVER_WORKER_FILE_LINES_H_

#include <functional>

#include "server/worker/input_line.h"
#include "server/worker/upload_line.h"

namespace kinora {

struct FileLines {
  // send: this rank's way to the frontend; any thread.
  explicit FileLines(const std::function<void(const v1::WorkerMessage&)>& send) : artifacts(send), inputs(send) {}
  // Ends what goes on, and what is begun later, with `why`, which is not OK.
  void Abort(const absl::Status& why) {
    artifacts.Abort(why);
    inputs.Abort(why);
  }

  UploadLine artifacts;
  InputLine inputs;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_FILE_LINES_H_
