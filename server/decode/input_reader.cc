#include "server/decode/input_reader.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/base/uninterrupted.h"
#include "engine/request/given_sound.h"
#include "engine/request/sound_rates.h"
#include "server/common/human_text.h"
#include "server/request/media_type.h"

namespace kinora {
namespace {

absl::Status Wrong(const std::string& id, std::string_view what) {
  return absl::InvalidArgumentError(Cat("input ", id, ": ", what));
}

absl::StatusOr<MediaKind> KindOf(const std::string& id, int file) {
  std::string head(kMediaHead, '\0');
  const ssize_t n = Uninterrupted([&] { return pread(file, head.data(), head.size(), 0); });
  if (n < 0) return absl::UnavailableError(absl::StrCat("input ", id, ": its file cannot be read"));
  head.resize(n);
  const absl::StatusOr<MediaKind> kind = MediaKindOf(MediaTypeOf(head));
  return kind.ok() ? kind : Wrong(id, "it is not of a supported type");
}

bool IsImage(MediaKind kind) { return kind <= MediaKind::kWebp; }
bool IsSound(MediaKind kind) { return kind >= MediaKind::kWav; }

// Collects a sound of about `most` samples per channel. Reserved memory that is never written to costs nothing.
class SoundBuilder {
 public:
  SoundBuilder(const MediaInfo& info, int64_t most) : info_(info), channels_(info.channels) {
    for (std::vector<float>& channel : channels_)
      channel.reserve(most * (&channel == &channels_[0] ? info.channels : 1));
  }
  // Per sample of all channels. While Take joins the channels, it holds two copies of one.
  static int64_t BytesPerSample(const MediaInfo& info) {
    return static_cast<int64_t>(sizeof(float)) * (info.channels > 1 ? info.channels + 1 : info.channels);
  }

  void Add(const float* interleaved, int64_t count) {
    for (int64_t c = 0; c < info_.channels; ++c) {
      for (int64_t i = 0; i < count; ++i) channels_[c].push_back(interleaved[i * info_.channels + c]);
    }
  }
  AudioClip Take() {
    AudioClip clip{.channels = info_.channels,
                   .samples = std::ssize(channels_[0]),
                   .sample_rate = info_.samples_per_second,
                   .waveform = std::move(channels_[0])};
    for (int64_t c = 1; c < info_.channels; ++c) {
      const std::vector<float> channel = std::move(channels_[c]);
      clip.waveform.insert(clip.waveform.end(), channel.begin(), channel.end());
    }
    return clip;
  }

 private:
  const MediaInfo info_;
  std::vector<std::vector<float>> channels_;
};

// Reads one request's inputs, one after another, within their common limits. A file that is named twice is opened once,
// and its pictures are decoded once per crf and maximum number.
class Reader {
 public:
  explicit Reader(const InputSource& source) : source_(source) {}

  // Returns null for a clip without sound. `given`: the sound of audio-to-video, which the output file must be able to
  // hold.
  absl::StatusOr<std::shared_ptr<const AudioClip>> ReadSound(const std::string& id, double most_seconds, bool given) {
    KINORA_ASSIGN_OR_RETURN(const Opened* const opened, Open(id));
    if (IsImage(opened->kind)) return Wrong(id, "it is an image, but must be a sound or a clip");
    const DecodeRequest request{
        .kind = opened->kind, .sound = 1, .most_seconds = std::clamp(most_seconds, 0.0, kMostSeconds)};
    MediaInfo info;
    std::optional<SoundBuilder> sound;
    DecodeSink sink{.info =
                        [&](const MediaInfo& of_file) {
                          info = of_file;
                          if (info.channels == 0 || !Accept(CheckSound(info, given))) return;
                          const double most = request.most_seconds * info.samples_per_second + 1;
                          sound.emplace(
                              info, std::min(static_cast<int64_t>(most), Left() / SoundBuilder::BytesPerSample(info)));
                        },
                    .picture = {},
                    .samples =
                        [&](const float* more, int64_t count) {
                          if (Accept(Count(count * SoundBuilder::BytesPerSample(info)))) sound->Add(more, count);
                        }};
    KINORA_RETURN_IF_ERROR(Decode(id, *opened, request, std::move(sink)));
    if (!sound) return nullptr;
    return std::make_shared<const AudioClip>(sound->Take());
  }

