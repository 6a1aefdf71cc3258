// A request as JSON (kinora-render --request) or as bytes from the wire: parsed, checked, converted and back. What
// passes the checks must convert, and the way back must pass them again.
#include <cstdint>
#include <string>

#include "engine/base/check.h"
#include "server/common/request_conversion.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kinora::v1::Generation generation;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!kinora::ParseJson("--request", text, generation).ok()) {
    generation.Clear();
    if (!generation.ParseFromString(text)) return 0;
  }
  if (!generation.has_seed()) generation.set_seed(7);
  const bool checked = kinora::CheckGeneration(generation).ok();
  const auto request = kinora::ToGenerationRequest(generation);
  KINORA_CHECK(checked || !request.ok()) << "converted what the checks refuse";
  KINORA_CHECK(request.ok() || !checked || absl::IsUnimplemented(request.status())) << request.status().ToString();
  if (!request.ok()) return 0;
  const kinora::v1::Generation back = kinora::ToGeneration(*request, generation);
  KINORA_CHECK(kinora::CheckGeneration(back).ok()) << back.ShortDebugString();
  kinora::v1::Generation parameters;
  KINORA_CHECK(kinora::ParseJson("parameters", kinora::ParametersJson(back), parameters).ok());
  KINORA_CHECK(parameters.prompt().empty());
  return 0;
}
