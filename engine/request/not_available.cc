#include "engine/request/not_available.h"

#include <algorithm>

namespace kinora {
namespace {

template <typename Request>
struct Row {
  const char* field;
  bool (*asked)(const Request&);
};

// What a server's clients show is not read yet.
bool AnyUnread(const GenerationRequest& r) {
  return std::any_of(r.conditions.begin(), r.conditions.end(), [](const auto& c) { return c.pixels == nullptr; });
}

constexpr Row<GenerationRequest> kGeneration[] = {
    {"conditions", AnyUnread},
    {"retake", [](const GenerationRequest& r) { return r.retake.has_value() && r.retake->clip == nullptr; }},
};

constexpr Row<OutputRequest> kOutput[] = {
    {"preview_every_steps", [](const OutputRequest& o) { return o.preview_every_steps != 0; }},
};

}  // namespace

std::string NotAvailable(const GenerationRequest& request) {
  for (const auto& row : kGeneration) {
    if (row.asked(request)) return row.field;
  }
  return "";
}

std::string NotAvailable(const OutputRequest& output) {
  for (const auto& row : kOutput) {
    if (row.asked(output)) return row.field;
  }
  return "";
}

}  // namespace kinora
