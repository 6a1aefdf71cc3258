// Decodes one file for one request: pictures or sound, bounded by the request and by what is said here. It believes
// nothing of the file; still it is for kinora-decode alone, since the libraries under it may be wrong.
#ifndef KINORA_SERVER_DECODE_DECODER_H_
#define KINORA_SERVER_DECODE_DECODER_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "server/decode/decode_protocol.h"

namespace kinora {

inline constexpr int64_t kMostImageBytes = int64_t{128} << 20;  // of an image's file

// The file. Read: up to `size` bytes from `offset`; how many, 0 at the end, negative after an error.
struct MediaFile {
  int64_t bytes = 0;
  std::function<int64_t(int64_t offset, uint8_t* to, int64_t size)> read;
};

// Calls the sink as ReplyReader does. InvalidArgument: what is wrong with the file, in a few words. Unavailable: it
// cannot be read, or the libraries lack what it takes. The request has been checked.
absl::Status Decode(const MediaFile& file, const DecodeRequest& request, const DecodeSink& sink);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_DECODER_H_
