// Files of data/ (make_goldens.py) and what a decoder gives of them.
#ifndef KINORA_TESTS_SERVER_DECODE_DECODE_FIXTURE_H_
#define KINORA_TESTS_SERVER_DECODE_DECODE_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/common/media_type.h"
#include "server/decode/decode_protocol.h"
#include "server/decode/decoder.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

inline std::string DataPath(const std::string& name) {
  return absl::StrCat(KINORA_SOURCE_DIR, "/tests/server/decode/data/", name);
}

struct Decoded {
  MediaInfo info;
  std::vector<std::vector<float>> pictures;
  std::vector<float> samples;
  std::vector<std::vector<uint8_t>> pixels;  // pictures of a request without a size
};

inline DecodeSink SinkOf(Decoded& out, const DecodeRequest& request) {
  const size_t floats = size_t{3} * request.width * request.height;
  return {.info = [&out](const MediaInfo& info) { out.info = info; },
          .picture = [&out, floats](const float* picture) { out.pictures.emplace_back(picture, picture + floats); },
          .samples =
              [&out](const float* samples, int64_t count) {
                out.samples.insert(out.samples.end(), samples, samples + count * out.info.channels);
              },
          .pixels =
              [&out](const uint8_t* rgb) {
                out.pixels.emplace_back(rgb, rgb + size_t{3} * out.info.width * out.info.height);
              }};
}

inline MediaFile FileOf(const std::string& bytes) {
  return {.bytes = std::ssize(bytes), .read = [&bytes](int64_t offset, uint8_t* to, int64_t size) {
            const int64_t n = std::clamp<int64_t>(std::ssize(bytes) - offset, 0, size);
            std::memcpy(to, bytes.data() + std::min<int64_t>(offset, std::ssize(bytes)), n);
            return n;
          }};
}

// In this process, of the kind that the bytes begin like.
inline absl::StatusOr<Decoded> DecodeHere(const std::string& bytes, DecodeRequest request) {
  const auto kind = MediaKindOf(MediaTypeOf(bytes));
  if (!kind.ok()) return kind.status();
  request.kind = *kind;
  if (const absl::Status status = CheckDecodeRequest(request); !status.ok()) return status;
  Decoded out;
  const absl::Status status = Decode(FileOf(bytes), request, SinkOf(out, request));
  if (!status.ok()) return status;
  return out;
}

// The request for what `bytes` hold: pictures as large as they are, or all of the sound.
inline DecodeRequest WholeRequest(const std::string& bytes) {
  DecodeRequest request{.most_pictures = 100, .most_seconds = 60};
  request.sound = MediaTypeOf(bytes).substr(0, 5) == "audio" ? 1 : 0;
  request.width = request.height = 1;
  const auto small = DecodeHere(bytes, request);
  if (!small.ok()) return request;
  request.width = std::max(1, small->info.width);
  request.height = std::max(1, small->info.height);
  return request;
}

// Bytes of an image at its own size.
inline std::vector<uint8_t> Pixels(const std::vector<float>& picture) {
  std::vector<uint8_t> out(picture.size());
  std::transform(picture.begin(), picture.end(), out.begin(),
                 [](float x) { return static_cast<uint8_t>(std::lround((x + 1) * 127.5f)); });
  return out;
}

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_DECODE_DECODE_FIXTURE_H_
