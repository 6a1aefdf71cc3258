// Decodes the chunked transfer coding (RFC 9112, §7.1) strictly. Boost.Beast's own decoder asserts on some inputs that
// come in small pieces. Extensions and trailers are read and ignored.
#ifndef KINORA_SERVER_GATEWAY_CHUNK_DECODER_H_
#define KINORA_SERVER_GATEWAY_CHUNK_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kinora {

class ChunkDecoder {
 public:
  static constexpr size_t kLongestLine = 256;  // a size with its extensions, or a trailer, without CRLF
  static constexpr size_t kMostTrailerLines = 16;

  // Takes bytes from the front of `input` and appends at most `most` bytes of the body to `piece`, until the input or
  // the body ends. Returns false if the input is malformed.
  bool Decode(std::string& input, size_t most, std::string& piece);
  bool ended() const { return state_ == State::kEnd; }

 private:
  enum class State { kSize, kData, kDataEnd, kTrailer, kEnd };
  enum class Line { kTaken, kIncomplete, kMalformed };

  Line TakeLine(std::string_view& input, std::string_view& line);
  bool OnLine(std::string_view line);
  bool OnSize(std::string_view line);

  State state_ = State::kSize;
  uint64_t left_ = 0;  // of the present chunk
  size_t trailers_ = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_CHUNK_DECODER_H_
