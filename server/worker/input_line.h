// The way of an input from a frontend that this worker shares no directory with: pieces over the Join stream, each
// asked for once the one before has come (worker.proto). Thread-safe.
#ifndef KINORA_SERVER_WORKER_INPUT_LINE_H_
#define KINORA_SERVER_WORKER_INPUT_LINE_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"
#include "kinora/v1/worker.pb.h"
#include "server/worker/answer_slot.h"

namespace kinora {

class InputLine {
 public:
  // send: this rank's way to the frontend; any thread.
  explicit InputLine(std::function<void(const v1::WorkerMessage&)> send) : send_(std::move(send)) {}

  // The run's input `id` as a file without a name in `folder`, open to be read; its bytes are not checked against the
  // id. `on_piece` runs after each piece; its error ends the fetch. Else: the frontend's answer, DataLoss (pieces that
  // do not follow each other), Aborted after Abort, or the file's error. One at a time.
  absl::StatusOr<FileDescriptor> Fetch(const v1::Run& run, const std::string& id, const std::string& folder,
                                       const std::function<absl::Status()>& on_piece);

  // From the stream.
  void Receive(const v1::InputPiece& piece) { pieces_.Receive(piece); }
  // Ends every Fetch, now and later, with `why`, which is not OK. The first counts.
  void Abort(const absl::Status& why) { pieces_.Abort(why); }

 private:
  absl::StatusOr<v1::InputPiece> Ask(const v1::Run& run, const std::string& id, int64_t offset);

  const std::function<void(const v1::WorkerMessage&)> send_;
  AnswerSlot<v1::InputPiece> pieces_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_INPUT_LINE_H_
