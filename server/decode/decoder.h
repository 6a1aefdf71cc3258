// Decodes one file for one request, pictures or sound, within the limits of the request and of this file. It trusts
// nothing in the media file, but the libraries that it uses may have bugs, so only kinora-decode may call it.
#ifndef KINORA_SERVER_DECODE_DECODER_H_
#define KINORA_SERVER_DECODE_DECODER_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "server/decode/decode_protocol.h"

namespace kinora {

inline constexpr int64_t kMostImageBytes = int64_t{128} << 20;  // of an image's file

// The media file. `read` reads up to `size` bytes at `offset` and returns their number, 0 at the end, or a negative
// number after an error.
struct MediaFile {
  int64_t bytes = 0;
  std::function<int64_t(int64_t offset, uint8_t* to, int64_t size)> read;
};

// Calls the sink as ReplyReader does. `request` must pass CheckDecodeRequest. InvalidArgument says in a few words what
// is wrong with the file. Unavailable if the file cannot be read or the libraries lack a component, ResourceExhausted
// if there is no memory, Internal if the H.264 pass fails.
absl::Status Decode(const MediaFile& file, const DecodeRequest& request, const DecodeSink& sink);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_DECODER_H_
