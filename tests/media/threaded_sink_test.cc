#include "engine/media/threaded_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <new>
#include <utility>

#include "absl/synchronization/notification.h"
#include "engine/media/movie_sink.h"
#include "engine/media/png_sink.h"
#include "tests/media/clip_fixtures.h"
#include "tests/testing/part_files.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

constexpr ClipInfo kClip = {.width = 64,
                            .height = 48,
                            .num_frames = 33,
                            .frame_rate = 24,
                            .audio_sample_rate = 48000,
                            .audio_channels = 2,
                            .audio_samples = 66'000};

// A clip of more frames than wait. Frames are 2 x 2, each filled with its index.
constexpr int64_t kManyFrames = 5 * ThreadedSink::kMostFrames, kFrameBytes = 2 * 2 * 3;
constexpr ClipInfo kManyInfo = {.width = 2, .height = 2, .num_frames = kManyFrames, .frame_rate = 24};

struct Notes {
  std::function<absl::Status(int64_t first)> on_frame = [](int64_t) { return absl::OkStatus(); };
  std::atomic<int64_t> frames{0};  // calls of Frames
  std::atomic<bool> ended{false}, destroyed{false};
};

// Calls on_frame in each Frames.
class ScriptedSink : public ClipSink {
 public:
  explicit ScriptedSink(Notes& notes) : notes_(notes) {}
  ~ScriptedSink() override { notes_.destroyed = true; }
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t first, const Tensor& rgb8) override {
    for (int64_t i = 0; i < rgb8.bytes(); ++i) EXPECT_EQ(rgb8.data<uint8_t>()[i], first % 256) << first;
    ++notes_.frames;
    return notes_.on_frame(first);
  }
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override {
    notes_.ended = true;
    return absl::OkStatus();
  }

 private:
  Notes& notes_;
};

std::unique_ptr<ThreadedSink> Scripted(Notes& notes) {
  auto sink = std::make_unique<ThreadedSink>(std::make_unique<ScriptedSink>(notes));
  EXPECT_THAT(sink->Begin(kManyInfo), IsOk());
  return sink;
}

// Passes on frame `index` from memory that is overwritten after the call.
absl::Status PassFrame(ThreadedSink& sink, int64_t index) {
  std::vector<uint8_t> pixels(kFrameBytes, static_cast<uint8_t>(index));
  const absl::Status status = sink.Frames(index, Tensor(DType::kU8, {1, 2, 2, 3}, pixels.data()));
  std::fill(pixels.begin(), pixels.end(), uint8_t{255} - static_cast<uint8_t>(index));
  return status;
}

TEST(ThreadedSinkTest, TheFileHasTheBytesOfTheSinkAlone) {
  TestClip clip = MakeTestClip(kClip);
  for (const Container container : {Container::kMp4, Container::kWebm, Container::kPngFrames}) {
    const FileSinkOptions options{.container = container};
    const auto write = [&](const std::string& name, bool threaded) {
      std::unique_ptr<ClipSink> sink;
      if (container == Container::kPngFrames)
        sink = std::make_unique<PngSink>(TempPath(name), options);
      else
        sink = std::make_unique<MovieSink>(TempPath(name), options);
      if (threaded) sink = std::make_unique<ThreadedSink>(std::move(sink));
      EXPECT_THAT(WriteClip(clip, *sink), IsOk());
      return ReadFile(TempPath(name));
    };
    const std::string alone = write("alone", false);
    EXPECT_EQ(alone, write("threaded", true));
    EXPECT_THAT(WriteClip(clip, TempPath("made"), options), IsOk());
    EXPECT_EQ(alone, ReadFile(TempPath("made")));
  }
}

// The first call of the other sink returns only once the decoder is as far ahead as it may be.
TEST(ThreadedSinkTest, TheDecoderGoesOnWhileFramesAreEncodedButOnlySoFar) {
  std::atomic<int64_t> passed{0};
  Notes notes;
  notes.on_frame = [&passed](int64_t first) {
    const int64_t ahead = std::min(first + ThreadedSink::kMostFrames, kManyFrames);
    for (int64_t now = passed; now < ahead; now = passed) passed.wait(now);
    EXPECT_EQ(passed, ahead) << first;
    return absl::OkStatus();
  };
  const std::unique_ptr<ThreadedSink> sink = Scripted(notes);
  for (int64_t i = 0; i < kManyFrames; ++i) {
    ASSERT_THAT(PassFrame(*sink, i), IsOk());
    ++passed;
    passed.notify_all();
  }
  EXPECT_THAT(sink->End(), IsOk());
  EXPECT_EQ(notes.frames, kManyFrames);
  EXPECT_TRUE(notes.ended);
}

