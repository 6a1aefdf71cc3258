#include "engine/media/picture_track.h"

extern "C" {
#include <libavutil/opt.h>
}

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

// The number of encoder threads affects the output, because x264's rate control sees a different history. Four frames
// in flight keep four cores busy and need little memory.
constexpr int kEncoderThreads = 4;

AvPtr<SwsContext> MakeScaler(int width, int height) {
  AvPtr<SwsContext> scaler(sws_alloc_context());
  if (scaler == nullptr) return nullptr;
  SwsContext* s = scaler.get();
  av_opt_set_int(s, "srcw", width, 0);
  av_opt_set_int(s, "srch", height, 0);
  av_opt_set_int(s, "dstw", width, 0);
  av_opt_set_int(s, "dsth", height, 0);
  av_opt_set_int(s, "src_format", AV_PIX_FMT_RGB24, 0);
  av_opt_set_int(s, "dst_format", AV_PIX_FMT_YUV420P, 0);
  av_opt_set_int(s, "dst_h_chr_pos", 0, 0);  // chroma sited left, between two rows, as H.264 and VP9 readers assume
  av_opt_set_int(s, "dst_v_chr_pos", 128, 0);
  av_opt_set_int(s, "sws_flags", SWS_BICUBIC | SWS_FULL_CHR_H_INP | SWS_ACCURATE_RND | SWS_BITEXACT, 0);
  const int* bt709 = sws_getCoefficients(SWS_CS_ITU709);
  constexpr int kOne = 1 << 16;
  sws_setColorspaceDetails(s, bt709, /*srcRange=*/1, bt709, /*dstRange=*/0, /*brightness=*/0, kOne, kOne);
  return sws_init_context(s, nullptr, nullptr) < 0 ? nullptr : std::move(scaler);
}

void SetOptions(const PictureTrackOptions& options, AVCodecContext& codec) {
  codec.width = static_cast<int>(options.width);
  codec.height = static_cast<int>(options.height);
  codec.framerate = FrameRate(options.frame_rate);
  codec.time_base = av_inv_q(codec.framerate);
  codec.pix_fmt = AV_PIX_FMT_YUV420P;
  codec.color_range = AVCOL_RANGE_MPEG;
  codec.colorspace = AVCOL_SPC_BT709;
  codec.color_primaries = AVCOL_PRI_BT709;
  codec.color_trc = AVCOL_TRC_BT709;
  codec.chroma_sample_location = AVCHROMA_LOC_LEFT;
  codec.thread_count = kEncoderThreads;
  codec.flags |= AV_CODEC_FLAG_BITEXACT;
  if (options.global_header) codec.flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  av_opt_set_double(codec.priv_data, "crf", options.crf, 0);
  if (std::string_view(options.encoder) == "libx264") {
    av_opt_set(codec.priv_data, "preset", "veryfast", 0);
    const std::string params = absl::StrCat(X264Instructions(), "lookahead-threads=1:sliced-threads=0");
    av_opt_set(codec.priv_data, "x264-params", params.c_str(), 0);
  } else {
    codec.bit_rate = 0;  // constant quality
    av_opt_set(codec.priv_data, "deadline", "good", 0);
    av_opt_set_int(codec.priv_data, "cpu-used", 4, 0);
    av_opt_set_int(codec.priv_data, "row-mt", 0, 0);
  }
}

absl::Status Check(const PictureTrackOptions& options) {
  for (int64_t size : {options.width, options.height}) {
    if (size <= 0 || size % 2 != 0 || size > 16384) {
      return absl::InvalidArgumentError(
          absl::StrCat("a clip of ", options.width, "x", options.height,
                       " cannot be stored as 4:2:0 video: both sizes must be even, 2..16384"));
    }
  }
  if (!(options.frame_rate > 0) || options.frame_rate > 1000) {
    return absl::InvalidArgumentError(absl::StrCat("frame_rate ", options.frame_rate, " is not in (0, 1000]"));
  }
  return absl::OkStatus();
}

}  // namespace

