// Files in data/ (see make_goldens.py) and what the decoder returns for them.
#ifndef KINORA_TESTS_SERVER_DECODE_DECODE_FIXTURE_H_
#define KINORA_TESTS_SERVER_DECODE_DECODE_FIXTURE_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/decode/decode_protocol.h"
#include "server/decode/decoder.h"
#include "server/request/media_type.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

inline std::string DataPath(const std::string& name) {
  return absl::StrCat(KINORA_SOURCE_DIR, "/tests/server/decode/data/", name);
}

struct Decoded {
  MediaInfo info;
  std::vector<std::vector<uint8_t>> pictures;
  std::vector<float> samples;
};

inline DecodeSink SinkOf(Decoded& out) {
  return {.info = [&out](const MediaInfo& info) { out.info = info; },
          .picture =
              [&out](const uint8_t* rgb) {
                out.pictures.emplace_back(rgb, rgb + size_t{3} * out.info.width * out.info.height);
              },
          .samples =
              [&out](const float* samples, int64_t count) {
                out.samples.insert(out.samples.end(), samples, samples + count * out.info.channels);
              }};
}

inline MediaFile FileOf(const std::string& bytes) {
  return {.bytes = std::ssize(bytes), .read = [&bytes](int64_t offset, uint8_t* to, int64_t size) {
            const int64_t n = std::clamp<int64_t>(std::ssize(bytes) - offset, 0, size);
            std::memcpy(to, bytes.data() + std::min<int64_t>(offset, std::ssize(bytes)), n);
            return n;
          }};
}

// Decodes in this process. The first bytes determine the kind of file.
inline absl::StatusOr<Decoded> DecodeHere(const std::string& bytes, DecodeRequest request) {
  const auto kind = MediaKindOf(MediaTypeOf(bytes));
  if (!kind.ok()) return kind.status();
  request.kind = *kind;
  if (const absl::Status status = CheckDecodeRequest(request); !status.ok()) return status;
  Decoded out;
  const absl::Status status = Decode(FileOf(bytes), request, SinkOf(out));
  if (!status.ok()) return status;
  return out;
}

// Returns a request for everything in `bytes`: all pictures, or the whole sound.
inline DecodeRequest WholeRequest(const std::string& bytes) {
  DecodeRequest request{.most_pictures = 100, .most_seconds = 60};
  request.sound = MediaTypeOf(bytes).substr(0, 5) == "audio" ? 1 : 0;
  return request;
}

}  // namespace kinora

#endif  // KINORA_TESTS_SERVER_DECODE_DECODE_FIXTURE_H_
