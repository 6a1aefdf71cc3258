#include "engine/diffusion/step_noise.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

namespace kinora {
namespace {

void Normalise(std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  for (int twice = 0; twice < 2; ++twice) {  // like the reference: over the tensor, then over its last two dimensions
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    const double deviation = std::sqrt(squares / (count - 1));
    for (double& value : values) value = (value - mean) / deviation;
  }
}

// Replaces the parts of out that draw `index` of `of` gives. draws: the number of draws in `of`.
void ReplaceGiven(const GivenStepNoise::Draws& of, int64_t draws, int64_t index, absl::Span<float> out) {
  const auto replace = [&](const std::vector<float>& all, bool at_the_end) {
    if (all.empty()) return;
    const size_t each = all.size() / draws;
    const auto first = all.begin() + static_cast<int64_t>(index * each);
    std::copy(first, first + static_cast<int64_t>(each), at_the_end ? out.end() - each : out.begin());
  };
  replace(of.grid, /*at_the_end=*/false);
  replace(of.appended, /*at_the_end=*/true);
}

}  // namespace

std::function<void()> AncestralNoise::Take(int64_t evaluation, const GivenStepNoise& given, absl::Span<float> out) {
  return [=, &given, draw = source_.Take(out)] {
    draw();
    ReplaceGiven(given.whole, given.draws, evaluation, out);
  };
}

std::function<void()> Res2sNoise::Take(int64_t evaluation, const GivenStepNoise& given, absl::Span<float> out) {
  const auto drawn = std::make_shared<std::vector<double>>(out.size());
  std::function<void()> draw = (evaluation % 2 == 0 ? half_way_ : whole_).Take(absl::MakeSpan(*drawn));
  return [=, &given, draw = std::move(draw)] {
    draw();
    Normalise(*drawn);
    for (size_t i = 0; i < drawn->size(); ++i) out[i] = static_cast<float>((*drawn)[i]);
    ReplaceGiven(evaluation % 2 == 0 ? given.half_way : given.whole, given.draws, evaluation / 2, out);
  };
}

void FillStepNoise(Exec& exec, StepNoise& noise, int64_t draws, absl::Span<const StepNoiseTable> tables) {
  constexpr int64_t kAtOnce = 8;  // evaluations; a value takes 12 bytes on the host
  struct Row {
    Tensor to;
    std::vector<float> values;
    std::function<void()> compute;
  };
  for (int64_t first = 0; first < draws; first += kAtOnce) {
    std::vector<Row> rows;
    rows.reserve(kAtOnce * tables.size());  // tasks hold addresses of rows' values
    for (int64_t i = first; i < std::min(first + kAtOnce, draws); ++i) {
      for (const StepNoiseTable& table : tables) {
        if (!table.rows.defined()) continue;
        Row& row = rows.emplace_back(Row{.to = table.rows.Rows(i, i + 1), .values = {}, .compute = {}});
        if (exec.ops.dry()) continue;
        row.values.resize(row.to.elements());
        row.compute = noise.Take(i, *table.given, absl::MakeSpan(row.values));
      }
    }
    if (!exec.ops.dry()) {
      exec.backend.RunOnHost(static_cast<int64_t>(rows.size()), [&](int64_t i) { rows[i].compute(); });
    }
    for (const Row& row : rows) exec.ops.stream().CopyFromHost(row.values.data(), row.to);
  }
}

}  // namespace kinora
