#include "server/decode/decoder.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/media/av.h"
#include "server/decode/picture.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/display.h>
}

namespace kinora {
namespace {

absl::Status Wrong(const char* what) { return absl::InvalidArgumentError(what); }

constexpr int kReadBytes = 64 << 10;
constexpr int64_t kMostPackets = 1 << 20;  // per file, in all of its streams

struct DeleteDemuxer {
  void operator()(AVFormatContext* p) const { avformat_close_input(&p); }
};
using Demuxer = std::unique_ptr<AVFormatContext, DeleteDemuxer>;

// Lets libavformat read a MediaFile.
class Reader {
 public:
  explicit Reader(const MediaFile& file) : file_(file) {
    io_ = avio_alloc_context(static_cast<uint8_t*>(av_malloc(kReadBytes)), kReadBytes, 0, this, &Read, nullptr, &Seek);
  }
  ~Reader() {
    if (io_ != nullptr) av_freep(&io_->buffer);
    avio_context_free(&io_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  AVIOContext* io() { return io_; }

 private:
  static int Read(void* self, uint8_t* to, int size) {
    auto& reader = *static_cast<Reader*>(self);
    const int64_t n = reader.file_.read(reader.at_, to, size);
    if (n > 0) reader.at_ += n;
    return n == 0 ? AVERROR_EOF : n < 0 ? AVERROR(EIO) : static_cast<int>(n);
  }
  static int64_t Seek(void* self, int64_t offset, int whence) {
    auto& reader = *static_cast<Reader*>(self);
    if (whence == AVSEEK_SIZE) return reader.file_.bytes;
    if (whence != SEEK_SET || offset < 0 || offset > reader.file_.bytes) return AVERROR(EINVAL);
    return reader.at_ = offset;
  }

  const MediaFile& file_;
  AVIOContext* io_ = nullptr;
  int64_t at_ = 0;
};

// The demuxer or image codec for a file of each kind. No other is tried, whatever the file contains.
struct Means {
  const char* demuxer;  // null: the file is one packet
  AVCodecID image;
};
Means MeansOf(MediaKind kind) {
  switch (kind) {
    case MediaKind::kPng:
      return {nullptr, AV_CODEC_ID_PNG};
    case MediaKind::kJpeg:
      return {nullptr, AV_CODEC_ID_MJPEG};
    case MediaKind::kWebp:
      return {nullptr, AV_CODEC_ID_WEBP};
    case MediaKind::kMp4:
      return {"mov", AV_CODEC_ID_NONE};
    case MediaKind::kWebm:
      return {"matroska", AV_CODEC_ID_NONE};
    case MediaKind::kWav:
      return {"wav", AV_CODEC_ID_NONE};
    case MediaKind::kFlac:
      return {"flac", AV_CODEC_ID_NONE};
    case MediaKind::kMp3:
      return {"mp3", AV_CODEC_ID_NONE};
    case MediaKind::kAac:
      return {"aac", AV_CODEC_ID_NONE};
  }
  return {};
}

// Whether files of the accepted types are made with the codec.
bool IsTaken(AVCodecID codec) {
  switch (codec) {
    case AV_CODEC_ID_PNG:
    case AV_CODEC_ID_MJPEG:
    case AV_CODEC_ID_WEBP:
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_AV1:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AAC:
    case AV_CODEC_ID_MP3:
    case AV_CODEC_ID_OPUS:
    case AV_CODEC_ID_VORBIS:
    case AV_CODEC_ID_FLAC:
      return true;
    default:
      return codec >= AV_CODEC_ID_FIRST_AUDIO && codec < AV_CODEC_ID_ADPCM_IMA_QT;  // PCM
  }
}

// Returns the names of the accepted decoders, comma-separated, for libavformat, which also opens codecs to find out
// what the streams of a file are.
std::string TakenDecoders() {
  std::vector<std::string> names;
  void* at = nullptr;
  while (const AVCodec* codec = av_codec_iterate(&at)) {
    if (av_codec_is_decoder(codec) && IsTaken(codec->id)) names.emplace_back(codec->name);
  }
  return absl::StrJoin(names, ",");
}

absl::StatusOr<AvPtr<AVCodecContext>> OpenCodec(AVCodecID id, const AVCodecParameters* parameters) {
  const AVCodec* codec = IsTaken(id) ? avcodec_find_decoder(id) : nullptr;
  if (codec == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("its codec is ", avcodec_get_name(id), ", which is not supported"));
  }
  AvPtr<AVCodecContext> context(avcodec_alloc_context3(codec));
  if (context == nullptr) return absl::ResourceExhaustedError("no memory");
  if (parameters != nullptr && avcodec_parameters_to_context(context.get(), parameters) < 0)
    return Wrong("it is damaged");
  context->thread_count = 1;
  context->max_pixels = kMostPixels;
  context->err_recognition = AV_EF_CRCCHECK | AV_EF_EXPLODE;
  if (avcodec_open2(context.get(), codec, nullptr) < 0) return Wrong("its codec's settings are damaged");
  return context;
}

absl::Status CheckSize(const AVFrame& frame) {
  if (frame.width < 1 || frame.height < 1) return Wrong("it has a picture without pixels");
  if (int64_t{1} * frame.width * frame.height <= kMostPixels) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it has ", frame.width, " x ", frame.height, " pixels; at most ", kMostPixels, " are allowed"));
}

int OrientationOf(const AVFrame& frame) {
  const AVDictionaryEntry* entry = av_dict_get(frame.metadata, "Orientation", nullptr, 0);
  int orientation = 1;
  return entry != nullptr && absl::SimpleAtoi(entry->value, &orientation) ? orientation : 1;
}

absl::StatusOr<Picture> Prepare(const AVFrame& frame, const DecodeRequest& request) {
  KINORA_RETURN_IF_ERROR(CheckSize(frame));
  KINORA_ASSIGN_OR_RETURN(Picture picture, ImageToRgb(frame));
  picture = Upright(std::move(picture), OrientationOf(frame));
  if (const AVFrameSideData* profile = av_frame_get_side_data(&frame, AV_FRAME_DATA_ICC_PROFILE)) {
    ToSrgb({reinterpret_cast<const char*>(profile->data), profile->size}, picture);
  }
  if (request.crf > 0) return H264Pass(picture, request.crf);
  return picture;
}

absl::StatusOr<AvPtr<AVPacket>> WholeFile(const MediaFile& file) {
  if (file.bytes > kMostImageBytes) return Wrong("its file is larger than 128 MiB, the maximum for an image");
  AvPtr<AVPacket> packet(av_packet_alloc());
  if (packet == nullptr || av_new_packet(packet.get(), static_cast<int>(file.bytes)) < 0) {
    return absl::ResourceExhaustedError("no memory");
  }
  for (int64_t at = 0; at < file.bytes;) {
    const int64_t n = file.read(at, packet->data + at, file.bytes - at);
    if (n <= 0) return absl::UnavailableError("its file cannot be read");
    at += n;
  }
  return packet;
}

absl::Status DecodeImage(const MediaFile& file, const DecodeRequest& request, const DecodeSink& sink) {
  KINORA_ASSIGN_OR_RETURN(const AvPtr<AVPacket> packet, WholeFile(file));
  KINORA_ASSIGN_OR_RETURN(const AvPtr<AVCodecContext> codec, OpenCodec(MeansOf(request.kind).image, nullptr));
  const AvPtr<AVFrame> frame(av_frame_alloc());
  if (avcodec_send_packet(codec.get(), packet.get()) < 0 || avcodec_receive_frame(codec.get(), frame.get()) < 0) {
    if (int64_t{1} * codec->width * codec->height > kMostPixels) {
      return absl::InvalidArgumentError(absl::StrCat("it has ", codec->width, " x ", codec->height, " pixels; at most ",
                                                     kMostPixels, " are allowed"));
    }
    return Wrong("its image cannot be decoded: it is damaged, truncated, larger than 8192 x 8192 or an animation");
  }
  if (frame->decode_error_flags != 0) return Wrong("its image is damaged");
  KINORA_ASSIGN_OR_RETURN(const Picture picture, Prepare(*frame, request));
  sink.info({.width = picture.width, .height = picture.height});
  sink.picture(picture.rgb.data());
  return absl::OkStatus();
}

// Decodes one stream of a file, frame by frame.
class StreamDecoder {
 public:
  StreamDecoder(const MediaFile& file, AVMediaType type) : reader_(file), type_(type) {}

