// A request, and a decoder's answer to it in pieces. The reader must not return more than requested, nor numbers that a
// model cannot accept.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/base/check.h"
#include "server/decode/decode_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  if (size < 2) return 0;
  DecodeRequest request{.kind = MediaKind::kMp4, .most_pictures = 4, .most_seconds = 0.01};
  request.sound = data[0] & 1;
  const size_t piece = 1 + data[1];
  std::string_view answer(reinterpret_cast<const char*>(data) + 2, size - 2);
  int infos = 0, pictures = 0, channels = 0;
  int64_t bytes = 0;
  double samples = 0, most = 0;
  ReplyReader reader(request, {.info =
                                   [&](const MediaInfo& info) {
                                     KINORA_CHECK_EQ(++infos, 1);
                                     channels = info.channels;
                                     if (request.sound == 0)
                                       bytes = int64_t{3} * info.width * info.height;  // sound has no picture
                                     most = 0.01 * info.samples_per_second + 1;
                                   },
                               .picture =
                                   [&](const uint8_t* rgb) {
                                     KINORA_CHECK(infos == 1 && request.sound == 0 && ++pictures <= 4);
                                     KINORA_CHECK(bytes > 0 && bytes <= static_cast<int64_t>(size));
                                     volatile uint8_t last = rgb[bytes - 1];
                                     (void)last;
                                   },
                               .samples =
                                   [&](const float* sound, int64_t count) {
                                     samples += static_cast<double>(count);
                                     KINORA_CHECK(infos == 1 && request.sound == 1 && samples <= most);
                                     for (int64_t i = 0; i < count * channels; ++i)
                                       KINORA_CHECK(std::abs(sound[i]) <= 1);
                                   }});
  const ReplyHeader begin{.kind = ReplyKind::kSandboxed, .bytes = 0};
  KINORA_CHECK(reader.Take({reinterpret_cast<const char*>(&begin), sizeof(begin)}).ok());
  while (!answer.empty()) {
    const absl::Status status = reader.Take(answer.substr(0, piece));
    if (!status.ok()) {
      KINORA_CHECK(absl::IsInvalidArgument(status) || absl::IsUnavailable(status));
      for (const char c : status.message()) KINORA_CHECK(c >= ' ' && c <= '~');
      return 0;
    }
    answer.remove_prefix(std::min(piece, answer.size()));
  }
  KINORA_CHECK(!reader.done() || infos == 1);
  return 0;
}
