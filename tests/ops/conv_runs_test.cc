// The runs of frames in which convolutions are given to cuDNN: what each reads and writes, and how large it is.
#include "engine/ops/cuda/conv_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kinora {
namespace {

int64_t Outputs(const ConvAxis& axis, int64_t frames) {
  return (frames + axis.before + axis.after - axis.dilation * (axis.kernel - 1) - 1) / axis.stride + 1;
}

// Checks that the runs write every frame once, that each tap reads the frame that it reads in the whole convolution,
// and that no run exceeds the limits. Frames outside of x are padding: only cuDNN's zeros or a copy may supply them.
void ExpectTheWhole(const ConvAxis& time, int64_t frames, CopiedFrames copied, const FrameLimits& limits,
                    const FrameRuns& runs) {
  int64_t next = 0;
  for (const FrameRun& run : runs) {
    EXPECT_EQ(run.begin, next);
    next = run.end;
    ConvAxis inside = time;
    inside.before = run.before;
    inside.after = run.after;
    EXPECT_EQ(Outputs(inside, run.frames), run.end - run.begin);
    EXPECT_LE(run.frames, run.copied ? std::min(limits.x, limits.copied) : limits.x);
    EXPECT_LE(run.end - run.begin, limits.out);
    EXPECT_TRUE(run.copied || (run.from >= 0 && run.from + run.frames <= frames));
    EXPECT_TRUE(copied == CopiedFrames::kNone || (run.before == 0 && run.after == 0));
    for (int64_t output = run.begin; output < run.end; ++output) {
      for (int tap = 0; tap < time.kernel; ++tap) {
        const int64_t whole = output * time.stride - time.before + tap * time.dilation;
        const int64_t read = (output - run.begin) * time.stride - run.before + tap * time.dilation;
        const bool zeros = read < 0 || read >= run.frames;
        const bool padded = copied == CopiedFrames::kNone && (whole < 0 || whole >= frames);
        EXPECT_EQ(zeros, padded) << output << " " << tap;
        EXPECT_TRUE(zeros || run.from + read == whole) << output << " " << tap;
      }
    }
  }
  EXPECT_EQ(next, Outputs(time, frames));
}

TEST(ConvRuns, ReadAndWriteWhatTheWholeConvolutionDoes) {
  const std::vector<ConvAxis> axes = {{.kernel = 3, .before = 2},
                                      {.kernel = 3, .before = 1, .after = 1},
                                      {.kernel = 3},
                                      {.kernel = 1},
                                      {.kernel = 3, .stride = 2, .before = 2},
                                      {.kernel = 2, .stride = 3, .after = 1},
                                      {.kernel = 4, .dilation = 3, .before = 5, .after = 4}};
  for (const ConvAxis& time : axes) {
    for (const int64_t frames : {10, 11, 12, 40}) {
      for (const CopiedFrames copied : {CopiedFrames::kNone, CopiedFrames::kAtTheEnds, CopiedFrames::kAll}) {
        for (const FrameLimits& limits :
             {FrameLimits{.x = 1000, .out = 1000, .copied = 1000}, FrameLimits{.x = 12, .out = 1000, .copied = 11},
              FrameLimits{.x = 1000, .out = 3, .copied = 11}}) {
          const FrameRuns runs = RunsOf(time, frames, Outputs(time, frames), copied, limits);
          SCOPED_TRACE("kernel " + std::to_string(time.kernel) + ", stride " + std::to_string(time.stride) + ", " +
                       std::to_string(frames) + " frames, limits " + std::to_string(limits.x) + " and " +
                       std::to_string(limits.out));
          ASSERT_FALSE(runs.empty());
          ExpectTheWhole(time, frames, copied, limits, runs);
        }
      }
    }
  }
}

FrameLimits LimitsOf(int64_t pixels, int64_t in, int64_t out) {
  return {.x = kMostConvElements / (pixels * in), .out = kMostConvElements / (pixels * out), .copied = 64};
}

// 241 frames of 1920 x 1088 in the decoder's last block, undivided, have 4 G elements.
TEST(ConvRuns, AreCutWhereAnOperandHasTooManyElementsFor32Bits) {
  constexpr int64_t kPixels = 480 * 272, kFrames = 241, kChannels = 128;
  const ConvAxis zeros{.kernel = 3, .before = 1, .after = 1}, causal{.kernel = 3, .before = 2};
  ASSERT_GT(kPixels * kFrames * kChannels, kMostConvElements);
  for (const CopiedFrames copied : {CopiedFrames::kNone, CopiedFrames::kAtTheEnds}) {
    for (const int64_t out : {kChannels, 4 * kChannels}) {
      const FrameLimits limits = LimitsOf(kPixels, kChannels, out);
      const ConvAxis& time = copied == CopiedFrames::kNone ? zeros : causal;
      const FrameRuns runs = RunsOf(time, kFrames, kFrames, copied, limits);
      ASSERT_GT(runs.size(), 1u);
      ExpectTheWhole(time, kFrames, copied, limits, runs);
      for (const FrameRun& run : runs) {
        EXPECT_LT(run.frames * kPixels * kChannels, int64_t{1} << 31);
        EXPECT_LT((run.end - run.begin) * kPixels * out, int64_t{1} << 31);
      }
    }
  }
}

TEST(ConvRuns, OfASmallConvolutionAreOneWithItsOwnPadding) {
  const ConvAxis time{.kernel = 3, .stride = 2, .before = 2, .after = 3};
  const FrameRuns runs = RunsOf(time, 9, Outputs(time, 9), CopiedFrames::kNone, LimitsOf(100, 64, 64));
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].frames, 9);
  EXPECT_EQ(runs[0].before, 2);
  EXPECT_EQ(runs[0].after, 3);
}

TEST(ConvRuns, AreNoneWhereOneFrameOfTheResultIsTooLarge) {
  const ConvAxis time{.kernel = 3, .before = 1, .after = 1};
  for (const CopiedFrames copied : {CopiedFrames::kNone, CopiedFrames::kAtTheEnds, CopiedFrames::kAll}) {
    EXPECT_TRUE(RunsOf(time, 9, 9, copied, {.x = 2, .out = 9, .copied = 9}).empty());
    EXPECT_TRUE(RunsOf(time, 9, 9, copied, {.x = 9, .out = 0, .copied = 9}).empty());
  }
  EXPECT_TRUE(RunsOf(time, 9, 9, CopiedFrames::kAll, {.x = 9, .out = 9, .copied = 2}).empty());
}

}  // namespace
}  // namespace kinora
