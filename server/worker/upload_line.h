// The way of an artifact to a frontend that this worker shares no directory with: pieces over the Join stream, one at a
// time, each answered (worker.proto). Thread-safe.
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
  // send: this rank's way to the frontend; any thread.
  explicit UploadLine(std::function<void(const v1::WorkerMessage&)> send) : send_(std::move(send)) {}

  // Sends `file` as the artifact `name` of the run; OK once the frontend has it whole and durable. `on_piece` runs
  // after each piece; its error ends the upload. Else: the frontend's answer, Aborted after Abort, or the file's error.
  // One at a time.
  absl::StatusOr<StoredFile> Upload(const v1::Run& run, const std::string& name, const std::string& file,
                                    const std::function<absl::Status()>& on_piece);

  // From the stream.
  void Receive(const v1::UploadAnswer& answer) { answers_.Receive(answer); }
  // Ends every Upload, now and later, with `why`, which is not OK. The first counts.
  void Abort(const absl::Status& why) { answers_.Abort(why); }

 private:
  absl::Status SendPiece(const v1::WorkerMessage& piece);

  const std::function<void(const v1::WorkerMessage&)> send_;
  AnswerSlot<v1::UploadAnswer> answers_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_UPLOAD_LINE_H_
