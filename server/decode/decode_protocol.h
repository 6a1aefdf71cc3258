// What kinora-decode is asked and what it answers, over pipes of one machine: the request is one message, the answer a
// line of them. A decoder that was taken over by the file it reads may send anything, so its parent believes no number
// of it: ReplyReader lets through no more than was asked for.
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

// Of a media type of media_type.h. InvalidArgument: another.
absl::StatusOr<MediaKind> MediaKindOf(std::string_view media_type);

// Pictures come as the file has them, turned upright, in sRGB; or scaled until they cover width × height and cut at
// their middle.
struct DecodeRequest {
  MediaKind kind = MediaKind::kPng;
  int32_t sound = 0;              // 1: the sound, and not the pictures
  int32_t width = 0, height = 0;  // of pictures, 1…kMostSide; both 0: as in the file
  int32_t crf = 0;                // of the H.264 pass, 1…51; 0: none. Of an image
  int32_t most_pictures = 1;      // those after them are not decoded
  double start_seconds = 0;       // pictures and sound from here on
  double most_seconds = 0;        // of sound
};
inline constexpr int32_t kMostSide = 8192;
inline constexpr int32_t kMostPictures = 4096;
inline constexpr int64_t kMostPixels = int64_t{64} << 20;    // of a picture in the file: 8192 × 8192
inline constexpr int64_t kMostClipBytes = int64_t{2} << 30;  // of all pictures as in the file
inline constexpr double kMostSeconds = 3600;

enum class ReplyKind : uint32_t {
  kError = 1,  // text: what is wrong with the file; the last
  kInfo,       // MediaInfo; before all that is decoded
  kPicture,    // height × width × 3: float32 in [-1, 1], as in the file uint8
  kSamples,    // float32 in [-1, 1], channels interleaved; at most kMostSamples of each
  kEnd,        // all was sent; the last
  kSandboxed,  // nothing of the file has been read yet; the first
  kFault,      // text: what is wrong with the machine; the last
};
struct ReplyHeader {
  ReplyKind kind = ReplyKind::kEnd;
  uint32_t bytes = 0;  // that follow
};
struct MediaInfo {
  int32_t width = 0, height = 0;                 // of the pictures in the file, turned upright
  int32_t channels = 0, samples_per_second = 0;  // of the sound; both 0: a clip without any
  double frames_per_second = 0;                  // of a clip; 0: not known
};
inline constexpr int32_t kMostChannels = 8;
inline constexpr int32_t kMostSamples = 1 << 16;
inline constexpr int32_t kMostSamplesPerSecond = 384'000;
inline constexpr size_t kMostErrorBytes = 256;

static_assert(std::is_trivially_copyable_v<DecodeRequest> && std::is_trivially_copyable_v<MediaInfo>);

// InvalidArgument: a number is not one of those above.
absl::Status CheckDecodeRequest(const DecodeRequest& request);

inline bool IsAsInFile(const DecodeRequest& request) { return request.width == 0 && request.height == 0; }

// What a whole answer holds, in the order in which it comes.
struct DecodeSink {
  std::function<void(const MediaInfo& info)> info;
  std::function<void(const float* picture)> picture;
  std::function<void(const float* samples, int64_t count)> samples;  // of each channel
  std::function<void(const uint8_t* rgb)> pixels{};                  // of a request without a size: as `info` has it
};

// Takes the answer in pieces of any size.
class ReplyReader {
 public:
  ReplyReader(const DecodeRequest& request, DecodeSink sink) : request_(request), sink_(std::move(sink)) {}

  // InvalidArgument: the decoder's own error, or an answer that was not asked for. Unavailable: a fault of the machine
  // that it tells. Once.
  absl::Status Take(std::string_view bytes);
  bool sandboxed() const { return sandboxed_; }  // what it did from then on the file may have made it do
  bool done() const { return done_; }            // kEnd has come

 private:
  absl::Status CheckHeader(const ReplyHeader& header);
  uint64_t PictureBytes() const;
  bool IsInfoAskedFor() const;
  absl::Status TakeMessage(ReplyKind kind, const std::string& payload);

  const DecodeRequest request_;
  const DecodeSink sink_;
  std::string buffer_;  // of a header, then of its message
  bool in_message_ = false;
  ReplyHeader header_;
  bool sandboxed_ = false, has_info_ = false, done_ = false;
  MediaInfo info_;
  int32_t pictures_ = 0;
  int64_t samples_ = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_DECODE_PROTOCOL_H_
