// Decides whether a request can become a job, from its model's description, before anything is stored.
//
// INVALID_ARGUMENT lists every invalid field with its nearest valid value (BadRequest); if the size exceeds the model's
// limits it also carries ErrorInfo SHAPE_TOO_LARGE. UNIMPLEMENTED names a field that is valid but not available yet.
#ifndef KINORA_SERVER_FRONTEND_API_REQUEST_VALIDATION_H_
#define KINORA_SERVER_FRONTEND_API_REQUEST_VALIDATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

struct RequestLimits {
  std::string default_model{};  // for requests without a model; empty: the only model, if there is just one
  absl::Duration max_ttl = absl::Hours(24 * 30);
  absl::Duration max_deadline = absl::Hours(24 * 30);
  int max_priority = 10;  // down to −max_priority; bounded because priorities are a metric label
  int max_labels = 64;
  size_t max_label_key_bytes = 64;
  size_t max_label_value_bytes = 256;
  size_t max_request_id_bytes = 128;
};

// Why no worker group takes jobs now.
struct Absence {
  std::string why{};     // as /readyz reports it; empty: unknown
  bool passes = true;    // without an operator: a client may wait
  bool loading = false;  // no group takes jobs, and one that is loading will soon describe its model
};

// Returns the model called `name`; if `name` is empty, `default_model`; if that is empty too, the only model. Errors:
//   Unavailable (NO_MODEL): no group has described a model yet. Carries absence.why, and RetryInfo if absence.passes.
//   InvalidArgument: no name, no default and several models.
//   FailedPrecondition (MODEL_NOT_LOADED): there is no model of that name.
absl::StatusOr<v1::ModelInfo> ChooseModel(const std::vector<v1::ModelInfo>& models, const std::string& name,
                                          const std::string& default_model, const Absence& absence = {});

// Returns the effective Generation: every default filled in, the seed from `draw_seed` if absent. Unavailable
// (NO_MODEL): `model` comes from an older build whose description is incomplete (model_conversion.h).
absl::StatusOr<v1::Generation> ValidateRequest(const v1::CreateVideoRequest& request, const v1::ModelInfo& model,
                                               const RequestLimits& limits, uint64_t (*draw_seed)());

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_REQUEST_VALIDATION_H_
