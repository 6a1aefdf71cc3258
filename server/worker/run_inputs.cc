#include "server/worker/run_inputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/file_error.h"
#include "server/common/sha256.h"

namespace kinora {
namespace {

constexpr size_t kPiece = 4 << 20;

// An input's id is the digest of its bytes.
absl::Status CheckDigest(const std::string& id, int file, const std::function<absl::Status()>& go_on) {
  std::string buffer(kPiece, '\0');
  Sha256 sha256;
  for (int64_t at = 0;;) {
    const ssize_t n = Uninterrupted([&] { return pread(file, buffer.data(), buffer.size(), at); });
    if (n < 0) return absl::UnavailableError(absl::StrCat("input ", id, ": its file cannot be read"));
    if (n == 0) break;
    sha256.Update(std::string_view(buffer.data(), n));
    at += n;
    KINORA_RETURN_IF_ERROR(go_on());
  }
  if (sha256.Hex() == id) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("input ", id, ": its file differs from the upload; upload it again"));
}

// Opens an input in a store that is shared with the frontend.
absl::StatusOr<FileDescriptor> OpenShared(const FileArtifactStore& store, const v1::Run& run, const std::string& id) {
  const auto path = run.input_paths().find(id);
  if (path == run.input_paths().end() || !CheckArtifactKey(path->second).ok()) {
    return absl::InternalError(absl::StrCat("input ", id, ": the run does not give its location"));
  }
  return store.OpenFile(path->second);
}

// Returns the whole file if it has this many bytes.
absl::StatusOr<std::string> ReadWhole(int file, int64_t bytes, const std::function<absl::Status()>& go_on) {
  struct stat info;
  if (fstat(file, &info) != 0) return FileError("resume", "read");
  if (info.st_size != bytes) {
    return absl::DataLossError(absl::StrCat("it has ", info.st_size, " bytes instead of ", bytes));
  }
  std::string whole(bytes, '\0');
  for (int64_t at = 0; at < bytes;) {
    const size_t most = std::min<size_t>(kPiece, bytes - at);
    const ssize_t n = Uninterrupted([&] { return pread(file, whole.data() + at, most, at); });
    if (n < 0) return FileError("resume", "read");
    if (n == 0) return absl::DataLossError("it became shorter");
    at += n;
    KINORA_RETURN_IF_ERROR(go_on());
  }
  return whole;
}

}  // namespace

absl::StatusOr<FileDescriptor> RunInputs::Open(const v1::Run& run, const std::string& id,
                                               const std::function<absl::Status()>& go_on) const {
  return line != nullptr ? line->Fetch(run, id, store, go_on) : OpenShared(store, run, id);
}

absl::Status RunInputs::Read(const v1::Run& run, const InputLimits& limits, const std::function<absl::Status()>& go_on,
                             GenerationRequest& request) const {
  const auto open_input = [&](const std::string& id) -> absl::StatusOr<FileDescriptor> {
    KINORA_ASSIGN_OR_RETURN(FileDescriptor file, Open(run, id, go_on));
    KINORA_RETURN_IF_ERROR(CheckDigest(id, file.get(), go_on));
    return file;
  };
  const DecoderOptions options{.binary = decoder, .timeout = timeout, .go_on = go_on};
  return ReadInputs({.decoder = options, .limits = limits, .open = open_input}, request);
}

absl::StatusOr<std::string> RunInputs::ReadResumeFile(const v1::Run& run, int64_t most_bytes,
                                                      const std::function<absl::Status()>& go_on) const {
  const v1::ResumePoint& point = run.resume_from();
  if (point.bytes() < 0 || point.bytes() > most_bytes) {
    return absl::DataLossError(
        absl::StrCat("it has ", point.bytes(), " bytes, but at most ", most_bytes, " fit the run"));
  }
  KINORA_ASSIGN_OR_RETURN(const FileDescriptor file, Open(run, "resume", go_on));
  KINORA_ASSIGN_OR_RETURN(std::string bytes, ReadWhole(file.get(), point.bytes(), go_on));
  if (Sha256Hex(bytes) == point.sha256()) return bytes;
  return absl::DataLossError("its bytes are not those that were stored");
}

}  // namespace kinora
