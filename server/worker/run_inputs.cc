#include "server/worker/run_inputs.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
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

}  // namespace

absl::Status RunInputs::Read(const v1::Run& run, const InputLimits& limits, const std::function<absl::Status()>& go_on,
                             GenerationRequest& request) const {
  const auto open_shared = [&](const std::string& id) -> absl::StatusOr<FileDescriptor> {
    const auto path = run.input_paths().find(id);
    if (path == run.input_paths().end() || !CheckArtifactKey(path->second).ok()) {
      return absl::InternalError(absl::StrCat("input ", id, ": the run does not give its location"));
    }
    return store.OpenFile(path->second);
  };
  const auto open_input = [&](const std::string& id) -> absl::StatusOr<FileDescriptor> {
    KINORA_ASSIGN_OR_RETURN(FileDescriptor file,
                            line != nullptr ? line->Fetch(run, id, store.root(), go_on) : open_shared(id));
    KINORA_RETURN_IF_ERROR(CheckDigest(id, file.get(), go_on));
    return file;
  };
  const DecoderOptions options{.binary = decoder, .timeout = timeout, .go_on = go_on};
  return ReadInputs({.decoder = options, .limits = limits, .open = open_input}, request);
}

}  // namespace kinora
