// The files that a run names: where they lie for this worker, and what they hold.
#ifndef KINORA_SERVER_WORKER_RUN_INPUTS_H_
#define KINORA_SERVER_WORKER_RUN_INPUTS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/request/request.h"
#include "kinora/v1/worker.pb.h"
#include "server/decode/decoder_process.h"
#include "server/worker/input_line.h"

namespace kinora {

struct RunInputs {
  std::string folder;         // the artifact directory, or where files may lie that come over `line`
  InputLine* line = nullptr;  // null: the artifact directory is shared with the frontend, and they lie there
  std::string decoder;        // kinora-decode
  absl::Duration timeout = DecoderOptions().timeout;  // of one input

  // The run's inputs, decoded into its effective request. go_on: asked every now and then; what it says unless OK ends
  // the reading. InvalidArgument "input ID: …": its file is damaged, or harmful. DataLoss: it is not what was uploaded.
  // Else as InputLine::Fetch.
  absl::Status Read(const v1::Run& run, const std::function<absl::Status()>& go_on, GenerationRequest& request) const;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RUN_INPUTS_H_
