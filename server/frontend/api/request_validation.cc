#include "server/frontend/api/request_validation.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/request/not_available.h"
#include "engine/request/request_rules.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/api/message_check.h"
#include "server/request/model_conversion.h"
#include "server/request/request_conversion.h"

namespace kinora {
namespace {

void CheckDuration(const char* field, const google::protobuf::Duration& duration, absl::Duration maximum,
                   FieldViolations& out) {
  // FromProto would also accept a message that breaks Duration's rules (mixed signs, a billion nanoseconds).
  const bool whole = duration.nanos() >= 0 && duration.nanos() < 1'000'000'000 && duration.seconds() >= 0;
  const absl::Duration value = FromProto(duration);
  if (!whole || value <= absl::ZeroDuration()) {
    out.push_back({field, "must be greater than 0"});
  } else if (value > maximum) {
    out.push_back(
        {field, absl::StrCat(absl::FormatDuration(value), " is too long; nearest: ", absl::FormatDuration(maximum))});
  }
}

void AddPrefixed(const char* prefix, const FieldViolations& violations, FieldViolations& out) {
  for (const FieldViolation& violation : violations) out.push_back({prefix + violation.field, violation.description});
}

void CheckEnvelope(const v1::CreateVideoRequest& request, const RequestLimits& limits, FieldViolations& out) {
  const auto too_long = [&](const std::string& field, size_t bytes, size_t maximum) {
    if (bytes > maximum) out.push_back({field, absl::StrCat(bytes, " bytes; at most ", maximum)});
  };
  too_long("request_id", request.request_id().size(), limits.max_request_id_bytes);
  if (request.labels_size() > limits.max_labels) {
    out.push_back({"labels", absl::StrCat(request.labels_size(), " labels; at most ", limits.max_labels)});
  }
  for (const auto& [key, value] : request.labels()) {
    if (key.empty()) out.push_back({"labels", "contains an empty key"});
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
  AddPrefixed("output.", OutputViolations(ToOutputRequest(output)), out);
}

// The limits of the request's recipe, for an ErrorInfo.
std::map<std::string, std::string> LargestShape(const ModelDescription& model, const GenerationRequest& effective) {
  const RecipeDescription* recipe = model.Find(effective.recipe, effective.upsampler);
  if (recipe == nullptr) return {};
  return {{"max_width", absl::StrCat(recipe->max_width)},
          {"max_height", absl::StrCat(recipe->max_height)},
          {"max_frames", absl::StrCat(recipe->max_frames)},
          {"max_tokens", absl::StrCat(recipe->max_tokens)}};
}

// Checks the digests of LoRAs that the model has.
void CheckLoraDigests(const GenerationRequest& asked, const v1::ModelInfo& model, FieldViolations& out) {
  for (size_t i = 0; i < asked.loras.size(); ++i) {
    const LoraInput& lora = asked.loras[i];
    const std::string digest = LoraDigest(model, lora.id);
    if (lora.digest.empty() || digest.empty() || lora.digest == digest) continue;
    out.push_back({absl::StrCat("generation.loras[", i, "].digest"),
                   absl::StrCat("the file of ", lora.id, " is ", digest, "; omit the digest to accept it")});
  }
}

// Pins each LoRA to its present file, whatever file has its id later.
v1::Generation WithLoraDigests(v1::Generation effective, const v1::ModelInfo& model) {
  for (v1::LoraRef& lora : *effective.mutable_loras()) lora.set_digest(LoraDigest(model, lora.id()));
  return effective;
}

}  // namespace

absl::StatusOr<v1::ModelInfo> ChooseModel(const std::vector<v1::ModelInfo>& models, const std::string& asked,
                                          const std::string& default_model, const Absence& absence) {
  const std::string& name = asked.empty() ? default_model : asked;
  const std::string known = absl::StrJoin(
      models, ", ", [](std::string* out, const v1::ModelInfo& model) { absl::StrAppend(out, "\"", model.id(), "\""); });
  if (models.empty()) {
    const absl::Status none = absl::UnavailableError(
        absl::StrCat("no worker group has loaded a model yet", absence.why.empty() ? "" : ": ", absence.why));
    return WithErrorInfo(absence.passes ? WithRetryInfo(none, absl::Seconds(5)) : none, "NO_MODEL");
  }
  if (name.empty()) {
    if (models.size() == 1) return models[0];
    return InvalidField("model", absl::StrCat("must be set, since there are several: ", known));
  }
  for (const v1::ModelInfo& model : models) {
    if (model.id() == name) return model;
  }
  // Truncated, because the client's text may be as long as a message.
  return WithErrorInfo(absl::FailedPreconditionError(
                           absl::StrCat("model: \"", name.substr(0, 100), "\" is not loaded; loaded: ", known)),
                       "MODEL_NOT_LOADED");
}

absl::StatusOr<v1::Generation> ValidateRequest(const v1::CreateVideoRequest& request, const v1::ModelInfo& model,
                                               const RequestLimits& limits, uint64_t (*draw_seed)()) {
  FieldViolations violations = CheckMessage(request);
  if (!violations.empty()) return InvalidFields(violations);  // the checks below rely on these values

  const absl::StatusOr<ModelDescription> description = ToModelDescription(model);
  if (!description.ok()) {
    return WithErrorInfo(WithRetryInfo(absl::UnavailableError(absl::StrCat(std::string(description.status().message()),
                                                                           "; restart its worker to complete it")),
                                       absl::Seconds(5)),
                         "NO_MODEL");
  }
  v1::Generation asked = request.generation();
  if (!asked.has_seed()) asked.set_seed(draw_seed());
  KINORA_RETURN_IF_ERROR(KeepGuidanceDefaults(*description, asked));
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest generation, ToGenerationRequest(asked));
  const Verdict verdict = ValidateRequest(*description, generation);
  CheckEnvelope(request, limits, violations);
  AddPrefixed("generation.", verdict.violations, violations);
  CheckLoraDigests(generation, model, violations);
  if (generation.audio_only && request.output().preview_every_steps() > 0) {
    violations.push_back({"output.preview_every_steps", "audio_only: there is no picture; omit it"});
  }
  if (generation.audio_only && request.output().thumbnail()) {
    violations.push_back({"output.thumbnail", "audio_only: there is no picture; omit it"});
  }
  if (!violations.empty()) {
    if (violations.size() > kMaxViolations) violations.resize(kMaxViolations);
    const absl::Status status = InvalidFields(violations);
    if (!verdict.too_large) return status;
    return WithErrorInfo(status, "SHAPE_TOO_LARGE", LargestShape(*description, verdict.effective));
  }
  if (!verdict.unavailable.empty()) return NotAvailableYet("generation." + verdict.unavailable);
  const std::string unavailable = NotAvailable(ToOutputRequest(request.output()));
  if (!unavailable.empty()) return NotAvailableYet("output." + unavailable);
  return WithLoraDigests(ToGeneration(verdict.effective), model);
}

}  // namespace kinora
