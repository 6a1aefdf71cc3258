// The first byte selects the kind of file, pictures or sound, with or without the H.264 pass. The rest is the file,
// decoded in this process. The result must be an answer that ReplyReader accepts, or a readable error.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/base/check.h"
#include "server/decode/decode_protocol.h"
#include "server/decode/decoder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  if (size < 2) return 0;
  DecodeRequest request{.most_pictures = 3, .most_seconds = 0.5};
  request.kind = static_cast<MediaKind>(1 + data[0] % 9);
  request.sound = request.kind > MediaKind::kWebm || (data[0] & 0x80) != 0 ? 1 : 0;
  request.crf = (data[0] & 0x40) != 0 ? 33 : 0;
  if (!CheckDecodeRequest(request).ok()) return 0;
  const int64_t bytes = static_cast<int64_t>(size) - 1;
  const MediaFile file{.bytes = bytes, .read = [data, bytes](int64_t offset, uint8_t* to, int64_t wanted) {
                         const int64_t n = std::clamp<int64_t>(bytes - offset, 0, wanted);
                         if (n > 0) std::memcpy(to, data + 1 + offset, n);
                         return n;
                       }};
  int pictures = 0;
  int64_t samples = 0;
  MediaInfo found;
  const DecodeSink sink{
      .info = [&](const MediaInfo& info) { found = info; },
      .picture =
          [&](const uint8_t* rgb) {
            KINORA_CHECK(found.width > 0 && found.height > 0 && ++pictures <= request.most_pictures);
            volatile uint8_t last = rgb[int64_t{3} * found.width * found.height - 1];
            (void)last;
          },
      .samples =
          [&](const float*, int64_t count) {
            samples += count;
            KINORA_CHECK(count <= kMostSamples && found.channels >= 1 && found.channels <= kMostChannels);
            KINORA_CHECK(static_cast<double>(samples) <= 0.5 * found.samples_per_second + 1);
          }};
  const absl::Status status = Decode(file, request, sink);
  KINORA_CHECK(!status.ok() || request.sound == 1 || pictures > 0);
  KINORA_CHECK(status.ok() || !status.message().empty());
  return 0;
}
