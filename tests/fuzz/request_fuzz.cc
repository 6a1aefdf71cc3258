// A request as JSON (kinora-render --request) or as wire bytes is parsed, validated for several models, converted and
// converted back. An accepted request must convert to the same request again, and no model may accept what the rules
// for any model reject.
#include <cstdint>
#include <string>

#include "engine/base/check.h"
#include "engine/request/request_rules.h"
#include "server/request/request_conversion.h"
#include "tests/request/descriptions.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  static const std::vector<ModelDescription> models = Descriptions();
  v1::Generation generation;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!ParseJson("--request", text, generation).ok()) {
    generation.Clear();
    if (!generation.ParseFromString(text)) return 0;
  }
  if (!generation.has_seed()) generation.set_seed(7);
  const absl::StatusOr<GenerationRequest> request = ToGenerationRequest(generation);
  if (!request.ok()) return 0;
  const bool checked = CheckGeneration(generation).ok();
  for (const ModelDescription& model : models) {
    const absl::StatusOr<GenerationRequest> resolved = ResolveRequest(model, *request);
    KINORA_CHECK(checked || !resolved.ok()) << "a model accepts what no model could";
    KINORA_CHECK(resolved.ok() || absl::IsInvalidArgument(resolved.status()) ||
                 absl::IsUnimplemented(resolved.status()))
        << resolved.status().ToString();
    if (!resolved.ok()) continue;
    const v1::Generation back = ToGeneration(*resolved);
    const absl::StatusOr<GenerationRequest> again = ToGenerationRequest(back);
    KINORA_CHECK(again.ok() && *again == *resolved) << back.ShortDebugString();
    v1::Generation parameters;
    KINORA_CHECK(ParseJson("parameters", ParametersJson(back), parameters).ok());
    KINORA_CHECK(parameters.prompt().empty());
  }
  return 0;
}