  absl::Status Open(MediaKind kind) {
    const AVInputFormat* format = av_find_input_format(MeansOf(kind).demuxer);
    AVFormatContext* context = avformat_alloc_context();
    if (format == nullptr || context == nullptr || reader_.io() == nullptr) return absl::UnavailableError("no demuxer");
    context->pb = reader_.io();
    context->flags |= AVFMT_FLAG_CUSTOM_IO;
    context->max_streams = 32;
    // Opens no other file, even if this one refers to it.
    context->protocol_whitelist = av_strdup("none");
    context->codec_whitelist = av_strdup(TakenDecoders().c_str());
    if (avformat_open_input(&context, "", format, nullptr) < 0) return Wrong("it is damaged or truncated");
    demuxer_.reset(context);
    KINORA_RETURN_IF_ERROR(FindStreams(context));
    const int found = av_find_best_stream(context, type_, -1, -1, nullptr, 0);
    if (found < 0 && type_ == AVMEDIA_TYPE_VIDEO) return Wrong("it has no picture");
    if (found < 0) return absl::OkStatus();
    stream_ = context->streams[found];
    KINORA_ASSIGN_OR_RETURN(codec_, OpenCodec(stream_->codecpar->codec_id, stream_->codecpar));
    return absl::OkStatus();
  }

