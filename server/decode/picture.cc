#include "server/decode/picture.h"

#include <lcms2.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/media/av.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
}

namespace kinora {
namespace {

// Layout of a packed pixel: its size, and the offset of the byte of each colour.
struct Packed {
  int bytes, red, green, blue;
};

const Packed* PackedOf(int format) {
  static constexpr std::pair<int, Packed> kFormats[] = {
      {AV_PIX_FMT_RGB24, {3, 0, 1, 2}},    {AV_PIX_FMT_RGBA, {4, 0, 1, 2}},    {AV_PIX_FMT_GRAY8, {1, 0, 0, 0}},
      {AV_PIX_FMT_YA8, {2, 0, 0, 0}},      {AV_PIX_FMT_RGB48BE, {6, 0, 2, 4}}, {AV_PIX_FMT_RGBA64BE, {8, 0, 2, 4}},
      {AV_PIX_FMT_GRAY16BE, {2, 0, 0, 0}}, {AV_PIX_FMT_YA16BE, {4, 0, 0, 0}},  {AV_PIX_FMT_ARGB, {4, 1, 2, 3}},
      {AV_PIX_FMT_BGRA, {4, 2, 1, 0}}};
  for (const auto& [name, packed] : kFormats) {
    if (name == format) return &packed;
  }
  return nullptr;
}

Picture Blank(int width, int height) {
  return {.width = width, .height = height, .rgb = std::vector<uint8_t>(size_t{3} * width * height)};
}

void Unpack(const AVFrame& frame, const Packed& packed, Picture& out) {
  uint8_t* to = out.rgb.data();
  for (int y = 0; y < frame.height; ++y) {
    const uint8_t* from = frame.data[0] + static_cast<ptrdiff_t>(y) * frame.linesize[0];
    for (int x = 0; x < frame.width; ++x, from += packed.bytes, to += 3) {
      to[0] = from[packed.red];
      to[1] = from[packed.green];
      to[2] = from[packed.blue];
    }
  }
}

void UnpackPalette(const AVFrame& frame, Picture& out) {
  uint8_t* to = out.rgb.data();
  for (int y = 0; y < frame.height; ++y) {
    const uint8_t* from = frame.data[0] + static_cast<ptrdiff_t>(y) * frame.linesize[0];
    for (int x = 0; x < frame.width; ++x, to += 3) {
      uint32_t argb;
      std::memcpy(&argb, frame.data[1] + 4 * from[x], sizeof(argb));
      to[0] = argb >> 16 & 0xff;
      to[1] = argb >> 8 & 0xff;
      to[2] = argb & 0xff;
    }
  }
}

// One bit per pixel, the most significant first; 1 is white.
void UnpackBits(const AVFrame& frame, Picture& out) {
  uint8_t* to = out.rgb.data();
  for (int y = 0; y < frame.height; ++y) {
    const uint8_t* from = frame.data[0] + static_cast<ptrdiff_t>(y) * frame.linesize[0];
    for (int x = 0; x < frame.width; ++x, to += 3) {
      std::memset(to, (from[x / 8] >> (7 - x % 8) & 1) != 0 ? 255 : 0, 3);
    }
  }
}

AvPtr<SwsContext> MakeConverter(const AVFrame& from, AVPixelFormat to) {
  AvPtr<SwsContext> converter(sws_alloc_context());
  if (converter == nullptr) return nullptr;
  const auto set = [&](const char* name, int64_t value) { av_opt_set_int(converter.get(), name, value, 0); };
  set("srcw", from.width);
  set("srch", from.height);
  set("src_format", from.format);
  set("dstw", from.width);
  set("dsth", from.height);
  set("dst_format", to);
  set("sws_flags", SWS_BILINEAR);  // as in the reference's PyAV
  if (sws_init_context(converter.get(), nullptr, nullptr) < 0) return nullptr;
  const bool full = from.color_range == AVCOL_RANGE_JPEG;
  const int matrix = from.colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_ITU601 : static_cast<int>(from.colorspace);
  const int* coefficients = sws_getCoefficients(matrix);
  sws_setColorspaceDetails(converter.get(), coefficients, full ? 1 : 0, coefficients, 0, 0, 1 << 16, 1 << 16);
  return converter;
}

absl::Status Scale(const AVFrame& frame, Picture& out) {
  const AvPtr<SwsContext> converter = MakeConverter(frame, AV_PIX_FMT_RGB24);
  if (converter == nullptr) return absl::InvalidArgumentError("its pixel format is not supported");
  // The converter may write a few bytes beyond a row's pixels.
  AvPtr<AVFrame> rgb(av_frame_alloc());
  if (rgb == nullptr) return absl::ResourceExhaustedError("no memory");
  rgb->format = AV_PIX_FMT_RGB24;
  rgb->width = frame.width;
  rgb->height = frame.height;
  if (av_frame_get_buffer(rgb.get(), 0) < 0) return absl::ResourceExhaustedError("no memory");
  if (sws_scale(converter.get(), frame.data, frame.linesize, 0, frame.height, rgb->data, rgb->linesize) < 0) {
    return absl::InvalidArgumentError("its pixels cannot be converted");
  }
  Unpack(*rgb, *PackedOf(AV_PIX_FMT_RGB24), out);
  return absl::OkStatus();
}

bool IsPlanarYuv8(const AVFrame& frame) {
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  constexpr uint64_t kOthers = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_HWACCEL |
                               AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_FLOAT;
  if (format == nullptr || (format->flags & kOthers) != 0 || (format->flags & AV_PIX_FMT_FLAG_PLANAR) == 0)
    return false;
  if (format->nb_components < 3 || format->log2_chroma_w > 2 || format->log2_chroma_h > 2) return false;
  for (int c = 0; c < 3; ++c) {
    const AVComponentDescriptor& component = format->comp[c];
    if (component.plane != c || component.step != 1 || component.offset != 0 || component.depth != 8) return false;
  }
  return true;
}

// The position of a fine sample between two samples of a coarser row or column.
struct Between {
  int low, high;
  float share;  // of the higher one
};
std::vector<Between> Spread(int count, int log2) {
  const int coarse = (count + (1 << log2) - 1) >> log2;
  std::vector<Between> out(count);
  for (int i = 0; i < count; ++i) {
    const float at = (static_cast<float>(i) + 0.5f) / static_cast<float>(1 << log2) - 0.5f;
    const int low = static_cast<int>(std::floor(at));
    out[i] = {.low = std::clamp(low, 0, coarse - 1),
              .high = std::clamp(low + 1, 0, coarse - 1),
              .share = at - static_cast<float>(low)};
  }
  return out;
}

uint8_t Rounded(float x) { return static_cast<uint8_t>(std::clamp(x + 0.5f, 0.0f, 255.0f)); }

// A chroma plane of a frame, a row at a time.
class ChromaPlane {
 public:
  ChromaPlane(const AVFrame& frame, int plane, int columns)
      : data_(frame.data[plane]), stride_(frame.linesize[plane]), mixed_(columns) {}

