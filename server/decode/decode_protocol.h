// The protocol between kinora-decode and its parent, over pipes on one machine: the request is one message, the answer
// a sequence of messages. A decoder that the file has compromised may send anything, so its parent trusts no number in
// the answer: ReplyReader lets through no more than was requested.
#ifndef KINORA_SERVER_DECODE_DECODE_PROTOCOL_H_
#define KINORA_SERVER_DECODE_DECODE_PROTOCOL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

enum class MediaKind : int32_t { kPng = 1, kJpeg, kWebp, kMp4, kWebm, kWav, kFlac, kMp3, kAac };

// Returns the kind of a media type of media_type.h. InvalidArgument for any other.
absl::StatusOr<MediaKind> MediaKindOf(std::string_view media_type);

// Pictures come at the file's size, turned upright, in sRGB.
struct DecodeRequest {
  MediaKind kind = MediaKind::kPng;
  int32_t sound = 0;          // 1: decode the sound instead of the pictures
  int32_t crf = 0;            // of the H.264 pass, 1…51; 0: no pass. Images only
  int32_t most_pictures = 1;  // later ones are not decoded
  double most_seconds = 0;    // of sound; later sound is not decoded
};
inline constexpr int32_t kMostPictures = 4096;
inline constexpr int64_t kMostPixels = int64_t{64} << 20;    // per picture in the file: 8192 × 8192
inline constexpr int64_t kMostClipBytes = int64_t{2} << 30;  // all pictures of a clip as RGB, at the file's size
inline constexpr double kMostSeconds = 3600;

enum class ReplyKind : uint32_t {
  kError = 1,  // text: what is wrong with the file; last message
  kInfo,       // MediaInfo; before anything that is decoded
  kPicture,    // height × width × 3, uint8
  kSamples,    // float32 in [-1, 1], channels interleaved; at most kMostSamples per channel
  kEnd,        // everything was sent; last message
  kSandboxed,  // nothing of the file has been read yet; first message unless kFault is
  kFault,      // text: what is wrong with the machine; last message
};
struct ReplyHeader {
  ReplyKind kind = ReplyKind::kEnd;
  uint32_t bytes = 0;  // of the message that follows
};
struct MediaInfo {
  int32_t width = 0, height = 0;                 // of the pictures in the file, turned upright
  int32_t channels = 0, samples_per_second = 0;  // of the sound; both 0: a clip without sound
  double frames_per_second = 0;                  // of a clip; 0: not known
};
inline constexpr int32_t kMostChannels = 8;
inline constexpr int32_t kMostSamples = 1 << 16;
inline constexpr int32_t kMostSamplesPerSecond = 384'000;
inline constexpr size_t kMostErrorBytes = 256;

static_assert(std::is_trivially_copyable_v<DecodeRequest> && std::is_trivially_copyable_v<MediaInfo>);

// InvalidArgument if a value is outside the ranges above.
absl::Status CheckDecodeRequest(const DecodeRequest& request);

// Receives the contents of an answer, in the order in which they arrive.
struct DecodeSink {
  std::function<void(const MediaInfo& info)> info;
  std::function<void(const uint8_t* rgb)> picture;                   // of the size in `info`
  std::function<void(const float* samples, int64_t count)> samples;  // `count` per channel
};

// Parses an answer from pieces of any size.
class ReplyReader {
 public:
  ReplyReader(const DecodeRequest& request, DecodeSink sink) : request_(request), sink_(std::move(sink)) {}

  // InvalidArgument for the decoder's own error or an answer that was not requested; Unavailable for a fault of the
  // machine that the decoder reports. Must not be called again after an error.
  absl::Status Take(std::string_view bytes);
  bool sandboxed() const { return sandboxed_; }  // from then on, the file may control the decoder
  bool done() const { return done_; }            // kEnd has arrived

 private:
  absl::Status CheckHeader(const ReplyHeader& header);
  uint64_t PictureBytes() const;
  bool IsInfoAskedFor() const;
  absl::Status TakeMessage(ReplyKind kind, const std::string& payload);

  const DecodeRequest request_;
  const DecodeSink sink_;
  std::string buffer_;  // a part of a header, then of its message
  bool in_message_ = false;
  ReplyHeader header_;
  bool sandboxed_ = false, has_info_ = false, done_ = false;
  MediaInfo info_;
  int32_t pictures_ = 0;
  int64_t samples_ = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_DECODE_PROTOCOL_H_
