// The sound as 16-bit PCM in a RIFF WAVE file; the picture is ignored.
#ifndef KINORA_ENGINE_MEDIA_WAV_SINK_H_
#define KINORA_ENGINE_MEDIA_WAV_SINK_H_

#include <string>

#include "engine/media/file_sink.h"

namespace kinora {

class WavSink : public ClipSink {
 public:
  WavSink(std::string path, const FileSinkOptions& options) : options_(options), path_(std::move(path)) {}

  absl::Status Begin(const ClipInfo& info) override;  // InvalidArgument if the clip has no sound
  absl::Status Frames(int64_t, const Tensor&) override { return absl::OkStatus(); }
  absl::Status Audio(const Tensor& waveform) override;
  absl::Status End() override;

 private:
  const FileSinkOptions options_;
  const std::string path_;
  ClipInfo info_;
  std::string bytes_;  // the whole file, which End writes
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_WAV_SINK_H_
