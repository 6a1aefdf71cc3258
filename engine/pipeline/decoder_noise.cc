#include "engine/pipeline/decoder_noise.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/noise_draws.h"

namespace kinora {

DecoderNoise::DecoderNoise(Exec& exec, NoiseSource& source, const GivenNoise& given, std::vector<Shape> draws)
    : source_(source), given_(given), draws_(std::move(draws)) {
  int64_t largest = 0;
  for (const Shape& draw : draws_) largest = std::max(largest, draw.elements());
  if (largest > 0) memory_ = exec.host.Alloc(DType::kF32, {largest});
}

DecoderNoise::~DecoderNoise() { EndAhead(); }

absl::Span<float> DecoderNoise::Room(int64_t draw) const {
  return {memory_.data<float>(), static_cast<size_t>(draws_[draw].elements())};
}

void DecoderNoise::DrawAhead(int64_t draw) {
  KINORA_CHECK(!ahead_.has_value() && next_ == 0);
  if (memory_.raw() == nullptr || draw >= draws()) return;
  ahead_ = draw;
  rest_ = Room(draw);
  thread_ = std::thread([this, draw] {
    for (int64_t i = 0; i < draw; ++i) source_.Skip(draws_[i].elements());
    while (!rest_.empty() && !enough_) source_.TakePart(rest_)();
  });
}

void DecoderNoise::EndAhead() {
  enough_ = true;
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<HostNoise> DecoderNoise::Take(Exec& exec, bool wanted) {
  EndAhead();
  const int64_t draw = next_++;
  KINORA_CHECK(draw < draws());
  const Shape& shape = draws_[draw];
  const std::string name = DecoderNoiseName(draw, draws());
  const HostArray* const given = given_.Find(name);
  if (given != nullptr) {
    KINORA_RETURN_IF_ERROR(CheckGivenShape(name, *given, {1, shape[0], shape[1], shape[2], shape[3]}));
  }
  if (memory_.raw() == nullptr) return HostNoise{};
  if (ahead_.has_value() && draw < *ahead_) {  // its bits are used up
    KINORA_CHECK(!wanted) << "draw " << *ahead_ << " was made ahead of draw " << draw;
    return HostNoise{};
  }
  if (draw != ahead_) rest_ = Room(draw);
  if (!wanted || given != nullptr) {
    if (!rest_.empty()) source_.Skip(static_cast<int64_t>(rest_.size()));
    return wanted ? HostNoise{.values = given->values} : HostNoise{};
  }
  std::vector<std::function<void()>> parts;
  while (!rest_.empty()) parts.push_back(source_.TakePart(rest_));
  exec.backend.RunOnHost(static_cast<int64_t>(parts.size()), [&](int64_t part) { parts[part](); });
  return HostNoise{.values = Room(draw), .pinned = true};
}

}  // namespace kinora
