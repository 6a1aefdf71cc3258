#include "server/worker/run_artifacts.h"

#include <fstream>

#include "engine/base/status_macros.h"
#include "server/common/file_error.h"

namespace kinora {

absl::StatusOr<StoredFile> RunArtifacts::Deliver(const v1::Run& run, const std::string& name, const std::string& file,
                                                 ArtifactWriter& writer,
                                                 const std::function<absl::Status()>& on_piece) const {
  if (uploads == nullptr) return writer.Commit();
  absl::StatusOr<StoredFile> sent = uploads->Upload(run, name, file, on_piece);
  if (!sent.ok()) return writer.ForClients(sent.status());
  return sent;
}

absl::StatusOr<StoredFile> RunArtifacts::Store(const v1::Run& run, const std::string& name, std::string_view bytes,
                                               const std::function<absl::Status()>& on_piece) const {
  ArtifactWriter writer(store, run.artifact_key());
  KINORA_ASSIGN_OR_RETURN(const std::string path, writer.Begin(name));
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return writer.ForClients(FileError(path, "write"));
  return Deliver(run, name, path, writer, on_piece);
}

}  // namespace kinora
