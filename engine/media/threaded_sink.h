// Passes a clip on to another sink in a thread of its own, so that the next frames are decoded while these are encoded.
//
// The other sink gets the same calls in the same order, one at a time, so its file has the same bytes. Begin and End
// run on the caller's thread. Frames and Audio copy their tensor and return. They block while the copies that wait, and
// the one that is being written, leave no room for theirs (back-pressure).
//
// After an error of the other sink, waiting copies are dropped, and every later call and Failure return the error.
// Destruction drops waiting copies too; it waits only for the call that the other sink is in.
#ifndef KINORA_ENGINE_MEDIA_THREADED_SINK_H_
#define KINORA_ENGINE_MEDIA_THREADED_SINK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/pipeline/clip_sink.h"
#include "engine/tensor/tensor.h"

namespace kinora {

class ThreadedSink : public ClipSink {
 public:
  // Room for copies: as many frames as the decoder finishes at once with the default tiling (tiling.h), but not more
  // than `most_bytes`; 80 frames of 1920 x 1088 are less. A copy that is larger waits until no other is left.
  static constexpr int64_t kMostFrames = 80, kMostBytes = 512 << 20;

  explicit ThreadedSink(std::unique_ptr<ClipSink> sink, int64_t most_bytes = kMostBytes)
      : sink_(std::move(sink)), most_bytes_(most_bytes) {}
  ~ThreadedSink() override;

  absl::Status Begin(const ClipInfo& info) override;
  absl::Status Frames(int64_t first, const Tensor& rgb8) override { return Add(first, rgb8); }
  absl::Status Audio(const Tensor& waveform) override { return Add(kSound, waveform); }
  absl::Status Failure() const override;
  absl::Status End() override;

 private:
  static constexpr int64_t kSound = -1;
  struct Call {
    int64_t first = 0;  // frame, or kSound
    DType dtype{};
    Shape shape{};
    std::unique_ptr<char[]> bytes{};
    Tensor View() const { return Tensor(dtype, shape, bytes.get()); }
  };

  absl::Status Add(int64_t first, const Tensor& value);
  absl::Status Reserve(int64_t bytes);
  bool Next(Call& call);
  absl::Status Pass(const Call& call);
  void Run();
  void Join();

  const std::unique_ptr<ClipSink> sink_;  // used by thread_ while it runs
  const int64_t most_bytes_;
  int64_t room_ = 0;  // bytes
  mutable absl::Mutex mu_;
  std::deque<Call> calls_ ABSL_GUARDED_BY(mu_);  // oldest first
  int64_t held_ ABSL_GUARDED_BY(mu_) = 0;        // bytes of calls_, of the call that runs and of the copy being made
  bool last_ ABSL_GUARDED_BY(mu_) = false;       // no call follows
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // from Begin on
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_THREADED_SINK_H_
