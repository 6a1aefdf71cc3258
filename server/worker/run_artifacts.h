// Where rank 0 stores the files of a run.
#ifndef KINORA_SERVER_WORKER_RUN_ARTIFACTS_H_
#define KINORA_SERVER_WORKER_RUN_ARTIFACTS_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/artifact_writer.h"
#include "server/common/file_artifact_store.h"
#include "server/worker/upload_line.h"

namespace kinora {

struct RunArtifacts {
  FileArtifactStore& store;       // files are written here
  UploadLine* uploads = nullptr;  // to the frontend; null: the frontend shares `store`

  // Makes the complete file that `writer` has begun as `name` durable for the frontend. on_piece: called after each
  // piece that is uploaded; an error from it ends the upload.
  absl::StatusOr<StoredFile> Deliver(const v1::Run& run, const std::string& name, const std::string& file,
                                     ArtifactWriter& writer, const std::function<absl::Status()>& on_piece) const;
  // Writes a file of these bytes and delivers it.
  absl::StatusOr<StoredFile> Store(const v1::Run& run, const std::string& name, std::string_view bytes,
                                   const std::function<absl::Status()>& on_piece) const;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RUN_ARTIFACTS_H_
