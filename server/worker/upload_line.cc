#include "server/worker/upload_line.h"

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/file_error.h"
#include "server/common/sha256.h"
#include "server/common/status_details.h"
#include "server/common/upload_limits.h"

namespace kinora {
namespace {

// Returns `bytes` bytes, or fewer at the end of the file.
absl::StatusOr<std::string> ReadPiece(int fd, const std::string& file, size_t bytes) {
  std::string piece(bytes, '\0');
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = Uninterrupted([&] { return read(fd, piece.data() + done, bytes - done); });
    if (n < 0) return FileError(file, "read");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  piece.resize(done);
  return piece;
}

}  // namespace

absl::StatusOr<StoredFile> UploadLine::Upload(const v1::Run& run, const std::string& name, const std::string& file,
                                              const std::function<absl::Status()>& on_piece) {
  const FileDescriptor fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return FileError(file, "open");
  Sha256 digest;
  StoredFile sent;
  KINORA_ASSIGN_OR_RETURN(std::string next, ReadPiece(fd.get(), file, kMostUploadBytes));
  do {
    v1::WorkerMessage message;
    v1::UploadChunk& chunk = *message.mutable_upload_chunk();
    chunk.set_video_id(run.video_id());
    chunk.set_attempt(run.attempt());
    chunk.set_name(name);
    chunk.set_offset(sent.bytes);
    digest.Update(next);
    sent.bytes += static_cast<int64_t>(next.size());
    chunk.set_data(std::move(next));
    KINORA_ASSIGN_OR_RETURN(next, ReadPiece(fd.get(), file, kMostUploadBytes));
    if (next.empty()) chunk.set_sha256(sent.sha256 = digest.Hex());
    KINORA_RETURN_IF_ERROR(SendPiece(message));
    KINORA_RETURN_IF_ERROR(on_piece());
  } while (!next.empty());
  return sent;
}

absl::Status UploadLine::SendPiece(const v1::WorkerMessage& piece) {
  const v1::UploadChunk& chunk = piece.upload_chunk();
  KINORA_ASSIGN_OR_RETURN(const v1::UploadAnswer answer, answers_.Ask([&] { send_(piece); },
                                                                      [&](const v1::UploadAnswer& of) {
                                                                        return of.video_id() == chunk.video_id() &&
                                                                               of.attempt() == chunk.attempt() &&
                                                                               of.name() == chunk.name();
                                                                      }));
  return FromRpcStatus(answer.error());
}

}  // namespace kinora
