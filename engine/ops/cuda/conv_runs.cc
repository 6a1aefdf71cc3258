#include "engine/ops/cuda/conv_runs.h"

#include <algorithm>

namespace kinora {
namespace {

// Returns the distance from the first to the last frame that one output reads.
int64_t Span(const ConvAxis& axis) { return int64_t{axis.dilation} * (axis.kernel - 1); }

// The most outputs that read at most `frames` frames; 0 or less if one output reads more.
int64_t OutputsOf(int64_t frames, const ConvAxis& time) {
  const int64_t fit = frames - Span(time) - 1;
  return fit < 0 ? 0 : fit / time.stride + 1;
}

// The run of the frames [begin, end), which reads x as if it had no ends.
FrameRun RunOf(int64_t begin, int64_t end, const ConvAxis& time) {
  return {.begin = begin,
          .end = end,
          .from = begin * time.stride - time.before,
          .frames = (end - begin - 1) * time.stride + Span(time) + 1};
}

// Calls add(begin, end) for equal runs of at most `most` frames of [begin, end).
template <typename Add>
void ForRuns(int64_t begin, int64_t end, int64_t most, const Add& add) {
  if (begin >= end) return;
  const int64_t count = (end - begin + most - 1) / most, size = (end - begin + count - 1) / count;
  for (int64_t at = begin; at < end; at += size) add(at, std::min(end, at + size));
}

// Runs of frames that cuDNN pads. A run that reads only padding has no frames, which cuDNN rejects.
FrameRuns PaddedByCudnn(const ConvAxis& time, int64_t frames, int64_t outputs, int64_t most,
                        const FrameLimits& limits) {
  if (frames <= limits.x && outputs <= limits.out) {
    return {{.begin = 0, .end = outputs, .from = 0, .frames = frames, .before = time.before, .after = time.after}};
  }
  FrameRuns runs;
  ForRuns(0, outputs, most, [&](int64_t begin, int64_t end) {
    FrameRun run = RunOf(begin, end, time);
    run.before = static_cast<int>(std::max<int64_t>(0, -run.from));
    run.after = static_cast<int>(std::max<int64_t>(0, run.from + run.frames - frames));
    run.from += run.before;
    run.frames -= run.before + run.after;
    runs.push_back(run);
  });
  const bool reads = std::all_of(runs.begin(), runs.end(), [](const FrameRun& run) { return run.frames > 0; });
  return reads ? runs : FrameRuns();
}

}  // namespace

FrameRuns RunsOf(const ConvAxis& time, int64_t frames, int64_t outputs, CopiedFrames copied,
                 const FrameLimits& limits) {
  const int64_t most = std::min(limits.out, OutputsOf(limits.x, time));
  const int64_t most_copied = std::min(limits.out, OutputsOf(std::min(limits.x, limits.copied), time));
  if ((copied == CopiedFrames::kNone ? most : most_copied) < 1) return {};
  if (copied == CopiedFrames::kNone) return PaddedByCudnn(time, frames, outputs, most, limits);
  FrameRuns runs;
  const auto copy = [&](int64_t begin, int64_t end) {
    FrameRun run = RunOf(begin, end, time);
    run.copied = true;
    runs.push_back(run);
  };
  if (copied == CopiedFrames::kAll) {
    ForRuns(0, outputs, most_copied, copy);
    return runs;
  }
  // front: the first result that reads no frame before x; back: the first one after it that reads a frame past x.
  const int64_t front = std::min<int64_t>(outputs, (time.before + time.stride - 1) / time.stride);
  const int64_t last = frames - 1 - Span(time) + time.before;
  const int64_t back = std::clamp<int64_t>(last < 0 ? 0 : last / time.stride + 1, front, outputs);
  ForRuns(0, front, most_copied, copy);
  ForRuns(front, back, most, [&](int64_t begin, int64_t end) { runs.push_back(RunOf(begin, end, time)); });
  ForRuns(back, outputs, most_copied, copy);
  return runs;
}

}  // namespace kinora
