// Frames as PNG: 000000.png, 000001.png, … in a stored ZIP, or in a folder, which is created if necessary. No sound.
#ifndef KINORA_ENGINE_MEDIA_PNG_SINK_H_
#define KINORA_ENGINE_MEDIA_PNG_SINK_H_

#include <memory>
#include <optional>
#include <string>

#include "engine/media/av.h"
#include "engine/media/file_sink.h"
#include "engine/media/zip_writer.h"

namespace kinora {

// 8-bit RGB, tagged sRGB. Deterministic.
class PngEncoder {
 public:
  static absl::StatusOr<std::unique_ptr<PngEncoder>> Create(int64_t width, int64_t height);
  // comment, description: written as iTXt chunks "Comment" and "Description" before the picture, unless empty.
  absl::StatusOr<std::string> Encode(const uint8_t* rgb, std::string_view comment, std::string_view description);

 private:
  AvPtr<AVCodecContext> codec_;
  AvPtr<AVFrame> frame_;
  AvPtr<AVPacket> packet_;
};

class PngSink : public ClipSink {
 public:
  PngSink(std::string path, const FileSinkOptions& options) : options_(options), path_(std::move(path)) {}

  absl::Status Begin(const ClipInfo& info) override;
  absl::Status Frames(int64_t first, const Tensor& rgb8) override;
  absl::Status Audio(const Tensor&) override { return absl::OkStatus(); }
  absl::Status End() override;

 private:
  absl::Status Store(int64_t index, std::string_view png);

  const FileSinkOptions options_;
  const std::string path_;
  ClipInfo info_;
  std::unique_ptr<PngEncoder> encoder_;
  std::optional<ZipWriter> zip_;
  int64_t next_frame_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_PNG_SINK_H_
