// Owners and error conversion for the FFmpeg libraries. Private to engine/media and server/decode.
#ifndef KINORA_ENGINE_MEDIA_AV_H_
#define KINORA_ENGINE_MEDIA_AV_H_

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>
}

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace kinora {

struct AvDeleter {
  void operator()(AVFrame* p) const { av_frame_free(&p); }
  void operator()(AVPacket* p) const { av_packet_free(&p); }
  void operator()(AVCodecContext* p) const { avcodec_free_context(&p); }
  void operator()(SwrContext* p) const { swr_free(&p); }
  void operator()(SwsContext* p) const { sws_freeContext(p); }
  void operator()(AVFormatContext* p) const;  // closes the file too; the error of that close is lost
};
template <typename T>
using AvPtr = std::unique_ptr<T, AvDeleter>;

// "WHAT: No space left on device". A code that is an errno maps as absl::ErrnoToStatus maps it (a full disk is
// RESOURCE_EXHAUSTED), every other code is Internal.
absl::Status AvError(int code, const std::string& what);

// What "x264-params" of a libx264 encoder must hold, in front of what else it is to hold. x264 (164) with AVX-512 reads
// memory that nobody set: equal frames then become streams that differ with what was in freed memory.
std::string X264Instructions();

// The libraries print nothing: what matters is in the Status. Called by everything that uses them.
void QuietAv();

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_AV_H_