  absl::StatusOr<std::shared_ptr<const PixelClip>> ReadPictures(const std::string& id, bool image, int32_t most,
                                                                int32_t crf) {
    KINORA_ASSIGN_OR_RETURN(const Opened* const opened, Open(id));
    if (IsImage(opened->kind) != image || IsSound(opened->kind)) {
      return Wrong(id, image ? "it is not an image" : "it is not a clip");
    }
    const DecodeRequest request{.kind = opened->kind, .crf = crf, .most_pictures = std::clamp(most, 1, kMostPictures)};
    std::shared_ptr<const PixelClip>& decoded = decoded_[{id, request.crf, request.most_pictures}];
    if (decoded != nullptr) return decoded;
    auto clip = std::make_shared<PixelClip>();
    int64_t bytes = 0;
    DecodeSink sink{.info =
                        [&](const MediaInfo& info) {
                          clip->width = info.width;
                          clip->height = info.height;
                          clip->frame_rate = info.frames_per_second;
                          bytes = int64_t{3} * info.width * info.height;
                          // The message with a picture is in memory beside it.
                          if (!Accept(2 * bytes <= Left() ? absl::OkStatus() : TooLarge())) return;
                          clip->rgb.reserve(std::min({bytes * request.most_pictures, kMostClipBytes, Left()}));
                        },
                    .picture =
                        [&](const uint8_t* rgb) {
                          if (!Accept(Count(bytes))) return;
                          clip->rgb.insert(clip->rgb.end(), rgb, rgb + bytes);
                          ++clip->frames;
                        },
                    .samples = {}};
    KINORA_RETURN_IF_ERROR(Decode(id, *opened, request, std::move(sink)));
    return decoded = std::move(clip);
  }

 private:
  struct Opened {
    FileDescriptor file;
    MediaKind kind = MediaKind::kPng;
  };

  absl::StatusOr<const Opened*> Open(const std::string& id) {
    if (const auto known = opened_.find(id); known != opened_.end()) return &known->second;
    Opened opened;
    KINORA_ASSIGN_OR_RETURN(opened.file, source_.open(id));
    KINORA_ASSIGN_OR_RETURN(opened.kind, KindOf(id, opened.file.get()));
    return &opened_.emplace(id, std::move(opened)).first->second;
  }

  // Decodes until the end or until Reject has an error.
  absl::Status Decode(const std::string& id, const Opened& opened, const DecodeRequest& request, DecodeSink sink) {
    DecoderOptions options = source_.decoder;
    const absl::Duration left = source_.limits.time - used_;
    if (left <= absl::ZeroDuration()) return TookTooLong(id);
    options.timeout = std::min(options.timeout, left);
    options.go_on = [this] {
      if (!error_.ok() || !source_.decoder.go_on) return error_;
      return source_.decoder.go_on();
    };
    const absl::Time begin = options.clock.Now();
    const absl::Status status = DecodeInput(options, id, opened.file.get(), request, std::move(sink));
    used_ += options.clock.Now() - begin;
    // A short answer may be complete before go_on is called.
    if (!error_.ok()) return Wrong(id, std::string(error_.message()));
    if (absl::IsInvalidArgument(status) && used_ >= source_.limits.time) return TookTooLong(id);
    return status;
  }
  // Records an error, which ends the decoding. Returns whether there is none.
  bool Accept(absl::Status status) {
    error_.Update(std::move(status));
    return error_.ok();
  }

  int64_t Left() const { return source_.limits.bytes - bytes_; }
  absl::Status Count(int64_t bytes) {
    bytes_ += bytes;
    return Left() >= 0 ? absl::OkStatus() : TooLarge();
  }
  absl::Status TooLarge() const {
    return absl::InvalidArgumentError(absl::StrCat("with it, the request's inputs take more than ",
                                                   HumanBytes(source_.limits.bytes),
                                                   " of memory; make it smaller or shorter"));
  }
  absl::Status TookTooLong(const std::string& id) const {
    return Wrong(id, absl::StrCat("with it, decoding the request's inputs takes more than ",
                                  absl::FormatDuration(source_.limits.time), "; use fewer or smaller inputs"));
  }
  absl::Status CheckSound(const MediaInfo& info, bool given) const {
    const int64_t channels = source_.limits.channels;
    if (channels != 0 && info.channels != 1 && info.channels != channels) {
      return absl::InvalidArgumentError(
          absl::StrCat(info.channels, " channels; this model takes ", channels, ", or one"));
    }
    const int32_t rate = info.samples_per_second;
    if (!given || (rate >= kLowestSampleRate && rate <= kHighestSampleRate)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(rate, " Hz; the clip's file supports ", kLowestSampleRate, " to ", kHighestSampleRate));
  }

