#include "server/worker/input_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/file_error.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

// Two descriptors of an unlinked file, which nobody else can open. The reader gets the one that cannot write.
struct Scratch {
  FileDescriptor write, read;
};

absl::StatusOr<Scratch> MakeScratch(const std::string& folder) {
  std::string path = absl::StrCat(folder, "/.input-XXXXXX");
  Scratch file;
  file.write = FileDescriptor(mkostemp(path.data(), O_CLOEXEC));
  if (!file.write.ok()) return FileError(path, "create");
  file.read = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const absl::Status opened = file.read.ok() ? absl::OkStatus() : FileError(path, "open");
  unlink(path.c_str());
  KINORA_RETURN_IF_ERROR(opened);
  return file;
}

absl::Status Append(int fd, std::string_view data, const std::string& folder) {
  while (!data.empty()) {
    const ssize_t n = Uninterrupted([&] { return write(fd, data.data(), data.size()); });
    if (n < 0) return FileError(folder, "write an input in");
    data.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileDescriptor> InputLine::Fetch(const v1::Run& run, const std::string& id, const std::string& folder,
                                                const std::function<absl::Status()>& on_piece) {
  KINORA_ASSIGN_OR_RETURN(Scratch file, MakeScratch(folder));
  bool last = false;
  for (int64_t offset = 0; !last;) {
    KINORA_ASSIGN_OR_RETURN(const v1::InputPiece piece, Ask(run, id, offset));
    KINORA_RETURN_IF_ERROR(FromRpcStatus(piece.error()));
    last = piece.last();
    if (piece.offset() != offset || (piece.data().empty() && !last)) {
      return absl::DataLossError(
          absl::StrCat("input ", id, ": received bytes from offset ", piece.offset(), " instead of ", offset));
    }
    KINORA_RETURN_IF_ERROR(Append(file.write.get(), piece.data(), folder));
    offset += static_cast<int64_t>(piece.data().size());
    KINORA_RETURN_IF_ERROR(on_piece());
  }
  return std::move(file.read);
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