  // The next frame; null at the end of the stream.
  absl::StatusOr<const AVFrame*> Next() {
    while (true) {
      const int code = avcodec_receive_frame(codec_.get(), frame_.get());
      if (code == 0) return frame_.get();
      if (code == AVERROR_EOF) return nullptr;
      if (code != AVERROR(EAGAIN)) return Wrong("it is damaged");
      if (avcodec_send_packet(codec_.get(), ReadPacket()) < 0) return Wrong("it is damaged");
      if (packets_ > kMostPackets) return Wrong("it has too many packets");
    }
  }

  double frames_per_second() const {
    const AVRational rate = stream_->avg_frame_rate;
    return rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0;
  }
  bool found() const { return stream_ != nullptr; }  // always true for pictures
  const AVStream& stream() const { return *stream_; }

 private:
  // libavformat decodes the first frames if a header is incomplete, so the limits of the later decoding apply here,
  // too.
  static absl::Status FindStreams(AVFormatContext* context) {
    std::vector<AVDictionary*> options(context->nb_streams, nullptr);
    for (AVDictionary*& of_stream : options) {
      av_dict_set_int(&of_stream, "max_pixels", kMostPixels, 0);
      av_dict_set(&of_stream, "threads", "1", 0);
    }
    const int code = avformat_find_stream_info(context, options.empty() ? nullptr : options.data());
    for (AVDictionary*& of_stream : options) av_dict_free(&of_stream);
    return code < 0 ? Wrong("it is damaged or truncated") : absl::OkStatus();
  }

  const AVPacket* ReadPacket() {  // null: the end, also of a truncated file
    while (packets_++ <= kMostPackets) {
      av_packet_unref(packet_.get());
      if (av_read_frame(demuxer_.get(), packet_.get()) < 0) return nullptr;
      if (packet_->stream_index == stream_->index) return packet_.get();
    }
    return nullptr;
  }

  Reader reader_;
  const AVMediaType type_;
  Demuxer demuxer_;
  AVStream* stream_ = nullptr;
  AvPtr<AVCodecContext> codec_;
  AvPtr<AVPacket> packet_{av_packet_alloc()};
  AvPtr<AVFrame> frame_{av_frame_alloc()};
  int64_t packets_ = 0;
};

int RotationOf(const AVStream& stream) {  // as an EXIF orientation
  const uint8_t* matrix = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, nullptr);
  if (matrix == nullptr) return 1;
  const double degrees = av_display_rotation_get(reinterpret_cast<const int32_t*>(matrix));
  if (!(degrees >= -360 && degrees <= 360)) return 1;
  const int quarters = (static_cast<int>(degrees + 360 + 45) / 90) % 4;  // counterclockwise
  return std::array{1, 8, 3, 6}[quarters];
}

// Checks picture number `pictures` of a clip.
absl::Status CheckOfClip(const Picture& picture, const MediaInfo& info, int32_t pictures) {
  if (picture.width != info.width || picture.height != info.height) return Wrong("its pictures change size");
  const int64_t most = kMostClipBytes / std::ssize(picture.rgb);
  if (pictures <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("its pictures of ", info.width, " x ", info.height,
                                                 " pixels are too large for that many: at most ", most,
                                                 " are allowed"));
}

absl::Status DecodeClip(const MediaFile& file, const DecodeRequest& request, const DecodeSink& sink) {
  StreamDecoder decoder(file, AVMEDIA_TYPE_VIDEO);
  KINORA_RETURN_IF_ERROR(decoder.Open(request.kind));
  const int orientation = RotationOf(decoder.stream());
  int32_t pictures = 0;
  MediaInfo info;
  while (pictures < request.most_pictures) {
    KINORA_ASSIGN_OR_RETURN(const AVFrame* frame, decoder.Next());
    if (frame == nullptr) break;
    KINORA_RETURN_IF_ERROR(CheckSize(*frame));
    KINORA_ASSIGN_OR_RETURN(Picture picture, FrameToRgb(*frame));
    picture = Upright(std::move(picture), orientation);
    if (pictures++ == 0) {
      info = {.width = picture.width, .height = picture.height, .frames_per_second = decoder.frames_per_second()};
      sink.info(info);
    }
    KINORA_RETURN_IF_ERROR(CheckOfClip(picture, info, pictures));
    sink.picture(picture.rgb.data());
  }
  return pictures > 0 ? absl::OkStatus() : Wrong("it has no picture");
}

// Converts frames of any sample format to interleaved float32, and sends no more than was requested.
class SoundWriter {
 public:
  SoundWriter(const DecodeRequest& request, const DecodeSink& sink) : request_(request), sink_(sink) {}

