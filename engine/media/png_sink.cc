#include "engine/media/png_sink.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/media/frame_folder.h"
#include "engine/tensor/tensor.h"

namespace kinora {
namespace {

constexpr size_t kSignatureAndHeader = 8 + 4 + 4 + 13 + 4;  // the signature and the IHDR chunk, always first

void AppendBigEndian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift & 0xff));
}

std::string Chunk(std::string_view type, std::string_view data) {
  std::string out;
  AppendBigEndian(out, static_cast<uint32_t>(data.size()));
  out.append(type).append(data);
  AppendBigEndian(out, Crc32(std::string_view(out).substr(4)));
  return out;
}

std::string TextChunk(std::string_view keyword, std::string_view text) {
  if (text.empty()) return "";
  // keyword, its end, not compressed, method 0, no language, no translated keyword, UTF-8 text
  return Chunk("iTXt", std::string(keyword).append(std::string_view("\0\0\0\0\0", 5)).append(text));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PngEncoder>> PngEncoder::Create(int64_t width, int64_t height) {
  QuietAv();
  const AVCodec* codec = avcodec_find_encoder(AV_CODEC_ID_PNG);
  if (codec == nullptr) return absl::FailedPreconditionError("this libavcodec has no PNG encoder");
  auto encoder = std::make_unique<PngEncoder>();
  encoder->codec_.reset(avcodec_alloc_context3(codec));
  encoder->frame_.reset(av_frame_alloc());
  encoder->packet_.reset(av_packet_alloc());
  if (!encoder->codec_ || !encoder->frame_ || !encoder->packet_) return absl::ResourceExhaustedError("a PNG encoder");
  AVCodecContext& context = *encoder->codec_;
  context.width = static_cast<int>(width);
  context.height = static_cast<int>(height);
  context.pix_fmt = AV_PIX_FMT_RGB24;
  context.time_base = {1, 1};
  context.thread_count = 1;
  context.flags |= AV_CODEC_FLAG_BITEXACT;
  if (const int code = avcodec_open2(&context, codec, nullptr); code < 0)
    return AvError(code, "opening the PNG encoder");
  AVFrame& frame = *encoder->frame_;
  frame.width = context.width;
  frame.height = context.height;
  frame.format = AV_PIX_FMT_RGB24;
  if (const int code = av_frame_get_buffer(&frame, 0); code < 0) return AvError(code, "a PNG frame");
  return encoder;
}

absl::StatusOr<std::string> PngEncoder::Encode(const uint8_t* rgb, std::string_view comment,
                                               std::string_view description) {
  if (const int code = av_frame_make_writable(frame_.get()); code < 0) return AvError(code, "a PNG frame");
  const size_t row = 3 * static_cast<size_t>(codec_->width);
  for (int y = 0; y < codec_->height; ++y) {
    std::copy_n(rgb + y * row, row, frame_->data[0] + static_cast<ptrdiff_t>(y) * frame_->linesize[0]);
  }
  if (const int code = avcodec_send_frame(codec_.get(), frame_.get()); code < 0) return AvError(code, "encoding a PNG");
  if (const int code = avcodec_receive_packet(codec_.get(), packet_.get()); code < 0)
    return AvError(code, "encoding a PNG");
  const std::string_view png(reinterpret_cast<const char*>(packet_->data), packet_->size);
  KINORA_CHECK(png.size() > kSignatureAndHeader && png.substr(12, 4) == "IHDR");
  std::string out(png.substr(0, kSignatureAndHeader));
  out += Chunk("sRGB", std::string_view("\0", 1));
  out += TextChunk("Comment", comment) + TextChunk("Description", description);
  out += png.substr(kSignatureAndHeader);
  av_packet_unref(packet_.get());
  return out;
}

absl::Status PngSink::Begin(const ClipInfo& info) {
  info_ = info;
  if (info.width <= 0) return absl::InvalidArgumentError("PNG frames need a picture: the clip has sound only");
  KINORA_ASSIGN_OR_RETURN(encoder_, PngEncoder::Create(info.width, info.height));
  if (options_.container == Container::kPngFrames) {
    KINORA_ASSIGN_OR_RETURN(zip_, ZipWriter::Create(path_));
    return absl::OkStatus();
  }
  if (mkdir(path_.c_str(), 0777) != 0 && errno != EEXIST) return absl::ErrnoToStatus(errno, path_);
  struct stat folder;
  if (stat(path_.c_str(), &folder) != 0) return absl::ErrnoToStatus(errno, path_);
  return S_ISDIR(folder.st_mode) ? CheckFrameFolder(path_) : absl::InvalidArgumentError(path_ + " is not a folder");
}

absl::Status PngSink::Store(int64_t index, std::string_view png) {
  const std::string name = FrameName(index);
  if (zip_.has_value()) return zip_->Add(name, png);
  // Removes an older clip's frames only once this clip has a frame, so that a failed clip leaves no mixture.
  if (index == 0) KINORA_RETURN_IF_ERROR(RemoveFrames(path_));
  KINORA_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(absl::StrCat(path_, "/", name)));
  KINORA_RETURN_IF_ERROR(file->Write(png));
  return file->Commit();
}

absl::Status PngSink::Frames(int64_t first, const Tensor& rgb8) {
  KINORA_CHECK_EQ(first, next_frame_) << "frames must come in order";
  KINORA_CHECK(rgb8.shape() == Shape({rgb8.dim(0), info_.height, info_.width, 3})) << rgb8.shape().ToString();
  const int64_t frame_bytes = info_.height * info_.width * 3;
  for (int64_t i = 0; i < rgb8.dim(0); ++i) {
    KINORA_ASSIGN_OR_RETURN(const std::string png, encoder_->Encode(rgb8.data<uint8_t>() + i * frame_bytes,
                                                                    options_.parameters, options_.prompt));
    KINORA_RETURN_IF_ERROR(Store(next_frame_++, png));
  }
  return absl::OkStatus();
}

absl::Status PngSink::End() {
  if (next_frame_ != info_.num_frames) {
    return absl::InternalError(absl::StrCat(next_frame_, " of ", info_.num_frames, " frames came"));
  }
  return zip_.has_value() ? zip_->Finish() : absl::OkStatus();
}

}  // namespace kinora
