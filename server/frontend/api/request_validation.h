// Decides whether a request can become a job, before anything is stored, from what the model's group said of it.
//
// INVALID_ARGUMENT lists every field that is wrong with its nearest valid value (BadRequest); a size beyond the model's
// limits also carries ErrorInfo SHAPE_TOO_LARGE. UNIMPLEMENTED names a field that is valid and not available yet.
#ifndef KINORA_SERVER_FRONTEND_API_REQUEST_VALIDATION_H_
#define KINORA_SERVER_FRONTEND_API_REQUEST_VALIDATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

struct RequestLimits {
  std::string default_model{};  // of requests that name none; empty: the only one, if it is
  absl::Duration max_ttl = absl::Hours(24 * 30);
  absl::Duration max_deadline = absl::Hours(24 * 30);
  int max_priority = 10;  // and −max_priority: priorities are a metric's label
  int max_labels = 64;
  size_t max_label_key_bytes = 64;
  size_t max_label_value_bytes = 256;
  size_t max_request_id_bytes = 128;
};

// Of worker groups that take no jobs now.
struct Absence {
  std::string why{};     // as /readyz says it; empty: nobody knows
  bool passes = true;    // by itself: a client may wait
  bool loading = false;  // no group takes jobs, and one is about to say what its model has now
};

// The model that `name` means; empty: the default one, if that is not empty, else the only one. Unavailable (NO_MODEL):
// no group has described a model yet, and `absence` says why; with a time to try again, unless that does not help.
// InvalidArgument: no name and several models. FailedPrecondition (MODEL_NOT_LOADED): none
// of that name.
absl::StatusOr<v1::ModelInfo> ChooseModel(const std::vector<v1::ModelInfo>& models, const std::string& name,
                                          const std::string& default_model, const Absence& absence = {});

// The effective Generation: every default filled in, the seed drawn from `draw_seed` if absent. Unavailable (NO_MODEL):
// `model` was described by a build that said less than a request is decided by (model_conversion.h).
absl::StatusOr<v1::Generation> ValidateRequest(const v1::CreateVideoRequest& request, const v1::ModelInfo& model,
                                               const RequestLimits& limits, uint64_t (*draw_seed)());

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_REQUEST_VALIDATION_H_
