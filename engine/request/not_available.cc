#include "engine/request/not_available.h"

#include <array>

namespace kinora {
namespace {

template <typename Request>
struct Row {
  const char* field;
  bool (*asked)(const Request&);
};

constexpr std::array<Row<GenerationRequest>, 0> kGeneration{};
constexpr std::array<Row<OutputRequest>, 0> kOutput{};

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
