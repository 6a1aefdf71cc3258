// Processes the wire bytes of a CreateVideoRequest as the frontend does before it stores a job: parse, check, validate
// against a model, fingerprint. The first byte selects the model. An admitted request must resolve to the same request
// on the worker, and admitting it again must not change it.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/request/request_rules.h"
#include "server/frontend/api/message_check.h"
#include "server/frontend/api/request_validation.h"
#include "server/frontend/jobs/job_record.h"
#include "server/request/model_conversion.h"
#include "server/request/request_conversion.h"
#include "tests/request/descriptions.h"

namespace kinora {
namespace {

uint64_t Seven() { return 7; }

// Descriptions as workers send them. The last is an older build's, which admits nothing.
std::vector<v1::ModelInfo> Models() {
  std::vector<v1::ModelInfo> models;
  for (const ModelDescription& model : Descriptions()) {
    models.push_back(ToModelInfo(model, absl::StrCat("m", models.size())));
  }
  models.push_back(models[0]);
  models.back().clear_blocks();
  return models;
}

void CheckAdmitted(const v1::CreateVideoRequest& request, const v1::Generation& effective, const v1::ModelInfo& model) {
  KINORA_CHECK(effective.has_seed() && std::isfinite(effective.frame_rate()));
  KINORA_CHECK((effective.width() > 0) == !effective.audio_only()) << effective.ShortDebugString();
  const auto converted = ToGenerationRequest(effective);
  KINORA_CHECK(converted.ok()) << converted.status().ToString() << " " << effective.ShortDebugString();
  const auto resolved = ResolveRequest(*ToModelDescription(model), *converted);
  KINORA_CHECK(resolved.ok() && *resolved == *converted) << resolved.status().ToString();
  v1::CreateVideoRequest again = request;
  *again.mutable_generation() = effective;
  const auto same = ValidateRequest(again, model, {}, &Seven);
  KINORA_CHECK(same.ok()) << same.status().ToString() << " " << effective.ShortDebugString();
  KINORA_CHECK(same->SerializeAsString() == effective.SerializeAsString()) << same->ShortDebugString();
  again.set_request_id("another");
  KINORA_CHECK(Fingerprint(again) == Fingerprint([&] {
                 v1::CreateVideoRequest other = request;
                 *other.mutable_generation() = effective;
                 return other;
               }()));
}

}  // namespace
}  // namespace kinora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  static const std::vector<v1::ModelInfo> models = Models();
  if (size < 1) return 0;
  v1::CreateVideoRequest request;
  if (!ParseMessage(std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1), request).ok()) return 0;
  KINORA_CHECK(CheckMessage(request).size() <= 20);
  (void)ChooseModel({models[0], models[1]}, request.model(), "");
  const v1::ModelInfo& model = models[data[0] % models.size()];
  const auto effective = ValidateRequest(request, model, {}, &Seven);
  if (effective.ok()) CheckAdmitted(request, *effective, model);
  KINORA_CHECK(effective.ok() || effective.status().code() != absl::StatusCode::kInternal);
  return 0;
}
