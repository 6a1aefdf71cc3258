#include "server/frontend/api/request_validation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "server/common/request_conversion.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/api/generation_check.h"
#include "server/frontend/api/message_check.h"

namespace kinora {
namespace {

using Problems = std::vector<FieldViolation>;

void CheckDuration(const char* field, const google::protobuf::Duration& duration, absl::Duration maximum,
                   Problems& out) {
  // A message that breaks Duration's own rules (mixed signs, a billion nanoseconds) would still add up to something.
  const bool whole = duration.nanos() >= 0 && duration.nanos() < 1'000'000'000 && duration.seconds() >= 0;
  const absl::Duration value = FromProto(duration);
  if (!whole || value <= absl::ZeroDuration()) {
    out.push_back({field, "must be greater than 0"});
  } else if (value > maximum) {
    out.push_back(
        {field, absl::StrCat(absl::FormatDuration(value), " is too long; nearest: ", absl::FormatDuration(maximum))});
  }
}

void CheckEnvelope(const v1::CreateVideoRequest& request, const RequestLimits& limits, Problems& out) {
  const auto too_long = [&](const std::string& field, size_t bytes, size_t maximum) {
    if (bytes > maximum) out.push_back({field, absl::StrCat(bytes, " bytes; at most ", maximum)});
  };
  too_long("request_id", request.request_id().size(), limits.max_request_id_bytes);
  if (request.labels_size() > limits.max_labels) {
    out.push_back({"labels", absl::StrCat(request.labels_size(), " labels; at most ", limits.max_labels)});
  }
  for (const auto& [key, value] : request.labels()) {
    if (key.empty()) out.push_back({"labels", "a key is empty"});
    too_long("labels", key.size(), limits.max_label_key_bytes);
    too_long("labels", value.size(), limits.max_label_value_bytes);
  }
  const int priority = request.scheduling().priority();
  const int nearest = std::clamp(priority, -limits.max_priority, limits.max_priority);
  if (priority != nearest) {
    out.push_back({"scheduling.priority", absl::StrCat(priority, " is not within ", -limits.max_priority, "..",
                                                       limits.max_priority, "; nearest: ", nearest)});
  }
  if (request.scheduling().has_deadline()) {
    CheckDuration("scheduling.deadline", request.scheduling().deadline(), limits.max_deadline, out);
  }
  const v1::Output& output = request.output();
  if (output.has_ttl()) CheckDuration("output.ttl", output.ttl(), limits.max_ttl, out);
  if (output.crf() < 0 || output.crf() > 51) {
    out.push_back(
        {"output.crf", absl::StrCat(output.crf(), " is not within 0..51; nearest: ", std::clamp(output.crf(), 0, 51))});
  }
  if (output.preview_every_steps() < 0) out.push_back({"output.preview_every_steps", "must be 0 or more"});
}

// Valid requests whose parts are not built yet.
absl::Status CheckAvailable(const v1::CreateVideoRequest& request, const v1::Generation& effective) {
  const v1::Generation& generation = request.generation();
  if (generation.conditions_size() > 0) return NotAvailableYet("generation.conditions");
  if (generation.loras_size() > 0) return NotAvailableYet("generation.loras");
  if (generation.has_retake()) return NotAvailableYet("generation.retake");
  if (generation.has_audio()) return NotAvailableYet("generation.audio");
  if (generation.audio_only()) return NotAvailableYet("generation.audio_only");
  switch (effective.recipe()) {
    case v1::Generation::ONE_STAGE:
    case v1::Generation::DISTILLED:
      break;
    default:
      return NotAvailableYet(absl::StrCat("generation.recipe ", v1::Generation::Recipe_Name(effective.recipe())));
  }
  if (request.output().preview_every_steps() > 0) return NotAvailableYet("output.preview_every_steps");
  if (request.output().trace()) return NotAvailableYet("output.trace");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::ModelInfo> ChooseModel(const std::vector<v1::ModelInfo>& models, const std::string& name) {
  const std::string known = absl::StrJoin(
      models, ", ", [](std::string* out, const v1::ModelInfo& model) { absl::StrAppend(out, "\"", model.id(), "\""); });
  if (models.empty()) {
    return WithErrorInfo(
        WithRetryInfo(absl::UnavailableError("no worker group has loaded a model yet"), absl::Seconds(5)), "NO_MODEL");
  }
  if (name.empty()) {
    if (models.size() == 1) return models[0];
    return InvalidField("model", absl::StrCat("needed, since there are several: ", known));
  }
  for (const v1::ModelInfo& model : models) {
    if (model.id() == name) return model;
  }
  // The client's text is cut: it may be anything up to the size of a message.
  return WithErrorInfo(absl::FailedPreconditionError(
                           absl::StrCat("model: \"", name.substr(0, 100), "\" is not loaded here; there is ", known)),
                       "MODEL_NOT_LOADED");
}

absl::StatusOr<v1::Generation> ValidateRequest(const v1::CreateVideoRequest& request, const v1::ModelInfo& model,
                                               const RequestLimits& limits, uint64_t (*draw_seed)()) {
  Problems violations = CheckMessage(request);
  if (!violations.empty()) return InvalidFields(violations);  // values that the checks below rely on

  CheckEnvelope(request, limits, violations);
  v1::Generation effective = WithDefaults(request.generation(), model);
  bool too_large = false;
  CheckGenerationFor(model, request.generation(), effective, violations, too_large);
  if (!violations.empty()) {
    const absl::Status status = InvalidFields(violations);
    return too_large ? WithErrorInfo(status, "SHAPE_TOO_LARGE", LargestShape(model, effective)) : status;
  }
  KINORA_RETURN_IF_ERROR(CheckAvailable(request, effective));
  if (!effective.has_seed()) effective.set_seed(draw_seed());
  return effective;
}

}  // namespace kinora
