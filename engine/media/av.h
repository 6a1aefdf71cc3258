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
  void operator()(AVFormatContext* p) const;  // also closes the file and ignores errors of that
};
template <typename T>
using AvPtr = std::unique_ptr<T, AvDeleter>;

// Returns an error such as "WHAT: No space left on device". Codes that are an errno map like absl::ErrnoToStatus (a
// full disk is ResourceExhausted); all others are Internal.
absl::Status AvError(int code, const std::string& what);

// Returns the prefix that every libx264 encoder needs in its "x264-params". x264 (164) with AVX-512 reads uninitialised
// memory, so equal frames can give different streams.
std::string X264Instructions();

// Stops the libraries from logging, because errors are in the Status. Call it before any use of them.
void QuietAv();

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_AV_H_
