#include "engine/media/wav_sink.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/media/output_file.h"
#include "engine/tensor/tensor.h"

namespace kinora {
namespace {

template <typename T>
std::string LittleEndian(T value) {
  std::string out;
  for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return out;
}

// RIFF chunks start on even offsets; the padding byte is not counted in the size.
std::string Chunk(std::string_view id, std::string_view data) {
  std::string out(id);
  out += LittleEndian(static_cast<uint32_t>(data.size()));
  out += data;
  return out.append(data.size() % 2, '\0');
}

std::string TextChunk(std::string_view id, const std::string& text) {
  return text.empty() ? "" : Chunk(id, std::string_view(text.c_str(), text.size() + 1));
}

std::string Interleaved16(const float* waveform, int64_t channels, int64_t samples) {
  std::string out(static_cast<size_t>(2 * channels * samples), '\0');
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t s = 0; s < samples; ++s) {
      const float value = std::clamp(waveform[c * samples + s], -1.0f, 1.0f);
      const auto rounded = static_cast<int16_t>(std::lrint(value * 32767.0f));
      const auto bits = static_cast<uint16_t>(rounded);
      out[2 * (s * channels + c)] = static_cast<char>(bits & 0xff);
      out[2 * (s * channels + c) + 1] = static_cast<char>(bits >> 8);
    }
  }
  return out;
}

}  // namespace

absl::Status WavSink::Begin(const ClipInfo& info) {
  info_ = info;
  if (info.audio_channels <= 0) return absl::InvalidArgumentError("a WAV file needs sound: the clip has none");
  if (options_.without_audio) return absl::InvalidArgumentError("without_audio leaves nothing to write in a WAV file");
  return absl::OkStatus();
}

absl::Status WavSink::Audio(const Tensor& waveform) {
  KINORA_CHECK(waveform.shape().rank() == 2 && waveform.dim(0) == info_.audio_channels) << waveform.shape().ToString();
  const int64_t channels = waveform.dim(0), samples = waveform.dim(1);
  const float* values = waveform.data<float>();
  if (!std::all_of(values, values + channels * samples, [](float v) { return std::isfinite(v); })) {
    return absl::InvalidArgumentError("the waveform holds a value that is not finite");
  }
  if (2 * channels * samples > 0xf0000000)
    return absl::InvalidArgumentError("the sound is too long for a WAV file (4 GiB)");
  const auto rate = static_cast<uint32_t>(info_.audio_sample_rate);
  const auto block = static_cast<uint16_t>(2 * channels);
  const std::string format =
      absl::StrCat(LittleEndian(uint16_t{1}), LittleEndian(static_cast<uint16_t>(channels)), LittleEndian(rate),
                   LittleEndian(rate * block), LittleEndian(block), LittleEndian(uint16_t{16}));
  std::string text = absl::StrCat(TextChunk("ICMT", options_.parameters), TextChunk("ISBJ", options_.prompt));
  if (!text.empty()) text = Chunk("LIST", "INFO" + text);
  bytes_ = Chunk("RIFF", absl::StrCat("WAVE", Chunk("fmt ", format), text,
                                      Chunk("data", Interleaved16(values, channels, samples))));
  return absl::OkStatus();
}

absl::Status WavSink::End() {
  if (bytes_.empty()) return absl::InternalError("no sound came");
  KINORA_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(path_));
  KINORA_RETURN_IF_ERROR(file->Write(bytes_));
  return file->Commit();
}

}  // namespace kinora