  absl::Status Add(const AVFrame& frame) {
    if (converter_ == nullptr) KINORA_RETURN_IF_ERROR(Begin(frame));
    if (frame.sample_rate != info_.samples_per_second || frame.ch_layout.nb_channels != info_.channels ||
        frame.format != format_) {
      return Wrong("its sound format changes");
    }
    std::vector<float> samples(static_cast<size_t>(frame.nb_samples) * info_.channels);
    auto* to = reinterpret_cast<uint8_t*>(samples.data());
    const int n = swr_convert(converter_.get(), &to, frame.nb_samples, const_cast<const uint8_t**>(frame.extended_data),
                              frame.nb_samples);
    if (n < 0) return Wrong("its sound is damaged");
    Send(samples.data(), std::min<int64_t>(n, left_));
    return absl::OkStatus();
  }
  bool full() const { return converter_ != nullptr && left_ == 0; }
  bool any() const { return converter_ != nullptr; }

 private:
  absl::Status Begin(const AVFrame& frame) {
    info_ = {.channels = frame.ch_layout.nb_channels, .samples_per_second = frame.sample_rate};
    if (info_.channels < 1 || info_.channels > kMostChannels) return Wrong("it has more than 8 channels, or none");
    if (info_.samples_per_second < 1 || info_.samples_per_second > kMostSamplesPerSecond) {
      return Wrong("its sample rate is above 384000 Hz, or 0");
    }
    format_ = frame.format;
    SwrContext* converter = nullptr;
    auto* layout = const_cast<AVChannelLayout*>(&frame.ch_layout);  // copied by swr_alloc_set_opts2
    if (swr_alloc_set_opts2(&converter, layout, AV_SAMPLE_FMT_FLT, frame.sample_rate, layout,
                            static_cast<AVSampleFormat>(frame.format), frame.sample_rate, 0, nullptr) < 0) {
      return Wrong("its sound format is not supported");
    }
    converter_.reset(converter);
    if (swr_init(converter) < 0) return Wrong("its sound format is not supported");
    left_ = static_cast<int64_t>(request_.most_seconds * info_.samples_per_second + 0.5);
    sink_.info(info_);
    return absl::OkStatus();
  }
  void Send(const float* samples, int64_t count) {
    left_ -= count;
    for (int64_t n; count > 0; count -= n, samples += n * info_.channels) {
      n = std::min<int64_t>(count, kMostSamples);
      sink_.samples(samples, n);
    }
  }

  const DecodeRequest& request_;
  const DecodeSink& sink_;
  MediaInfo info_;
  int format_ = -1;
  AvPtr<SwrContext> converter_;
  int64_t left_ = 0;
};

absl::Status DecodeSound(const MediaFile& file, const DecodeRequest& request, const DecodeSink& sink) {
  StreamDecoder decoder(file, AVMEDIA_TYPE_AUDIO);
  KINORA_RETURN_IF_ERROR(decoder.Open(request.kind));
  if (!decoder.found()) {
    if (request.kind != MediaKind::kMp4 && request.kind != MediaKind::kWebm) return Wrong("it has no sound");
    sink.info({});
    return absl::OkStatus();
  }
  SoundWriter writer(request, sink);
  while (!writer.full()) {
    KINORA_ASSIGN_OR_RETURN(const AVFrame* frame, decoder.Next());
    if (frame == nullptr) break;
    KINORA_RETURN_IF_ERROR(writer.Add(*frame));
  }
  return writer.any() ? absl::OkStatus() : Wrong("it has no sound");
}

}  // namespace

absl::Status Decode(const MediaFile& file, const DecodeRequest& request, const DecodeSink& sink) {
  QuietAv();
  bool failed = false;
  const MediaFile watched{.bytes = file.bytes, .read = [&](int64_t offset, uint8_t* to, int64_t size) {
                            const int64_t n = file.read(offset, to, size);
                            failed |= n < 0;
                            return n;
                          }};
  const bool image = MeansOf(request.kind).demuxer == nullptr;
  const absl::Status status = request.sound == 1 ? DecodeSound(watched, request, sink)
                              : image            ? DecodeImage(watched, request, sink)
                                                 : DecodeClip(watched, request, sink);
  return failed ? absl::UnavailableError("its file cannot be read") : status;
}

}  // namespace kinora
