#include "engine/request/upscaling.h"

namespace kinora {
namespace {

constexpr Upscaling kAll[] = {{.name = ""},
                              {.name = "x2", .space_up = 2},
                              {.name = "x1.5", .space_up = 3, .space_down = 2},
                              {.name = "temporal_x2", .time = 2}};

}  // namespace

const Upscaling* FindUpscaling(std::string_view name) {
  for (const Upscaling& upscaling : kAll) {
    if (upscaling.name == name) return &upscaling;
  }
  return nullptr;
}

}  // namespace kinora