  const InputSource& source_;
  int64_t bytes_ = 0;
  absl::Duration used_;
  absl::Status error_;  // about the input that is being decoded, then the last
  std::map<std::string, Opened> opened_;
  // Key: id, crf of the H.264 pass, most pictures.
  std::map<std::tuple<std::string, int32_t, int32_t>, std::shared_ptr<const PixelClip>> decoded_;
};

}  // namespace

int64_t InputBytes(int64_t memory, int64_t planned) {
  constexpr int64_t kLeast = int64_t{64} << 20;
  return std::clamp(std::min(memory / 8, memory - planned), kLeast, InputLimits().bytes);
}

bool NamesInputs(const GenerationRequest& request) {
  return !request.conditions.empty() || request.retake.has_value() || request.audio.has_value();
}

namespace {

// Calls `visit` with each member of the request that holds an input, in a fixed order.
template <typename Request, typename Visit>
void ForEachInput(Request& request, Visit visit) {
  for (auto& condition : request.conditions) visit(condition.pixels);
  if (request.retake.has_value()) {
    visit(request.retake->clip);
    visit(request.retake->audio);
  }
  if (request.audio.has_value()) visit(request.audio->audio);
}

std::array<int64_t, 3> ToNumbers(const PixelClip& clip) { return {clip.frames, clip.height, clip.width}; }
std::array<int64_t, 3> ToNumbers(const AudioClip& clip) { return {clip.channels, clip.samples, clip.sample_rate}; }
void FromNumbers(const int64_t* n, PixelClip& clip) { clip = {.frames = n[0], .height = n[1], .width = n[2]}; }
void FromNumbers(const int64_t* n, AudioClip& clip) {
  clip = {.channels = n[0], .samples = n[1], .sample_rate = static_cast<int32_t>(n[2])};
}

}  // namespace

std::vector<int64_t> MeasuresOf(const GenerationRequest& request) {
  std::vector<int64_t> out;
  ForEachInput(request, [&out](const auto& input) {
    std::array<int64_t, 3> numbers{};  // if there is no input
    if (input != nullptr) numbers = ToNumbers(*input);
    out.insert(out.end(), numbers.begin(), numbers.end());
  });
  return out;
}

void SetMeasures(const std::vector<int64_t>& measures, GenerationRequest& request) {
  const int64_t* at = measures.data();
  ForEachInput(request, [&at](auto& input) {
    std::decay_t<decltype(*input)> clip;
    FromNumbers(at, clip);
    input = at[0] == 0 ? nullptr : std::make_shared<const std::decay_t<decltype(*input)>>(std::move(clip));
    at += 3;
  });
}

absl::Status ReadInputs(const InputSource& source, GenerationRequest& request) {
  Reader reader(source);
  // Read as much as the length of the request; of a sound one second more, because of rounding.
  const bool known = request.frame_rate > 0 && request.num_frames > 0;
  int32_t frames = known ? request.num_frames : source.limits.frames;
  const double seconds = frames > 0 && request.frame_rate > 0 ? frames / request.frame_rate + 1 : kMostSeconds;
  if (frames <= 0) frames = kMostPictures;
  if (request.audio.has_value()) {  // first, because it may determine the request's length
    AudioGuide& guide = *request.audio;
    KINORA_ASSIGN_OR_RETURN(guide.audio,
                            reader.ReadSound(guide.input_id, guide.start_seconds + seconds, /*given=*/true));
    if (guide.audio == nullptr) return Wrong(guide.input_id, "it has no sound");
    const int64_t heard = FramesHeard(guide, request.frame_rate, /*frame_multiple=*/1);
    if (!known) frames = static_cast<int32_t>(std::clamp<int64_t>(heard, 1, frames));
  }
  for (ConditionInput& condition : request.conditions) {
    const bool image = condition.media == ConditionInput::Media::kImage;
    const int64_t behind = image ? 1 : int64_t{frames} - condition.frame;
    const int32_t most = static_cast<int32_t>(std::clamp<int64_t>(behind, 1, kMostPictures));
    KINORA_ASSIGN_OR_RETURN(
        condition.pixels, reader.ReadPictures(condition.input_id, image, most, image ? condition.crf.value_or(0) : 0));
  }
  if (request.retake.has_value()) {
    RetakeInput& retake = *request.retake;
    KINORA_ASSIGN_OR_RETURN(retake.clip, reader.ReadPictures(retake.input_id, /*image=*/false, frames, /*crf=*/0));
    KINORA_ASSIGN_OR_RETURN(retake.audio, reader.ReadSound(retake.input_id, seconds, /*given=*/false));
  }
  return absl::OkStatus();
}

}  // namespace kinora
