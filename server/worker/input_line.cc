#include "server/worker/input_line.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"

namespace kinora {
absl::StatusOr<FileDescriptor> InputLine::Fetch(const v1::Run& run, const std::string& id, FileArtifactStore& store,
                                                const std::function<absl::Status()>& on_piece) {
  KINORA_ASSIGN_OR_RETURN(ScratchFile file, store.MakeScratchFile());
  bool last = false;
  for (int64_t offset = 0; !last;) {
    KINORA_ASSIGN_OR_RETURN(const v1::InputPiece piece, Ask(run, id, offset));
    KINORA_RETURN_IF_ERROR(FromRpcStatus(piece.error()));
    last = piece.last();
    if (piece.offset() != offset || (piece.data().empty() && !last)) {
      return absl::DataLossError(
          absl::StrCat("input ", id, ": received bytes from offset ", piece.offset(), " instead of ", offset));
    }
    KINORA_RETURN_IF_ERROR(file.Append(piece.data()));
    offset += static_cast<int64_t>(piece.data().size());
    KINORA_RETURN_IF_ERROR(on_piece());
  }
  return file.TakeReader();
}

absl::StatusOr<v1::InputPiece> InputLine::Ask(const v1::Run& run, const std::string& id, int64_t offset) {
  v1::WorkerMessage message;
  v1::InputFetch& fetch = *message.mutable_input_fetch();
  fetch.set_video_id(run.video_id());
  fetch.set_attempt(run.attempt());
  fetch.set_input_id(id);
  fetch.set_offset(offset);
  return pieces_.Ask([&] { send_(message); },
                     [&](const v1::InputPiece& piece) {
                       return piece.video_id() == run.video_id() && piece.attempt() == run.attempt() &&
                              piece.input_id() == id;
                     });
}

}  // namespace kinora
