#include "engine/pipeline/decoder_noise.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/pipeline/noise_draws.h"

namespace kinora {

DecoderNoise::DecoderNoise(Exec& exec, NoiseSource& source, const GivenNoise& given, std::vector<Shape> draws)
    : rank_(exec.mesh.world().rank()), given_(given), draws_(std::move(draws)), source_(source) {
  int64_t largest = 0;
  for (const Shape& draw : draws_) largest = std::max(largest, draw.elements());
  if (largest > 0) memory_ = exec.host.Alloc(DType::kF32, {largest});
}

absl::Span<float> DecoderNoise::Room(int64_t draw) const {
  return {memory_.data<float>(), static_cast<size_t>(draws_[draw].elements())};
}

const HostArray* DecoderNoise::Given(int64_t draw) const { return given_.Find(DecoderNoiseName(draw, draws())); }

bool DecoderNoise::Advance(int64_t draw) {
  ahead_ = draw;
  if (begun_ <= draw) {
    const int64_t begins = begun_++;
    rest_ = Room(begins);
    if (begins < draw || Given(draw) != nullptr) {
      source_.Skip(static_cast<int64_t>(rest_.size()));
      rest_ = {};
      return begins < draw;
    }
  }
  if (!rest_.empty()) source_.TakePart(rest_)();
  return !rest_.empty();
}

void DecoderNoise::DrawAhead(int64_t draw) {
  KINORA_CHECK(!thread_.joinable() && next_ == 0 && draw < draws());
  if (memory_.raw() == nullptr) return;
  thread_ = std::thread([this, draw] {
    SetTraceRank(rank_, "noise");
    const TraceSpan span("noise", "draw_ahead");
    while (!enough_ && Advance(draw)) {
    }
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
  const HostArray* const given = Given(draw);
  if (given != nullptr) {
    const Shape& shape = draws_[draw];
    KINORA_RETURN_IF_ERROR(
        CheckGivenShape(DecoderNoiseName(draw, draws()), *given, {1, shape[0], shape[1], shape[2], shape[3]}));
  }
  if (memory_.raw() == nullptr) return HostNoise{};
  KINORA_CHECK(!wanted || draw >= ahead_) << "draw " << ahead_ << " was advanced, and draw " << draw << " is wanted";
  if (draw + 1 < begun_) return HostNoise{};
  if (begun_ <= draw) {
    begun_ = draw + 1;
    rest_ = Room(draw);
  }
  if (!wanted || given != nullptr) {
    if (!rest_.empty()) source_.Skip(static_cast<int64_t>(rest_.size()));
    rest_ = {};
    return wanted ? HostNoise{.values = given->values} : HostNoise{};
  }
  std::vector<std::function<void()>> parts;
  while (!rest_.empty()) parts.push_back(source_.TakePart(rest_));
  exec.backend.RunOnHost(static_cast<int64_t>(parts.size()), [&](int64_t part) { parts[part](); });
  return HostNoise{.values = Room(draw), .pinned = !exec.backend.traits().unified_memory};
}

}  // namespace kinora