  // Interpolates between two rows. Every share is a multiple of 1/8, so that no sum of samples is rounded.
  void MoveTo(const Between& row) {
    const uint8_t* low = data_ + stride_ * row.low;
    const uint8_t* high = data_ + stride_ * row.high;
    for (size_t x = 0; x < mixed_.size(); ++x) {
      mixed_[x] = (1 - row.share) * static_cast<float>(low[x]) + row.share * static_cast<float>(high[x]);
    }
  }
  float At(const Between& column) const {
    return (1 - column.share) * mixed_[column.low] + column.share * mixed_[column.high];
  }

 private:
  const uint8_t* data_;
  ptrdiff_t stride_;
  std::vector<float> mixed_;  // of the current row
};

void SpreadColours(const AVFrame& frame, Picture& out) {
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  const std::vector<Between> columns = Spread(frame.width, format->log2_chroma_w);
  const std::vector<Between> rows = Spread(frame.height, format->log2_chroma_h);
  const bool full = frame.color_range == AVCOL_RANGE_JPEG || frame.format == AV_PIX_FMT_YUVJ420P ||
                    frame.format == AV_PIX_FMT_YUVJ422P || frame.format == AV_PIX_FMT_YUVJ444P ||
                    frame.format == AV_PIX_FMT_YUVJ440P || frame.format == AV_PIX_FMT_YUVJ411P;
  const float black = full ? 0 : 16, light = full ? 1 : 255.0f / 219, colour = full ? 1 : 255.0f / 224;
  const int coarse = columns.back().high + 1;
  ChromaPlane blues(frame, 1, coarse), reds(frame, 2, coarse);
  uint8_t* to = out.rgb.data();
  for (int y = 0; y < frame.height; ++y) {
    blues.MoveTo(rows[y]);
    reds.MoveTo(rows[y]);
    const uint8_t* luma = frame.data[0] + static_cast<ptrdiff_t>(y) * frame.linesize[0];
    for (int x = 0; x < frame.width; ++x, to += 3) {
      const float grey = light * (luma[x] - black);
      const float blue = colour * (blues.At(columns[x]) - 128), red = colour * (reds.At(columns[x]) - 128);
      to[0] = Rounded(grey + 1.402f * red);
      to[1] = Rounded(grey - 0.344136f * blue - 0.714136f * red);
      to[2] = Rounded(grey + 1.772f * blue);
    }
  }
}

}  // namespace

absl::StatusOr<Picture> ImageToRgb(const AVFrame& frame) {
  Picture out = Blank(frame.width, frame.height);
  if (const Packed* packed = PackedOf(frame.format)) {
    Unpack(frame, *packed, out);
  } else if (frame.format == AV_PIX_FMT_PAL8) {
    UnpackPalette(frame, out);
  } else if (frame.format == AV_PIX_FMT_MONOBLACK) {
    UnpackBits(frame, out);
  } else if (IsPlanarYuv8(frame)) {
    SpreadColours(frame, out);
  } else {
    KINORA_RETURN_IF_ERROR(Scale(frame, out));
  }
  return out;
}

absl::StatusOr<Picture> FrameToRgb(const AVFrame& frame) {
  Picture out = Blank(frame.width, frame.height);
  KINORA_RETURN_IF_ERROR(Scale(frame, out));
  return out;
}

Picture Upright(Picture picture, int orientation) {
  if (orientation != 3 && orientation != 6 && orientation != 8) return picture;
  const bool half = orientation == 3;
  Picture out = half ? Blank(picture.width, picture.height) : Blank(picture.height, picture.width);
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      // In orientation 6 the top of `picture` becomes the right side, in 8 the left.
      const int from_y = half ? picture.height - 1 - y : orientation == 6 ? picture.height - 1 - x : x;
      const int from_x = half ? picture.width - 1 - x : orientation == 6 ? y : picture.width - 1 - y;
      std::memcpy(&out.rgb[3 * (size_t{1} * y * out.width + x)],
                  &picture.rgb[3 * (size_t{1} * from_y * picture.width + from_x)], 3);
    }
  }
  return out;
}

