#include "tests/media/clip_fixtures.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <sstream>

#include "engine/base/status_macros.h"

namespace kinora {
namespace {

void AppendPlane(const AVFrame& frame, int plane, std::vector<std::vector<uint8_t>>& out) {
  const int shift = plane == 0 ? 0 : 1;
  const int width = frame.width >> shift, height = frame.height >> shift;
  std::vector<uint8_t>& pixels = out.emplace_back();
  for (int y = 0; y < height; ++y) {
    const uint8_t* row = frame.data[plane] + static_cast<ptrdiff_t>(y) * frame.linesize[plane];
    pixels.insert(pixels.end(), row, row + width);
  }
}

std::vector<uint8_t> ToRgb(const AVFrame& frame) {
  SwsContext* scaler =
      sws_getContext(frame.width, frame.height, static_cast<AVPixelFormat>(frame.format), frame.width, frame.height,
                     AV_PIX_FMT_RGB24, SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, nullptr, nullptr, nullptr);
  const int* bt709 = sws_getCoefficients(SWS_CS_ITU709);
  sws_setColorspaceDetails(scaler, bt709, frame.format == AV_PIX_FMT_RGB24, bt709, 1, 0, 1 << 16, 1 << 16);
  std::vector<uint8_t> rgb(static_cast<size_t>(frame.width) * frame.height * 3);
  uint8_t* data[] = {rgb.data()};
  const int stride[] = {3 * frame.width};
  sws_scale(scaler, frame.data, frame.linesize, 0, frame.height, data, stride);
  sws_freeContext(scaler);
  return rgb;
}

void TakePicture(const AVFrame& frame, AVRational time_base, DecodedMovie& movie) {
  AppendPlane(frame, 0, movie.luma);
  AppendPlane(frame, 1, movie.cb);
  AppendPlane(frame, 2, movie.cr);
  movie.rgb.push_back(ToRgb(frame));
  movie.frame_seconds.push_back(static_cast<double>(frame.pts) * av_q2d(time_base));
}

void TakeSound(const AVFrame& frame, DecodedMovie& movie) {
  KINORA_CHECK(frame.format == AV_SAMPLE_FMT_FLTP) << frame.format;
  const auto* samples = reinterpret_cast<const float*>(frame.data[0]);
  movie.sound.insert(movie.sound.end(), samples, samples + frame.nb_samples);
}

// Sends one packet (null marks the end) and receives the decoded frames.
void Decode(AVCodecContext* decoder, const AVPacket* packet, AVRational time_base, DecodedMovie& movie) {
  KINORA_CHECK(avcodec_send_packet(decoder, packet) >= 0);
  AVFrame* frame = av_frame_alloc();
  while (avcodec_receive_frame(decoder, frame) >= 0) {
    decoder->codec_type == AVMEDIA_TYPE_VIDEO ? TakePicture(*frame, time_base, movie) : TakeSound(*frame, movie);
  }
  av_frame_free(&frame);
}

void Describe(const AVStream& stream, DecodedMovie& movie) {
  const AVCodecParameters& p = *stream.codecpar;
  const double seconds = static_cast<double>(stream.duration) * av_q2d(stream.time_base);
  if (p.codec_type == AVMEDIA_TYPE_VIDEO) {
    movie.video_codec = avcodec_get_name(p.codec_id);
    movie.pixel_format = av_get_pix_fmt_name(static_cast<AVPixelFormat>(p.format));
    movie.range = av_color_range_name(p.color_range);
    movie.space = av_color_space_name(p.color_space);
    movie.primaries = av_color_primaries_name(p.color_primaries);
    movie.transfer = av_color_transfer_name(p.color_trc);
    movie.frame_rate = av_q2d(stream.avg_frame_rate);
    movie.video_seconds = seconds;
  } else {
    movie.audio_codec = avcodec_get_name(p.codec_id);
    movie.sample_rate = p.sample_rate;
    movie.audio_seconds = seconds;
    movie.audio_start = static_cast<double>(stream.start_time) * av_q2d(stream.time_base);
  }
}

}  // namespace

Tensor TestClip::FrameTensor(int64_t begin, int64_t end) {
  return Tensor(DType::kU8, {info.num_frames, info.height, info.width, 3}, rgb.data()).Rows(begin, end);
}

Tensor TestClip::WaveformTensor() {
  return Tensor(DType::kF32, {info.audio_channels, info.audio_samples}, waveform.data());
}

TestClip MakeTestClip(ClipInfo info) {
  TestClip clip = MakeFlatClip(info, 0, 0, 0);
  size_t i = 0;
  for (int64_t f = 0; f < info.num_frames; ++f) {
    for (int64_t y = 0; y < info.height; ++y) {
      for (int64_t x = 0; x < info.width; ++x) {
        const bool square = x / 8 == f % (info.width / 8) && y / 8 == 1;
        clip.rgb[i++] = static_cast<uint8_t>(square ? 255 : 40 + 100 * x / info.width);
        clip.rgb[i++] = static_cast<uint8_t>(square ? 255 : 60 + 100 * y / info.height);
        clip.rgb[i++] = static_cast<uint8_t>(square ? 255 : 80 + 2 * f);
      }
    }
  }
  for (int64_t c = 0; c < info.audio_channels; ++c) {
    for (int64_t s = 0; s < info.audio_samples; ++s) {
      const double phase = 2 * std::numbers::pi * (440.0 + 220.0 * c) * s / info.audio_sample_rate;
      clip.waveform[c * info.audio_samples + s] = static_cast<float>(0.5 * std::sin(phase));
    }
  }
  return clip;
}

TestClip MakeFlatClip(ClipInfo info, uint8_t red, uint8_t green, uint8_t blue) {
  TestClip clip{.info = info, .rgb = {}, .waveform = std::vector<float>(info.audio_channels * info.audio_samples)};
  for (int64_t i = 0; i < info.num_frames * info.height * info.width; ++i) {
    clip.rgb.insert(clip.rgb.end(), {red, green, blue});
  }
  return clip;
}

absl::Status WriteClip(TestClip& clip, ClipSink& sink) {
  KINORA_RETURN_IF_ERROR(sink.Begin(clip.info));
  for (int64_t f = 0; f < clip.info.num_frames; f += 3) {
    KINORA_RETURN_IF_ERROR(sink.Frames(f, clip.FrameTensor(f, std::min(f + 3, clip.info.num_frames))));
  }
  if (clip.info.audio_channels > 0) KINORA_RETURN_IF_ERROR(sink.Audio(clip.WaveformTensor()));
  return sink.End();
}

absl::Status WriteClip(TestClip& clip, const std::string& path, const FileSinkOptions& options) {
  return WriteClip(clip, *MakeFileSink(path, options));
}

DecodedMovie DecodeMovie(const std::string& path) {
  DecodedMovie movie;
  AVFormatContext* file = nullptr;
  KINORA_CHECK(avformat_open_input(&file, path.c_str(), nullptr, nullptr) >= 0) << path;
  KINORA_CHECK(avformat_find_stream_info(file, nullptr) >= 0);
  for (const AVDictionaryEntry* e = nullptr;
       (e = av_dict_get(file->metadata, "", e, AV_DICT_IGNORE_SUFFIX)) != nullptr;) {
    movie.metadata[e->key] = e->value;
  }
  std::vector<AVCodecContext*> decoders;
  for (unsigned i = 0; i < file->nb_streams; ++i) {
    const AVStream& stream = *file->streams[i];
    Describe(stream, movie);
    const AVCodec* codec = avcodec_find_decoder(stream.codecpar->codec_id);
    AVCodecContext* decoder = decoders.emplace_back(avcodec_alloc_context3(codec));
    KINORA_CHECK(avcodec_parameters_to_context(decoder, stream.codecpar) >= 0);
    decoder->pkt_timebase = stream.time_base;
    KINORA_CHECK(avcodec_open2(decoder, codec, nullptr) >= 0);
  }
  AVPacket* packet = av_packet_alloc();
  while (av_read_frame(file, packet) >= 0) {
    const int i = packet->stream_index;
    Decode(decoders[i], packet, file->streams[i]->time_base, movie);
    av_packet_unref(packet);
  }
  for (unsigned i = 0; i < decoders.size(); ++i) {
    Decode(decoders[i], nullptr, file->streams[i]->time_base, movie);
    avcodec_free_context(&decoders[i]);
  }
  av_packet_free(&packet);
  avformat_close_input(&file);
  return movie;
}

std::vector<uint8_t> DecodePng(std::string_view png, int64_t& width, int64_t& height) {
  const AVCodec* codec = avcodec_find_decoder(AV_CODEC_ID_PNG);
  AVCodecContext* decoder = avcodec_alloc_context3(codec);
  KINORA_CHECK(avcodec_open2(decoder, codec, nullptr) >= 0);
  AVPacket* packet = av_packet_alloc();
  KINORA_CHECK(av_new_packet(packet, static_cast<int>(png.size())) >= 0);
  std::copy(png.begin(), png.end(), packet->data);
  AVFrame* frame = av_frame_alloc();
  KINORA_CHECK(avcodec_send_packet(decoder, packet) >= 0);
  KINORA_CHECK(avcodec_receive_frame(decoder, frame) >= 0);
  KINORA_CHECK(frame->format == AV_PIX_FMT_RGB24) << frame->format;
  width = frame->width;
  height = frame->height;
  std::vector<uint8_t> rgb;
  for (int y = 0; y < frame->height; ++y) {
    const uint8_t* row = frame->data[0] + static_cast<ptrdiff_t>(y) * frame->linesize[0];
    rgb.insert(rgb.end(), row, row + 3 * static_cast<ptrdiff_t>(frame->width));
  }
  av_frame_free(&frame);
  av_packet_free(&packet);
  avcodec_free_context(&decoder);
  return rgb;
}

double Psnr(const std::vector<uint8_t>& a, const uint8_t* b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return sum == 0 ? INFINITY : 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  KINORA_CHECK(file.good()) << path;
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

std::string TempPath(const std::string& name) {
  struct Folder {
    std::string path = testing::TempDir() + "kinora_media_" + std::to_string(getpid());
    Folder() { std::filesystem::create_directory(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder folder;
  return folder.path + "/" + name;
}

}  // namespace kinora
