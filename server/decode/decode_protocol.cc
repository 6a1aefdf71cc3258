#include "server/decode/decode_protocol.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

absl::Status Forged(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("its decoder sent an unexpected message: ", what));
}

bool HasPictures(MediaKind kind) { return kind <= MediaKind::kWebm; }
bool HasSound(MediaKind kind) { return kind >= MediaKind::kMp4; }

std::string Printable(std::string_view text) {
  std::string out(text.substr(0, kMostErrorBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return !absl::ascii_isprint(static_cast<unsigned char>(c)); }, '?');
  return out;
}

std::vector<float> Floats(const std::string& payload) {
  std::vector<float> out(payload.size() / sizeof(float));
  std::memcpy(out.data(), payload.data(), out.size() * sizeof(float));
  // NaN becomes -1: in a model it would spread to every value.
  for (float& x : out) x = x >= -1 ? std::min(x, 1.0f) : -1.0f;
  return out;
}

}  // namespace

absl::StatusOr<MediaKind> MediaKindOf(std::string_view media_type) {
  static constexpr std::pair<std::string_view, MediaKind> kKinds[] = {
      {"image/png", MediaKind::kPng}, {"image/jpeg", MediaKind::kJpeg}, {"image/webp", MediaKind::kWebp},
      {"video/mp4", MediaKind::kMp4}, {"audio/mp4", MediaKind::kMp4},   {"video/webm", MediaKind::kWebm},
      {"audio/wav", MediaKind::kWav}, {"audio/flac", MediaKind::kFlac}, {"audio/mpeg", MediaKind::kMp3},
      {"audio/aac", MediaKind::kAac}};
  for (const auto& [name, kind] : kKinds) {
    if (name == media_type) return kind;
  }
  return absl::InvalidArgumentError("media_type: not supported");
}

absl::Status CheckDecodeRequest(const DecodeRequest& request) {
  const auto within = [](auto value, auto least, auto most) { return value >= least && value <= most; };
  if (!within(request.kind, MediaKind::kPng, MediaKind::kAac)) return absl::InvalidArgumentError("kind: unknown");
  const bool sound = request.sound == 1;
  if (!within(request.sound, 0, 1) || !(sound ? HasSound(request.kind) : HasPictures(request.kind))) {
    return absl::InvalidArgumentError(sound ? "sound: an image has none" : "kind: a sound has no pictures");
  }
  if (sound) {
    return within(request.most_seconds, 0.0, kMostSeconds) ? absl::OkStatus()
                                                           : absl::InvalidArgumentError("most_seconds");
  }
  if (!within(request.crf, 0, 51)) return absl::InvalidArgumentError("crf: must be within 0..51");
  if (!within(request.most_pictures, 1, kMostPictures)) return absl::InvalidArgumentError("most_pictures");
  return absl::OkStatus();
}

absl::Status ReplyReader::Take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (done_) return Forged("more after the end");
    const size_t wanted = (in_message_ ? header_.bytes : sizeof(ReplyHeader)) - buffer_.size();
    const std::string_view part = bytes.substr(0, wanted);
    buffer_.append(part);
    bytes.remove_prefix(part.size());
    if (part.size() < wanted) break;
    if (!in_message_) {
      std::memcpy(&header_, buffer_.data(), sizeof(header_));
      buffer_.clear();
      KINORA_RETURN_IF_ERROR(CheckHeader(header_));
      buffer_.reserve(header_.bytes);
      in_message_ = true;
    }
    if (buffer_.size() < header_.bytes) continue;
    in_message_ = false;
    const std::string payload = std::exchange(buffer_, {});
    KINORA_RETURN_IF_ERROR(TakeMessage(header_.kind, payload));
  }
  return absl::OkStatus();
}

uint64_t ReplyReader::PictureBytes() const {
  return uint64_t{3} * static_cast<uint64_t>(info_.width) * static_cast<uint64_t>(info_.height);
}

// Called before any byte of the message is kept.
absl::Status ReplyReader::CheckHeader(const ReplyHeader& header) {
  if (!sandboxed_ && header.kind != ReplyKind::kSandboxed && header.kind != ReplyKind::kFault) {
    return Forged("an answer before its beginning");
  }
  switch (header.kind) {
    case ReplyKind::kSandboxed:
      return !sandboxed_ && header.bytes == 0 ? absl::OkStatus() : Forged("a beginning");
    case ReplyKind::kError:
    case ReplyKind::kFault:
      return header.bytes <= kMostErrorBytes ? absl::OkStatus() : Forged("a long error");
    case ReplyKind::kInfo:
      return !has_info_ && header.bytes == sizeof(MediaInfo) ? absl::OkStatus() : Forged("its description");
    case ReplyKind::kPicture:
      if (!has_info_ || request_.sound == 1 || pictures_ == request_.most_pictures) return Forged("a picture");
      if ((pictures_ + 1) * PictureBytes() > kMostClipBytes) return Forged("so many pictures");
      return header.bytes == PictureBytes() ? absl::OkStatus() : Forged("a picture of another size");
    case ReplyKind::kSamples: {
      if (!has_info_ || request_.sound == 0 || info_.channels == 0) return Forged("samples");
      const uint32_t one = sizeof(float) * static_cast<uint32_t>(info_.channels);
      const int64_t count = header.bytes / one;
      const double most = request_.most_seconds * info_.samples_per_second + 1;
      if (count < 1 || header.bytes % one != 0 || count > kMostSamples ||
          static_cast<double>(samples_ + count) > most) {
        return Forged("so many samples");
      }
      return absl::OkStatus();
    }
    case ReplyKind::kEnd:
      return has_info_ && header.bytes == 0 ? absl::OkStatus() : Forged("an end");
  }
  return Forged("a message of no kind");
}

bool ReplyReader::IsInfoAskedFor() const {
  if (!std::isfinite(info_.frames_per_second)) return false;
  const auto within = [](int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; };
  if (request_.sound == 0) {
    return info_.width >= 1 && info_.height >= 1 && within(int64_t{1} * info_.width * info_.height, 1, kMostPixels);
  }
  if (info_.channels == 0 && info_.samples_per_second == 0) return HasPictures(request_.kind);
  return within(info_.channels, 1, kMostChannels) && within(info_.samples_per_second, 1, kMostSamplesPerSecond);
}

absl::Status ReplyReader::TakeMessage(ReplyKind kind, const std::string& payload) {
  if (kind == ReplyKind::kError) return absl::InvalidArgumentError(Printable(payload));
  if (kind == ReplyKind::kFault) return absl::UnavailableError(absl::StrCat("kinora-decode: ", Printable(payload)));
  if (kind == ReplyKind::kSandboxed) {
    sandboxed_ = true;
  } else if (kind == ReplyKind::kEnd) {
    if (request_.sound == 0 && pictures_ == 0) return Forged("no picture");
    done_ = true;
  } else if (kind == ReplyKind::kInfo) {
    std::memcpy(&info_, payload.data(), sizeof(info_));
    if (!IsInfoAskedFor()) return Forged("its description");
    has_info_ = true;
    sink_.info(info_);
  } else if (kind == ReplyKind::kPicture) {
    ++pictures_;
    sink_.picture(reinterpret_cast<const uint8_t*>(payload.data()));
  } else {
    const int64_t count = static_cast<int64_t>(payload.size() / sizeof(float)) / info_.channels;
    samples_ += count;
    sink_.samples(Floats(payload).data(), count);
  }
  return absl::OkStatus();
}

}  // namespace kinora