void ToSrgb(std::string_view profile, Picture& picture) {
  using Profile = std::unique_ptr<void, decltype(&cmsCloseProfile)>;
  const Profile from(cmsOpenProfileFromMem(profile.data(), static_cast<cmsUInt32Number>(profile.size())),
                     &cmsCloseProfile);
  const Profile to(cmsCreate_sRGBProfile(), &cmsCloseProfile);
  if (from == nullptr || to == nullptr || cmsGetColorSpace(from.get()) != cmsSigRgbData) return;
  const std::unique_ptr<void, decltype(&cmsDeleteTransform)> transform(
      cmsCreateTransform(from.get(), TYPE_RGB_8, to.get(), TYPE_RGB_8, INTENT_PERCEPTUAL, 0), &cmsDeleteTransform);
  if (transform == nullptr) return;
  const size_t row = size_t{3} * picture.width;
  for (int y = 0; y < picture.height; ++y) {
    uint8_t* pixels = picture.rgb.data() + row * y;
    cmsDoTransform(transform.get(), pixels, pixels, static_cast<cmsUInt32Number>(picture.width));
  }
}

namespace {

absl::StatusOr<AvPtr<AVFrame>> ToYuv(const Picture& picture, int width, int height) {
  AvPtr<AVFrame> rgb(av_frame_alloc()), yuv(av_frame_alloc());
  if (rgb == nullptr || yuv == nullptr) return absl::ResourceExhaustedError("no memory");
  rgb->format = AV_PIX_FMT_RGB24;
  yuv->format = AV_PIX_FMT_YUV420P;
  rgb->width = yuv->width = width;
  rgb->height = yuv->height = height;
  if (av_frame_get_buffer(yuv.get(), 0) < 0) return absl::ResourceExhaustedError("no memory");
  rgb->data[0] = const_cast<uint8_t*>(picture.rgb.data());
  rgb->linesize[0] = 3 * picture.width;
  const AvPtr<SwsContext> converter = MakeConverter(*rgb, AV_PIX_FMT_YUV420P);
  if (converter == nullptr ||
      sws_scale(converter.get(), rgb->data, rgb->linesize, 0, height, yuv->data, yuv->linesize) < 0) {
    return absl::InvalidArgumentError("it cannot be converted for the H.264 pass");
  }
  return yuv;
}

// Returns all packets of the encoder for one frame.
absl::StatusOr<std::vector<AvPtr<AVPacket>>> Encode(const AVFrame& frame, int crf) {
  const AVCodec* codec = avcodec_find_encoder_by_name("libx264");
  if (codec == nullptr) return absl::UnavailableError("this build of libavcodec has no libx264, for the H.264 pass");
  const AvPtr<AVCodecContext> encoder(avcodec_alloc_context3(codec));
  encoder->width = frame.width;
  encoder->height = frame.height;
  encoder->pix_fmt = AV_PIX_FMT_YUV420P;
  encoder->time_base = {1, 1};
  encoder->thread_count = 1;
  av_opt_set(encoder->priv_data, "preset", "veryfast", 0);
  av_opt_set_double(encoder->priv_data, "crf", crf, 0);
  av_opt_set(encoder->priv_data, "x264-params", X264Instructions().c_str(), 0);
  std::vector<AvPtr<AVPacket>> packets;
  if (avcodec_open2(encoder.get(), codec, nullptr) < 0)
    return absl::InvalidArgumentError("too large for the H.264 pass");
  for (const AVFrame* in : {&frame, static_cast<const AVFrame*>(nullptr)}) {
    if (avcodec_send_frame(encoder.get(), in) < 0) return absl::InternalError("the H.264 pass failed");
    while (true) {
      AvPtr<AVPacket> packet(av_packet_alloc());
      if (avcodec_receive_packet(encoder.get(), packet.get()) < 0) break;
      packets.push_back(std::move(packet));
    }
  }
  return packets;
}

}  // namespace