AVRational FrameRate(double frames_per_second) {
  for (int denominator : {1, 1001}) {
    const double numerator = frames_per_second * denominator;
    const double rounded = denominator == 1 ? std::round(numerator) : 1000 * std::round(numerator / 1000);
    // 24000/1001 is often written as 23.976.
    if (rounded > 0 && std::abs(numerator - rounded) < (denominator == 1 ? 1e-6 : 0.5)) {
      return {static_cast<int>(rounded), denominator};
    }
  }
  AVRational rate;
  av_reduce(&rate.num, &rate.den, std::llround(frames_per_second * 1e6), 1000000, 1 << 20);
  return rate;
}

absl::StatusOr<std::unique_ptr<PictureTrack>> PictureTrack::Create(const PictureTrackOptions& options) {
  QuietAv();
  KINORA_RETURN_IF_ERROR(Check(options));
  const AVCodec* encoder = avcodec_find_encoder_by_name(options.encoder);
  if (encoder == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("this libavcodec has no encoder ", options.encoder));
  }
  std::unique_ptr<PictureTrack> track(new PictureTrack);
  track->codec_.reset(avcodec_alloc_context3(encoder));
  track->frame_.reset(av_frame_alloc());
  track->packet_.reset(av_packet_alloc());
  track->scaler_ = MakeScaler(static_cast<int>(options.width), static_cast<int>(options.height));
  if (!track->codec_ || !track->frame_ || !track->packet_ || !track->scaler_) {
    return absl::ResourceExhaustedError("out of memory for a video encoder");
  }
  SetOptions(options, *track->codec_);
  if (const int code = avcodec_open2(track->codec_.get(), encoder, nullptr); code < 0) {
    return AvError(code, absl::StrCat("opening ", options.encoder));
  }
  track->frame_->width = track->codec_->width;
  track->frame_->height = track->codec_->height;
  track->frame_->format = AV_PIX_FMT_YUV420P;
  return track;
}

absl::Status PictureTrack::Encode(int64_t index, const uint8_t* rgb, PacketSink sink) {
  AVFrame* frame = frame_.get();
  // Gets a new buffer unless the encoder has released the last one.
  if (frame->buf[0] == nullptr || av_frame_is_writable(frame) == 0) {
    for (AVBufferRef*& buffer : frame->buf) av_buffer_unref(&buffer);
    if (const int code = av_frame_get_buffer(frame, 0); code < 0) return AvError(code, "a video frame");
  }
  const int stride = 3 * codec_->width;
  sws_scale(scaler_.get(), &rgb, &stride, 0, codec_->height, frame->data, frame->linesize);
  frame->pts = index;
  frame->color_range = codec_->color_range;
  frame->colorspace = codec_->colorspace;
  frame->color_primaries = codec_->color_primaries;
  frame->color_trc = codec_->color_trc;
  frame->chroma_location = codec_->chroma_sample_location;
  if (const int code = avcodec_send_frame(codec_.get(), frame); code < 0)
    return AvError(code, "encoding a video frame");
  return Drain(sink);
}

absl::Status PictureTrack::Flush(PacketSink sink) {
  if (const int code = avcodec_send_frame(codec_.get(), nullptr); code < 0) return AvError(code, "encoding the video");
  return Drain(sink);
}

absl::Status PictureTrack::Drain(PacketSink sink) {
  while (true) {
    const int code = avcodec_receive_packet(codec_.get(), packet_.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return absl::OkStatus();
    if (code < 0) return AvError(code, "encoding the video");
    packet_->duration = 1;  // x264 leaves it unset, which would give the last frame no duration
    const absl::Status status = sink(*packet_);
    av_packet_unref(packet_.get());
    KINORA_RETURN_IF_ERROR(status);
  }
}

}  // namespace kinora
