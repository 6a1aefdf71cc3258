#include "server/render/dump_sink.h"

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace kinora {

absl::Status DumpSink::Intermediate(std::string_view name, const Tensor& value) {
  KINORA_CHECK(value.contiguous()) << name;
  KINORA_CHECK(!begun_) << name << " came after Begin, when the file was laid out";
  intermediates_.push_back({std::string(name), value.dtype(), value.shape(),
                            std::string(static_cast<const char*>(value.raw()), static_cast<size_t>(value.bytes()))});
  return absl::OkStatus();
}

absl::Status DumpSink::Begin(const ClipInfo& info) {
  begun_ = true;
  for (const Copy& copy : intermediates_) writer_.Declare(copy.name, copy.dtype, copy.shape);
  if (info.width > 0) writer_.Declare("frames", DType::kF32, {info.num_frames, info.height, info.width, 3});
  if (info.audio_channels > 0) writer_.Declare("waveform", DType::kF32, {info.audio_channels, info.audio_samples});
  KINORA_RETURN_IF_ERROR(writer_.Open(path_));
  for (const Copy& copy : std::exchange(intermediates_, {})) {
    KINORA_RETURN_IF_ERROR(writer_.Append(copy.name, copy.bytes.data(), static_cast<int64_t>(copy.bytes.size())));
  }
  return absl::OkStatus();
}

absl::Status DumpSink::FloatFrames(int64_t, const Tensor& rgb) {
  return writer_.Append("frames", rgb.data<float>(), rgb.bytes());
}

absl::Status DumpSink::Audio(const Tensor& waveform) {
  return writer_.Append("waveform", waveform.data<float>(), waveform.bytes());
}

absl::Status TeeSink::Begin(const ClipInfo& info) {
  for (const auto& sink : sinks_) KINORA_RETURN_IF_ERROR(sink->Begin(info));
  return absl::OkStatus();
}

absl::Status TeeSink::Frames(int64_t first, const Tensor& rgb8) {
  for (const auto& sink : sinks_) KINORA_RETURN_IF_ERROR(sink->Frames(first, rgb8));
  return absl::OkStatus();
}

absl::Status TeeSink::Audio(const Tensor& waveform) {
  for (const auto& sink : sinks_) KINORA_RETURN_IF_ERROR(sink->Audio(waveform));
  return absl::OkStatus();
}

absl::Status TeeSink::Failure() const {
  for (const auto& sink : sinks_) KINORA_RETURN_IF_ERROR(sink->Failure());
  return absl::OkStatus();
}

absl::Status TeeSink::End() {
  for (const auto& sink : sinks_) KINORA_RETURN_IF_ERROR(sink->End());
  return absl::OkStatus();
}

}  // namespace kinora