TEST(ThreadedSinkTest, FramesBeyondTheBytesWaitForThoseBefore) {
  for (const int64_t room : {int64_t{0}, kFrameBytes, 3 * kFrameBytes + 1}) {
    const int64_t most = std::max<int64_t>(1, room / kFrameBytes);
    Notes notes;
    ThreadedSink sink(std::make_unique<ScriptedSink>(notes), room);
    ASSERT_THAT(sink.Begin(kManyInfo), IsOk());
    for (int64_t i = 0; i < kManyFrames; ++i) {
      ASSERT_THAT(PassFrame(sink, i), IsOk());
      EXPECT_GE(notes.frames, i + 1 - most);
    }
    EXPECT_THAT(sink.End(), IsOk());
  }
}

// A decoder that waits for room gets the error too, and what waits is dropped.
TEST(ThreadedSinkTest, AnErrorOfTheOtherSinkEndsTheClip) {
  const absl::Status full = absl::ResourceExhaustedError("writing clip.mp4: No space left on device");
  absl::Notification filled;
  Notes notes;
  notes.on_frame = [&](int64_t) {
    filled.WaitForNotification();
    return full;
  };
  const std::unique_ptr<ThreadedSink> sink = Scripted(notes);
  EXPECT_THAT(sink->Failure(), IsOk());
  for (int64_t i = 0; i < ThreadedSink::kMostFrames; ++i) ASSERT_THAT(PassFrame(*sink, i), IsOk());
  filled.Notify();
  EXPECT_EQ(PassFrame(*sink, ThreadedSink::kMostFrames), full);  // had no room
  EXPECT_EQ(sink->Failure(), full);
  EXPECT_EQ(PassFrame(*sink, ThreadedSink::kMostFrames), full);
  EXPECT_EQ(sink->End(), full);
  EXPECT_EQ(notes.frames, 1);
  EXPECT_FALSE(notes.ended);
}

TEST(ThreadedSinkTest, AnErrorOfTheLastFrameIsEndsError) {
  Notes notes;
  notes.on_frame = [](int64_t first) { return first == 2 ? absl::InternalError("frame 2") : absl::OkStatus(); };
  const std::unique_ptr<ThreadedSink> sink = Scripted(notes);
  for (int64_t i = 0; i < 3; ++i) ASSERT_THAT(PassFrame(*sink, i), IsOk());
  EXPECT_EQ(sink->End(), absl::InternalError("frame 2"));
  EXPECT_FALSE(notes.ended);
}

TEST(ThreadedSinkTest, LackOfMemoryIsAnErrorOfTheClip) {
  Notes notes;
  notes.on_frame = [](int64_t) -> absl::Status { throw std::bad_alloc(); };
  const std::unique_ptr<ThreadedSink> sink = Scripted(notes);
  ASSERT_THAT(PassFrame(*sink, 0), IsOk());
  EXPECT_THAT(sink->End(), StatusIs(absl::StatusCode::kResourceExhausted, testing::HasSubstr("out of memory")));
}

// As after a cancellation: frames wait, and one is being encoded.
TEST(ThreadedSinkTest, DestructionDropsWhatWaits) {
  absl::Notification begun, leave;
  Notes notes;
  notes.on_frame = [&](int64_t) {
    if (!begun.HasBeenNotified()) begun.Notify();
    leave.WaitForNotification();
    return absl::OkStatus();
  };
  std::unique_ptr<ThreadedSink> sink = Scripted(notes);
  for (int64_t i = 0; i < ThreadedSink::kMostFrames; ++i) ASSERT_THAT(PassFrame(*sink, i), IsOk());
  begun.WaitForNotification();
  std::thread destroyer([&sink] { sink.reset(); });
  leave.Notify();
  destroyer.join();
  EXPECT_TRUE(notes.destroyed);
  EXPECT_FALSE(notes.ended);
}

TEST(ThreadedSinkTest, AClipThatBreaksOffLeavesNoFile) {
  TestClip clip = MakeTestClip(kClip);
  const std::string path = TempPath("broken_off.mp4");
  auto sink = MakeFileSink(path, {});
  ASSERT_THAT(sink->Begin(clip.info), IsOk());
  for (int64_t f = 0; f < 24; f += 8) ASSERT_THAT(sink->Frames(f, clip.FrameTensor(f, f + 8)), IsOk());
  EXPECT_THAT(PartFiles(path), testing::SizeIs(1));
  sink.reset();
  EXPECT_THAT(PartFiles(path), testing::IsEmpty());
}

TEST(ThreadedSinkTest, ASinkThatDidNotBeginHasNoThread) {
  Notes notes;
  { const ThreadedSink sink(std::make_unique<ScriptedSink>(notes)); }
  EXPECT_TRUE(notes.destroyed);
  EXPECT_EQ(MakeFileSink(TempPath("odd.mp4"), {})->Begin({.width = 95, .height = 64, .num_frames = 1}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kinora
