// Locates and decodes the input files that a run names.
#ifndef KINORA_SERVER_WORKER_RUN_INPUTS_H_
#define KINORA_SERVER_WORKER_RUN_INPUTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"
#include "engine/request/request.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/file_artifact_store.h"
#include "server/decode/input_reader.h"
#include "server/worker/input_line.h"

namespace kinora {

struct RunInputs {
  FileArtifactStore& store;   // has the inputs, or room for files that `line` downloads
  InputLine* line = nullptr;  // null: the store is shared with the frontend and holds the inputs
  std::string decoder;        // path of kinora-decode
  absl::Duration timeout = DecoderOptions().timeout;  // for one input

  // Decodes the run's inputs into its effective request. go_on: called now and then; an error from it ends the reading.
  // Fails with InvalidArgument "input ID: …" if a file is damaged, harmful or beyond the limits, and with DataLoss if
  // it differs from the upload. Other errors: as InputLine::Fetch.
  absl::Status Read(const v1::Run& run, const InputLimits& limits, const std::function<absl::Status()>& go_on,
                    GenerationRequest& request) const;

  // Returns the bytes of the file that run.resume_from describes. Fails with DataLoss if it has another size or digest,
  // or more than `most_bytes`. Other errors: as Read.
  absl::StatusOr<std::string> ReadResumeFile(const v1::Run& run, int64_t most_bytes,
                                             const std::function<absl::Status()>& go_on) const;

 private:
  absl::StatusOr<FileDescriptor> Open(const v1::Run& run, const std::string& id,
                                      const std::function<absl::Status()>& go_on) const;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RUN_INPUTS_H_
