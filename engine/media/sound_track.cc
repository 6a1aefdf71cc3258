#include "engine/media/sound_track.h"

extern "C" {
#include <libavutil/channel_layout.h>
}

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

// Returns `wanted` if the encoder supports it, otherwise the smallest larger rate or, if there is none, the largest.
int SupportedRate(const AVCodec& encoder, int wanted) {
  if (encoder.supported_samplerates == nullptr) return wanted;
  int above = 0, largest = 0;
  for (const int* rate = encoder.supported_samplerates; *rate != 0; ++rate) {
    if (*rate >= wanted && (above == 0 || *rate < above)) above = *rate;
    largest = std::max(largest, *rate);
  }
  return above != 0 ? above : largest;
}

// Samples in the encoder's format and rate: interleaved in one plane, or one plane per channel.
struct Samples {
  std::vector<std::vector<uint8_t>> planes;
  int64_t count = 0;
};

absl::StatusOr<Samples> Convert(AVCodecContext& codec, int source_rate,
                                const std::vector<std::vector<float>>& channels) {
  const int n = codec.ch_layout.nb_channels;
  const auto count = static_cast<int>(channels[0].size());
  SwrContext* raw = nullptr;
  if (const int code = swr_alloc_set_opts2(&raw, &codec.ch_layout, codec.sample_fmt, codec.sample_rate,
                                           &codec.ch_layout, AV_SAMPLE_FMT_FLTP, source_rate, 0, nullptr);
      code < 0) {
    return AvError(code, "converting the sound");
  }
  const AvPtr<SwrContext> resampler(raw);
  if (const int code = swr_init(raw); code < 0) return AvError(code, "converting the sound");
  const int64_t room = av_rescale_rnd(count, codec.sample_rate, source_rate, AV_ROUND_UP) + 4096;
  const bool planar = av_sample_fmt_is_planar(codec.sample_fmt) != 0;
  const int sample_bytes = av_get_bytes_per_sample(codec.sample_fmt) * (planar ? 1 : n);
  Samples out;
  out.planes.assign(planar ? n : 1, std::vector<uint8_t>(room * sample_bytes));
  std::vector<const uint8_t*> in(n);
  for (int c = 0; c < n; ++c) in[c] = reinterpret_cast<const uint8_t*>(channels[c].data());
  for (const bool flush : {false, true}) {
    std::vector<uint8_t*> to;
    for (auto& plane : out.planes) to.push_back(plane.data() + out.count * sample_bytes);
    const int got =
        swr_convert(raw, to.data(), static_cast<int>(room - out.count), flush ? nullptr : in.data(), flush ? 0 : count);
    if (got < 0) return AvError(got, "converting the sound");
    out.count += got;
  }
  out.count = std::min(out.count, av_rescale(count, codec.sample_rate, source_rate));
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SoundTrack>> SoundTrack::Create(const SoundTrackOptions& options) {
  QuietAv();
  if (options.channels < 1 || options.channels > 8 || options.sample_rate < 1000 || options.sample_rate > 192000) {
    return absl::InvalidArgumentError(absl::StrCat("sound of ", options.channels, " channels at ", options.sample_rate,
                                                   " Hz cannot be stored: 1..8 channels, 1000..192000 Hz"));
  }
  const AVCodec* encoder = avcodec_find_encoder_by_name(options.encoder);
  if (encoder == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("this libavcodec has no encoder ", options.encoder));
  }
  std::unique_ptr<SoundTrack> track(new SoundTrack);
  track->source_rate_ = options.sample_rate;
  track->codec_.reset(avcodec_alloc_context3(encoder));
  track->frame_.reset(av_frame_alloc());
  track->packet_.reset(av_packet_alloc());
  if (!track->codec_ || !track->frame_ || !track->packet_) {
    return absl::ResourceExhaustedError("out of memory for an audio encoder");
  }
  AVCodecContext& codec = *track->codec_;
  codec.sample_fmt = encoder->sample_fmts[0];
  for (const AVSampleFormat* format = encoder->sample_fmts; *format != AV_SAMPLE_FMT_NONE; ++format) {
    if (*format == AV_SAMPLE_FMT_FLT || *format == AV_SAMPLE_FMT_FLTP) codec.sample_fmt = *format;
  }
  codec.sample_rate = SupportedRate(*encoder, options.sample_rate);
  codec.time_base = {1, codec.sample_rate};
  av_channel_layout_default(&codec.ch_layout, options.channels);
  codec.bit_rate = options.channels *
                   std::min<int64_t>(96000, 4 * int64_t{codec.sample_rate});  // AAC allows at most 6 bits per sample
  codec.thread_count = 1;
  codec.flags |= AV_CODEC_FLAG_BITEXACT;
  if (options.global_header) codec.flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  if (const int code = avcodec_open2(&codec, encoder, nullptr); code < 0) {
    return AvError(code, absl::StrCat("opening ", options.encoder));
  }
  return track;
}

absl::Status SoundTrack::EncodeAll(const float* waveform, int64_t samples, PacketSink sink) {
  const int n = codec_->ch_layout.nb_channels;
  std::vector<std::vector<float>> channels(n);
  for (int c = 0; c < n; ++c) {
    channels[c].assign(waveform + c * samples, waveform + (c + 1) * samples);
    for (float& value : channels[c]) {
      if (!std::isfinite(value)) return absl::InvalidArgumentError("the waveform holds a value that is not finite");
      value = std::clamp(value, -1.0f, 1.0f);
    }
  }
  KINORA_ASSIGN_OR_RETURN(const Samples converted, Convert(*codec_, source_rate_, channels));
  const bool planar = converted.planes.size() > 1;
  const int sample_bytes = av_get_bytes_per_sample(codec_->sample_fmt) * (planar ? 1 : n);
  for (int64_t begin = 0; begin < converted.count; begin += codec_->frame_size) {
    AVFrame* frame = frame_.get();
    av_frame_unref(frame);
    frame->nb_samples = static_cast<int>(std::min<int64_t>(codec_->frame_size, converted.count - begin));
    frame->format = codec_->sample_fmt;
    frame->sample_rate = codec_->sample_rate;
    frame->pts = begin;
    if (int code = av_channel_layout_copy(&frame->ch_layout, &codec_->ch_layout); code < 0)
      return AvError(code, "sound");
    if (int code = av_frame_get_buffer(frame, 0); code < 0) return AvError(code, "a sound frame");
    for (size_t p = 0; p < converted.planes.size(); ++p) {
      std::memcpy(frame->data[p], converted.planes[p].data() + begin * sample_bytes, frame->nb_samples * sample_bytes);
    }
    if (int code = avcodec_send_frame(codec_.get(), frame); code < 0) return AvError(code, "encoding the sound");
    KINORA_RETURN_IF_ERROR(Drain(sink));
  }
  if (const int code = avcodec_send_frame(codec_.get(), nullptr); code < 0) return AvError(code, "encoding the sound");
  return Drain(sink);
}

absl::Status SoundTrack::Drain(PacketSink sink) {
  while (true) {
    const int code = avcodec_receive_packet(codec_.get(), packet_.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return absl::OkStatus();
    if (code < 0) return AvError(code, "encoding the sound");
    const absl::Status status = sink(*packet_);
    av_packet_unref(packet_.get());
    KINORA_RETURN_IF_ERROR(status);
  }
}

}  // namespace kinora
