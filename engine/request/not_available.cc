#include "engine/request/not_available.h"

#include "engine/base/strings.h"

namespace kinora {
namespace {

template <typename Request>
struct Row {
  const char* field;
  bool (*asked)(const Request&);
};

constexpr Row<GenerationRequest> kGeneration[] = {
    {"conditions", [](const GenerationRequest& r) { return !r.conditions.empty(); }},
    {"loras", [](const GenerationRequest& r) { return !r.loras.empty(); }},
    {"retake", [](const GenerationRequest& r) { return r.retake.has_value(); }},
    {"audio", [](const GenerationRequest& r) { return r.audio.has_value(); }},
    {"audio_only", [](const GenerationRequest& r) { return r.audio_only; }},
    {"upsampler", [](const GenerationRequest& r) { return !r.upsampler.empty(); }},
};
constexpr Recipe kRecipes[] = {Recipe::kTwoStage, Recipe::kDistilledTwoStage, Recipe::kHq};
constexpr Row<OutputRequest> kOutput[] = {
    {"preview_every_steps", [](const OutputRequest& o) { return o.preview_every_steps != 0; }},
};

}  // namespace

bool IsAvailable(Recipe recipe) {
  for (const Recipe missing : kRecipes) {
    if (recipe == missing) return false;
  }
  return true;
}

std::string NotAvailable(const GenerationRequest& request) {
  for (const auto& row : kGeneration) {
    if (row.asked(request)) return row.field;
  }
  return IsAvailable(request.recipe) ? "" : Cat("recipe ", RecipeName(request.recipe));
}

std::string NotAvailable(const OutputRequest& output) {
  for (const auto& row : kOutput) {
    if (row.asked(output)) return row.field;
  }
  return "";
}

}  // namespace kinora
