// Sinks of kinora-render: one that forwards to several, and the one of --dump.
#ifndef KINORA_SERVER_RENDER_DUMP_SINK_H_
#define KINORA_SERVER_RENDER_DUMP_SINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/pipeline/clip_sink.h"
#include "engine/pipeline/run_observer.h"
#include "engine/weights/safetensors.h"

namespace kinora {

// Writes one safetensors file: every intermediate under its name, `frames` float32 [F, H, W, 3] in 0..1 before
// rounding, and `waveform` float32 [channels, samples]. Frames are written as they arrive. The file appears under its
// name when the clip is complete.
class DumpSink : public ClipSink, public RunObserver {
 public:
  explicit DumpSink(std::string path) : path_(std::move(path)) {}

  absl::Status Begin(const ClipInfo& info) override;
  absl::Status Frames(int64_t, const Tensor&) override { return absl::OkStatus(); }  // FloatFrames gets them unrounded
  absl::Status Audio(const Tensor& waveform) override;
  absl::Status End() override { return writer_.Close(); }
  bool WantsIntermediates() const override { return true; }
  absl::Status FloatFrames(int64_t first, const Tensor& rgb) override;
  absl::Status Intermediate(std::string_view name, const Tensor& value) override;

 private:
  struct Copy {
    std::string name;
    DType dtype;
    Shape shape;
    std::string bytes;
  };
  const std::string path_;
  std::vector<Copy> intermediates_;  // until Begin, which lays out the file
  bool begun_ = false;
  SafetensorsWriter writer_;
};

// Calls every sink in order; the first error ends the call.
class TeeSink : public ClipSink {
 public:
  void Add(std::unique_ptr<ClipSink> sink) { sinks_.push_back(std::move(sink)); }

  absl::Status Begin(const ClipInfo& info) override;
  absl::Status Frames(int64_t first, const Tensor& rgb8) override;
  absl::Status Audio(const Tensor& waveform) override;
  absl::Status Failure() const override;
  absl::Status End() override;

 private:
  std::vector<std::unique_ptr<ClipSink>> sinks_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_RENDER_DUMP_SINK_H_
