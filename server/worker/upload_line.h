// Uploads artifacts to a frontend with which this worker shares no directory, in pieces over the Join stream
// (worker.proto). Each piece is sent once the frontend has answered the previous one. Thread-safe.
#ifndef KINORA_SERVER_WORKER_UPLOAD_LINE_H_
#define KINORA_SERVER_WORKER_UPLOAD_LINE_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/artifact_store.h"
#include "server/worker/answer_slot.h"

namespace kinora {

class UploadLine {
 public:
  // send: sends a message to the frontend; called on any thread.
  explicit UploadLine(std::function<void(const v1::WorkerMessage&)> send) : send_(std::move(send)) {}

  // Sends `file` as the artifact `name` of the run. Returns OK once the frontend has stored the whole file durably.
  // Calls `on_piece` after each piece; an error from it ends the upload. Also fails with the frontend's error, with
  // Abort's error, or with the file's error. One call at a time.
  absl::StatusOr<StoredFile> Upload(const v1::Run& run, const std::string& name, const std::string& file,
                                    const std::function<absl::Status()>& on_piece);

  // Called with each answer that the stream delivers.
  void Receive(const v1::UploadAnswer& answer) { answers_.Receive(answer); }
  // Ends every present and later Upload with `why`, which must not be OK. Only the first call has an effect.
  void Abort(const absl::Status& why) { answers_.Abort(why); }
  // Ends the present Upload and every later one until Resume with Cancelled, even if the frontend does not answer. The
  // frontend then keeps nothing of the file.
  void Interrupt() { answers_.Interrupt(); }
  void Resume() { answers_.Resume(); }

 private:
  absl::Status SendPiece(const v1::WorkerMessage& piece);

  const std::function<void(const v1::WorkerMessage&)> send_;
  AnswerSlot<v1::UploadAnswer> answers_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_UPLOAD_LINE_H_
