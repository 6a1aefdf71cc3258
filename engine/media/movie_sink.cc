#include "engine/media/movie_sink.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/media/fit_sound.h"
#include "engine/tensor/tensor.h"

namespace kinora {

absl::Status MovieSink::Begin(const ClipInfo& info) {
  QuietAv();
  KINORA_CHECK(muxer_ == nullptr) << "Begin was called twice";
  info_ = info;
  const bool webm = options_.container == Container::kWebm;
  AVFormatContext* raw = nullptr;
  if (int code = avformat_alloc_output_context2(&raw, nullptr, webm ? "webm" : "mp4", file_.part().c_str()); code < 0) {
    return AvError(code, file_.path());
  }
  muxer_.reset(raw);
  muxer_->flags |= AVFMT_FLAG_BITEXACT;  // no library versions, dates or random identifiers
  muxer_->max_interleave_delta = 0;      // no limit on waiting for the other stream: the sound may come last
  KINORA_RETURN_IF_ERROR(OpenTracks((muxer_->oformat->flags & AVFMT_GLOBALHEADER) != 0));
  if (const int code = avio_open(&muxer_->pb, file_.part().c_str(), AVIO_FLAG_WRITE); code < 0) {
    return AvError(code, absl::StrCat("creating ", file_.path()));
  }
  return WriteHeader();
}

absl::Status MovieSink::OpenTracks(bool global_header) {
  const bool webm = options_.container == Container::kWebm;
  if (info_.width > 0) {
    KINORA_ASSIGN_OR_RETURN(picture_, PictureTrack::Create({.encoder = webm ? "libvpx-vp9" : "libx264",
                                                            .width = info_.width,
                                                            .height = info_.height,
                                                            .frame_rate = info_.frame_rate,
                                                            .crf = options_.crf,
                                                            .global_header = global_header}));
    KINORA_RETURN_IF_ERROR(AddStream(picture_->codec(), picture_stream_));
    picture_stream_->avg_frame_rate = picture_->codec().framerate;
  }
  if (info_.audio_channels > 0 && !options_.without_audio) {
    KINORA_ASSIGN_OR_RETURN(sound_, SoundTrack::Create({.encoder = webm ? "libopus" : "aac",
                                                        .sample_rate = info_.audio_sample_rate,
                                                        .channels = info_.audio_channels,
                                                        .global_header = global_header}));
    KINORA_RETURN_IF_ERROR(AddStream(sound_->codec(), sound_stream_));
  }
  if (picture_ == nullptr && sound_ == nullptr) {
    return absl::InvalidArgumentError("the clip has neither picture nor sound: without_audio leaves nothing to write");
  }
  return absl::OkStatus();
}

absl::Status MovieSink::AddStream(const AVCodecContext& codec, AVStream*& stream) {
  stream = avformat_new_stream(muxer_.get(), nullptr);
  if (stream == nullptr) return absl::ResourceExhaustedError("out of memory for a stream");
  stream->time_base = codec.time_base;
  if (const int code = avcodec_parameters_from_context(stream->codecpar, &codec); code < 0)
    return AvError(code, "stream");
  return absl::OkStatus();
}

absl::Status MovieSink::WriteHeader() {
  if (!options_.parameters.empty()) av_dict_set(&muxer_->metadata, "comment", options_.parameters.c_str(), 0);
  if (!options_.prompt.empty()) av_dict_set(&muxer_->metadata, "description", options_.prompt.c_str(), 0);
  AVDictionary* options = nullptr;
  if (options_.container == Container::kMp4) {
    av_dict_set(&options, "movflags", "+faststart", 0);
    // Edit lists, which trim the sound's padding, use this unit. The default of a millisecond would cut off samples.
    if (sound_ != nullptr) av_dict_set_int(&options, "movie_timescale", sound_->codec().sample_rate, 0);
  } else {
    // Opus begins with padding at a negative time. Matroska records it (CodecDelay), so timestamps must not be shifted.
    muxer_->avoid_negative_ts = AVFMT_AVOID_NEG_TS_DISABLED;
  }
  const int code = avformat_write_header(muxer_.get(), &options);
  av_dict_free(&options);
  return code < 0 ? AvError(code, absl::StrCat("writing ", file_.path())) : absl::OkStatus();
}

absl::Status MovieSink::Write(AVPacket& packet, const AVCodecContext& codec, const AVStream& stream) {
  av_packet_rescale_ts(&packet, codec.time_base, stream.time_base);
  packet.stream_index = stream.index;
  const int code = av_interleaved_write_frame(muxer_.get(), &packet);
  return code < 0 ? AvError(code, absl::StrCat("writing ", file_.path())) : absl::OkStatus();
}

absl::Status MovieSink::Frames(int64_t first, const Tensor& rgb8) {
  if (picture_ == nullptr) return absl::FailedPreconditionError("frames for a clip without picture");
  KINORA_CHECK_EQ(first, next_frame_) << "frames must come in order";
  KINORA_CHECK(rgb8.shape() == Shape({rgb8.dim(0), info_.height, info_.width, 3})) << rgb8.shape().ToString();
  const int64_t frame_bytes = info_.height * info_.width * 3;
  for (int64_t i = 0; i < rgb8.dim(0); ++i) {
    KINORA_RETURN_IF_ERROR(
        picture_->Encode(next_frame_++, rgb8.data<uint8_t>() + i * frame_bytes,
                         [this](AVPacket& packet) { return Write(packet, picture_->codec(), *picture_stream_); }));
  }
  return absl::OkStatus();
}

absl::Status MovieSink::Audio(const Tensor& waveform) {
  if (sound_ == nullptr) return absl::OkStatus();
  KINORA_CHECK(waveform.shape().rank() == 2 && waveform.dim(0) == info_.audio_channels) << waveform.shape().ToString();
  const auto write = [this](AVPacket& packet) { return Write(packet, sound_->codec(), *sound_stream_); };
  if (picture_ == nullptr) return sound_->EncodeAll(waveform.data<float>(), waveform.dim(1), write);
  const auto samples = static_cast<int64_t>(
      std::nearbyint(static_cast<double>(info_.num_frames) / info_.frame_rate * info_.audio_sample_rate));
  const std::vector<float> fitted =
      FitSound(waveform.data<float>(), waveform.dim(0), waveform.dim(1), samples, info_.audio_sample_rate);
  return sound_->EncodeAll(fitted.data(), samples, write);
}

absl::Status MovieSink::End() {
  if (picture_ != nullptr) {
    if (next_frame_ != info_.num_frames) {
      return absl::InternalError(absl::StrCat(next_frame_, " of ", info_.num_frames, " frames came"));
    }
    KINORA_RETURN_IF_ERROR(
        picture_->Flush([this](AVPacket& packet) { return Write(packet, picture_->codec(), *picture_stream_); }));
  }
  const std::string what = absl::StrCat("writing ", file_.path());
  if (const int code = av_write_trailer(muxer_.get()); code < 0) return AvError(code, what);
  if (const int code = muxer_->pb->error; code < 0) return AvError(code, what);
  if (const int code = avio_closep(&muxer_->pb); code < 0) return AvError(code, what);
  return file_.Commit();
}

}  // namespace kinora
