#include "server/decode/input_reader.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/request/given_sound.h"
#include "server/common/media_type.h"

namespace kinora {
namespace {

absl::Status Wrong(const std::string& id, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("input ", id, ": ", what));
}

absl::StatusOr<MediaKind> KindOf(const std::string& id, int file) {
  std::string head(kMediaHead, '\0');
  ssize_t n;
  do n = pread(file, head.data(), head.size(), 0);
  while (n < 0 && errno == EINTR);
  if (n < 0) return absl::UnavailableError(absl::StrCat("input ", id, ": its file cannot be read"));
  head.resize(n);
  const absl::StatusOr<MediaKind> kind = MediaKindOf(MediaTypeOf(head));
  return kind.ok() ? kind : Wrong(id, "it is of no type that is taken");
}

bool IsImage(MediaKind kind) { return kind <= MediaKind::kWebp; }
bool IsSound(MediaKind kind) { return kind >= MediaKind::kWav; }

// One request's inputs, one after another, within a bound for all of them. What is named twice is opened, and as
// pictures of one kind decoded, once.
class Reader {
 public:
  explicit Reader(const InputSource& source) : source_(source) {}

  // Null: a clip without sound.
  absl::StatusOr<std::shared_ptr<const AudioClip>> ReadSound(const std::string& id, double most_seconds) {
    KINORA_ASSIGN_OR_RETURN(const Opened* const opened, Open(id));
    if (IsImage(opened->kind)) return Wrong(id, "it is an image; a sound or a clip is needed");
    const DecodeRequest request{
        .kind = opened->kind, .sound = 1, .most_seconds = std::clamp(most_seconds, 0.0, kMostSeconds)};
    MediaInfo info;
    std::vector<float> samples;  // interleaved
    absl::Status room;
    DecodeSink sink{.info = [&](const MediaInfo& of_file) { info = of_file; },
                    .picture = {},
                    .samples =
                        [&](const float* more, int64_t count) {
                          room.Update(Count(id, count * info.channels * static_cast<int64_t>(sizeof(float))));
                          if (room.ok()) samples.insert(samples.end(), more, more + count * info.channels);
                        }};
    KINORA_RETURN_IF_ERROR(Decode(id, *opened, request, std::move(sink)));
    KINORA_RETURN_IF_ERROR(room);
    if (info.channels == 0) return nullptr;
    return std::make_shared<const AudioClip>(ToClip(info, samples));
  }

  absl::StatusOr<std::shared_ptr<const PixelClip>> ReadPictures(const std::string& id, bool image, int32_t most,
                                                                int32_t crf) {
    KINORA_ASSIGN_OR_RETURN(const Opened* const opened, Open(id));
    if (IsImage(opened->kind) != image || IsSound(opened->kind)) {
      return Wrong(id, image ? "it is no image" : "it is no clip");
    }
    const DecodeRequest request{.kind = opened->kind, .crf = crf, .most_pictures = std::clamp(most, 1, kMostPictures)};
    std::shared_ptr<const PixelClip>& decoded = decoded_[{id, request.crf, request.most_pictures}];
    if (decoded != nullptr) return decoded;
    auto clip = std::make_shared<PixelClip>();
    int64_t bytes = 0;
    absl::Status room;
    DecodeSink sink{.info =
                        [&](const MediaInfo& info) {
                          clip->width = info.width;
                          clip->height = info.height;
                          clip->frame_rate = info.frames_per_second;
                          bytes = int64_t{3} * info.width * info.height;
                        },
                    .picture = {},
                    .samples = {},
                    .pixels =
                        [&](const uint8_t* rgb) {
                          room.Update(Count(id, bytes));
                          if (!room.ok()) return;
                          clip->rgb.insert(clip->rgb.end(), rgb, rgb + bytes);
                          ++clip->frames;
                        }};
    KINORA_RETURN_IF_ERROR(Decode(id, *opened, request, std::move(sink)));
    KINORA_RETURN_IF_ERROR(room);
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
  absl::Status Decode(const std::string& id, const Opened& opened, const DecodeRequest& request, DecodeSink sink) {
    return DecodeInput(source_.decoder, id, opened.file.get(), request, std::move(sink));
  }
  absl::Status Count(const std::string& id, int64_t bytes) {
    bytes_ += bytes;
    return bytes_ <= kMostRequestBytes ? absl::OkStatus()
                                       : Wrong(id, "with it the request's inputs take more than 4 GiB of memory");
  }
  static AudioClip ToClip(const MediaInfo& info, const std::vector<float>& interleaved) {
    AudioClip clip{.channels = info.channels, .sample_rate = info.samples_per_second};
    clip.samples = std::ssize(interleaved) / clip.channels;
    clip.waveform.resize(interleaved.size());
    for (int64_t channel = 0; channel < clip.channels; ++channel) {
      for (int64_t i = 0; i < clip.samples; ++i) {
        clip.waveform[channel * clip.samples + i] = interleaved[i * clip.channels + channel];
      }
    }
    return clip;
  }

  const InputSource& source_;
  int64_t bytes_ = 0;
  std::map<std::string, Opened> opened_;
  // By id, H.264 pass and most pictures.
  std::map<std::tuple<std::string, int32_t, int32_t>, std::shared_ptr<const PixelClip>> decoded_;
};

}  // namespace

bool NamesInputs(const GenerationRequest& request) {
  return !request.conditions.empty() || request.retake.has_value() || request.audio.has_value();
}

namespace {

// Calls `visit` with every place of the request for what an input holds, in one order.
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
    std::array<int64_t, 3> numbers{};  // of nothing
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
  // As long as the request is; of a sound a little more, for who rounds in another way.
  const bool known = request.frame_rate > 0 && request.num_frames > 0;
  const double seconds = known ? request.num_frames / request.frame_rate + 1 : kMostSeconds;
  int32_t frames = known ? request.num_frames : kMostPictures;
  if (request.audio.has_value()) {  // first: a request may leave its length to it
    AudioGuide& guide = *request.audio;
    KINORA_ASSIGN_OR_RETURN(guide.audio, reader.ReadSound(guide.input_id, guide.start_seconds + seconds));
    if (guide.audio == nullptr) return Wrong(guide.input_id, "it has no sound");
    const int64_t heard = FramesHeard(guide, request.frame_rate, /*frame_multiple=*/1);
    if (!known) frames = static_cast<int32_t>(std::clamp<int64_t>(heard, 1, kMostPictures));
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
    KINORA_ASSIGN_OR_RETURN(retake.audio, reader.ReadSound(retake.input_id, seconds));
  }
  return absl::OkStatus();
}

}  // namespace kinora
