// Downloads inputs from a frontend with which this worker shares no store, in pieces over the Join stream
// (worker.proto). Each piece is requested once the previous one has arrived. Thread-safe.
#ifndef KINORA_SERVER_WORKER_INPUT_LINE_H_
#define KINORA_SERVER_WORKER_INPUT_LINE_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/file_artifact_store.h"
#include "server/worker/answer_slot.h"

namespace kinora {

class InputLine {
 public:
  // send: sends a message to the frontend; called on any thread.
  explicit InputLine(std::function<void(const v1::WorkerMessage&)> send) : send_(std::move(send)) {}

  // Returns the run's input `id` as a scratch file of `store`, open for reading; does not check its bytes against the
  // id. Calls `on_piece` after each piece; an error from it ends the fetch. Also fails with the frontend's error,
  // with DataLoss if a piece has an unexpected offset, with Abort's error, or with the file's error. One call at a
  // time.
  absl::StatusOr<FileDescriptor> Fetch(const v1::Run& run, const std::string& id, FileArtifactStore& store,
                                       const std::function<absl::Status()>& on_piece);

  // Called with each piece that the stream delivers.
  void Receive(const v1::InputPiece& piece) { pieces_.Receive(piece); }
  // Ends every present and later Fetch with `why`, which must not be OK. Only the first call has an effect.
  void Abort(const absl::Status& why) { pieces_.Abort(why); }

 private:
  absl::StatusOr<v1::InputPiece> Ask(const v1::Run& run, const std::string& id, int64_t offset);

  const std::function<void(const v1::WorkerMessage&)> send_;
  AnswerSlot<v1::InputPiece> pieces_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_INPUT_LINE_H_