absl::StatusOr<Picture> H264Pass(const Picture& picture, int crf) {
  const int width = picture.width / 2 * 2, height = picture.height / 2 * 2;
  if (width == 0 || height == 0)
    return absl::InvalidArgumentError("a side of one pixel is too small for the H.264 pass; set crf 0");
  KINORA_ASSIGN_OR_RETURN(const AvPtr<AVFrame> yuv, ToYuv(picture, width, height));
  yuv->pts = 0;
  KINORA_ASSIGN_OR_RETURN(auto packets, Encode(*yuv, crf));
  const AVCodec* codec = avcodec_find_decoder(AV_CODEC_ID_H264);
  const AvPtr<AVCodecContext> decoder(avcodec_alloc_context3(codec));
  decoder->thread_count = 1;
  if (avcodec_open2(decoder.get(), codec, nullptr) < 0) return absl::InternalError("the H.264 pass failed");
  const AvPtr<AVFrame> decoded(av_frame_alloc());
  packets.push_back(nullptr);  // the end
  for (const AvPtr<AVPacket>& packet : packets) {
    if (avcodec_send_packet(decoder.get(), packet.get()) < 0) return absl::InternalError("the H.264 pass failed");
    if (avcodec_receive_frame(decoder.get(), decoded.get()) >= 0) return FrameToRgb(*decoded);
  }
  return absl::InternalError("the H.264 pass gave no frame");
}

}  // namespace kinora
