#include "server/request/request_flags.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "server/request/request_conversion.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"prompt", "TEXT", "what the clip shows and sounds like; \"\": a clip without a prompt"},
    {"prompt-file", "FILE", "read the prompt from a file; -: standard input"},
    {"negative-prompt", "TEXT", "what to avoid; \"\": nothing; default: the model's"},
    {"model", "ID", "model to use; default: the server's only or default model"},
    {"recipe", "one_stage|two_stage|distilled|distilled_two_stage|hq", "default: the model's"},
    {"width", "PIXELS", "default: the model's; `kinora models` lists the limits"},
    {"height", "PIXELS", "default: the model's"},
    {"size", "WIDTHxHEIGHT", "width and height, such as 768x512"},
    {"frames", "N", "number of frames, 8k + 1; default: the model's"},
    {"duration", "DURATION", "length, such as 5s, rounded to a valid number of frames; at 24 fps without --frame-rate"},
    {"auto-length", "MIN..MAX",
     "let the model choose the length from the prompt, within these seconds, such as 1..20; needs a duration head"},
    {"frame-rate", "FPS", "default: the model's"},
    {"seed", "N", "random seed; default: the server picks one and reports it"},
    {"steps", "N", "number of denoising steps; default: the recipe's"},
    {"sigmas", "A,B,...,0", "explicit noise levels, descending, ending in 0"},
    {"schedule-tokens", "N", "token count that the dev schedule is shifted for; -1: the clip's own"},
    {"cfg", "SCALE[,SOUND]",
     "classifier-free guidance, 1: off; SOUND: scale for the sound (default: SCALE); default: the recipe's"},
    {"stg", "SCALE[,SOUND]", "spatio-temporal guidance, 0: off"},
    {"modality-scale", "SCALE[,SOUND]", "guidance between picture and sound, 1: off"},
    {"rescale", "SHARE[,SOUND]", "guidance rescale, 0 (off) to 1; higher adds less contrast"},
    {"video-guidance", "JSON", "a Guidance message for the picture, such as {\"cfgScale\": 3}; omitted terms are off"},
    {"audio-guidance", "JSON", "a Guidance message for the sound"},
    {"lora", "ID[:STRENGTH[:STAGE2]]", "apply this LoRA; STAGE2: its strength in the second stage; repeatable"},
    {"audio-only", "", "generate sound only"},
    {"request", "FILE", "read a Generation message as proto3 JSON; other flags override its fields"},
    {"output-options", "JSON", "an Output message as proto3 JSON; other flags override its fields"},
    {"container", "mp4|webm|png_frames|wav", "file format; default: mp4, or wav with --audio-only"},
    {"crf", "N", "video encoder quality; lower is better"},
    {"without-audio", "", "write no sound to the file"},
    {"embed-parameters", "", "store the seed and parameters in the file's metadata"},
    {"embed-prompt", "", "store the prompt in the file's metadata"},
    {"preview-every", "STEPS", "send a preview every STEPS steps; default: none, or 1 with --preview"},
    {"trace", "", "also write trace.json, a timeline of each rank for ui.perfetto.dev"},
    {"thumbnail", "", "also write thumbnail.jpg, the middle frame with at most 256 pixels on its longer side"},
    {"ttl", "DURATION", "how long the server keeps the file, such as 90s, 24h or 7d"},
    {"priority", "N", "scheduling priority; higher runs first"},
    {"deadline", "DURATION", "fail the job if it has not finished after this time"},
    {"label", "KEY=VALUE", "attach a label to the job; repeatable"},
    {"request-id", "KEY", "idempotency key: the same key and content give the same job; default: random"},
};

// The server's limit for a message, far above any valid request. It also ends the reading of an endless file.
constexpr size_t kMaxFileBytes = 4 << 20;

// Reads a file, a pipe or, for "-", standard input.
absl::StatusOr<std::string> ReadFile(absl::string_view flag, const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.fail() && !in.eof())) {
    return absl::NotFoundError(absl::StrCat("--", flag, " ", path, ": cannot be read: ", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() <= kMaxFileBytes) return text;
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " ", path, ": more than ", kMaxFileBytes, " bytes"));
}

absl::Status ParseJsonFlag(const CommandLine& line, absl::string_view flag, google::protobuf::Message* message) {
  return ParseJson(absl::StrCat("--", flag), *line.Get(flag), *message);
}

template <typename SetInt>
absl::Status SetInt32(const CommandLine& line, absl::string_view flag, int32_t minimum, SetInt set) {
  KINORA_ASSIGN_OR_RETURN(const auto value, line.GetInt(flag, minimum, std::numeric_limits<int32_t>::max()));
  if (value) set(static_cast<int32_t>(*value));
  return absl::OkStatus();
}

template <typename SetDuration>
absl::Status SetSeconds(const CommandLine& line, absl::string_view flag, SetDuration set) {
  KINORA_ASSIGN_OR_RETURN(const auto value, line.GetDuration(flag));
  if (!value) return absl::OkStatus();
  google::protobuf::Duration* duration = set();
  duration->set_seconds(absl::ToInt64Seconds(*value));
  duration->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(*value - absl::Seconds(duration->seconds()))));
  return absl::OkStatus();
}

// Accepts a name of the enum in any case, with dashes or underscores.
template <typename Enum, typename Set>
absl::Status SetEnum(const CommandLine& line, absl::string_view flag, Set set) {
  const std::optional<std::string> name = line.Get(flag);
  if (!name) return absl::OkStatus();
  const std::string lower = absl::StrReplaceAll(absl::AsciiStrToLower(*name), {{"-", "_"}});
  const auto* const values = google::protobuf::GetEnumDescriptor<Enum>();
  std::vector<std::string> words;
  for (int i = 0; i < values->value_count(); ++i) {
    if (values->value(i)->number() == 0) continue;  // unspecified: omit the flag instead
    words.push_back(absl::AsciiStrToLower(values->value(i)->name()));
    if (words.back() != lower) continue;
    set(static_cast<Enum>(values->value(i)->number()));
    return absl::OkStatus();
  }
  const std::vector<absl::string_view> views(words.begin(), words.end());
  const absl::string_view nearest = NearestWord(lower, views);
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " ", *name, ": must be one of ",
                                                 absl::StrJoin(words, ", "),
                                                 nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

absl::Status SetPrompts(const CommandLine& line, v1::Generation* generation) {
  if (line.Has("prompt") + line.Has("prompt-file") + !line.operands().empty() > 1) {
    return absl::InvalidArgumentError("PROMPT, --prompt and --prompt-file exclude each other");
  }
  if (!line.operands().empty()) generation->set_prompt(line.operands()[0]);
  if (const auto prompt = line.Get("prompt")) generation->set_prompt(*prompt);
  if (const auto path = line.Get("prompt-file")) {
    KINORA_ASSIGN_OR_RETURN(std::string text, ReadFile("prompt-file", *path));
    absl::StripTrailingAsciiWhitespace(&text);  // such as an editor's last newline
    generation->set_prompt(text);
  }
  if (const auto prompt = line.Get("negative-prompt")) generation->set_negative_prompt(*prompt);
  return absl::OkStatus();
}

// "768x512"
absl::Status SetSize(const CommandLine& line, v1::Generation* g) {
  const std::optional<std::string> size = line.Get("size");
  if (!size) return absl::OkStatus();
  for (const char* other : {"width", "height"}) {
    if (line.Has(other))
      return absl::InvalidArgumentError(absl::StrCat("--size ", *size, ": cannot be combined with --", other));
  }
  const std::vector<std::string> sides = absl::StrSplit(absl::AsciiStrToLower(*size), absl::ByAnyChar("x*"));
  int32_t width = 0, height = 0;
  if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &width) || !absl::SimpleAtoi(sides[1], &height) || width < 1 ||
      height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--size ", *size, ": must be WIDTHxHEIGHT in pixels, such as 768x512"));
  }
  g->set_width(width);
  g->set_height(height);
  return absl::OkStatus();
}

// Rounds to the nearest 8k + 1 frames, a tie to the smaller number.
absl::Status SetDuration(const CommandLine& line, v1::Generation* g) {
  constexpr double kUsualFrameRate = 24, kMostFrames = 1e6;
  KINORA_ASSIGN_OR_RETURN(const auto duration, line.GetDuration("duration"));
  if (!duration) return absl::OkStatus();
  const std::string given = absl::StrCat("--duration ", *line.Get("duration"));
  if (line.Has("frames")) return absl::InvalidArgumentError(given + ": cannot be combined with --frames");
  if (g->frame_rate() == 0) g->set_frame_rate(kUsualFrameRate);
  const double frames = absl::ToDoubleSeconds(*duration) * g->frame_rate();
  if (!(frames > 0 && frames < kMostFrames)) return absl::InvalidArgumentError(given + ": too long for a clip");
  g->set_num_frames(8 * static_cast<int32_t>(std::ceil(std::max(frames - 1, 0.0) / 8 - 0.5)) + 1);
  return absl::OkStatus();
}

// "MIN..MAX", in seconds
absl::Status SetAutoLength(const CommandLine& line, v1::Generation* g) {
  const std::optional<std::string> value = line.Get("auto-length");
  if (!value) return absl::OkStatus();
  const std::string given = absl::StrCat("--auto-length ", *value);
  for (const char* const other : {"frames", "duration"}) {
    if (line.Has(other)) return absl::InvalidArgumentError(absl::StrCat(given, ": cannot be combined with --", other));
  }
  const std::vector<std::string> bounds = absl::StrSplit(*value, "..");
  double shortest = 0, longest = 0;
  if (bounds.size() != 2 || !absl::SimpleAtod(bounds[0], &shortest) || !absl::SimpleAtod(bounds[1], &longest) ||
      !std::isfinite(shortest) || !std::isfinite(longest)) {
    return absl::InvalidArgumentError(given +
                                      ": must be the shortest and the longest duration in seconds, such as 1..20");
  }
  g->clear_num_frames();
  g->mutable_auto_length()->set_min_seconds(shortest);
  g->mutable_auto_length()->set_max_seconds(longest);
  return absl::OkStatus();
}

absl::Status SetShape(const CommandLine& line, v1::Generation* g) {
  KINORA_RETURN_IF_ERROR(SetInt32(line, "width", 1, [g](int32_t v) { g->set_width(v); }));
  KINORA_RETURN_IF_ERROR(SetInt32(line, "height", 1, [g](int32_t v) { g->set_height(v); }));
  KINORA_RETURN_IF_ERROR(SetInt32(line, "frames", 1, [g](int32_t v) { g->set_num_frames(v); }));
  KINORA_RETURN_IF_ERROR(SetInt32(line, "steps", 1, [g](int32_t v) { g->set_num_inference_steps(v); }));
  KINORA_RETURN_IF_ERROR(SetInt32(line, "schedule-tokens", -1, [g](int32_t v) { g->set_schedule_tokens(v); }));
  KINORA_ASSIGN_OR_RETURN(const auto rate, line.GetDouble("frame-rate"));
  if (rate && *rate <= 0) return absl::InvalidArgumentError("--frame-rate: must be greater than 0");
  if (rate) g->set_frame_rate(*rate);
  KINORA_RETURN_IF_ERROR(SetSize(line, g));
  KINORA_RETURN_IF_ERROR(SetDuration(line, g));
  KINORA_RETURN_IF_ERROR(SetAutoLength(line, g));
  if (line.Has("frames") || line.Has("duration")) g->clear_auto_length();  // of --request
  KINORA_ASSIGN_OR_RETURN(const auto seed, line.GetUint64("seed"));
  if (seed) g->set_seed(*seed);
  if (line.Has("audio-only")) g->set_audio_only(true);
  return SetEnum<v1::Generation::Recipe>(line, "recipe", [g](auto v) { g->set_recipe(v); });
}

// "SCALE[,SOUND]"
absl::StatusOr<std::array<double, 2>> ScalesOf(const CommandLine& line, const char* flag) {
  const std::string value = *line.Get(flag);
  const std::vector<std::string> parts = absl::StrSplit(value, ',');
  std::array<double, 2> scales{};
  for (size_t i = 0; i < scales.size(); ++i) {
    if (parts.size() > 2 || !absl::SimpleAtod(parts[std::min(i, parts.size() - 1)], &scales[i]) ||
        !std::isfinite(scales[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, " ", value, ": must be one number, or two for picture and sound, such as 3,7"));
    }
  }
  return scales;
}

// Terms override the recipe's defaults or the given message. A picture or sound that is not generated gets no guidance,
// unless a flag gives two scales; the server then rejects the field by name.
absl::Status SetGuidanceTerms(const CommandLine& line, v1::Generation* g) {
  constexpr std::pair<const char*, void (v1::Guidance::*)(double)> kTerms[] = {
      {"cfg", &v1::Guidance::set_cfg_scale},
      {"stg", &v1::Guidance::set_stg_scale},
      {"modality-scale", &v1::Guidance::set_modality_scale},
      {"rescale", &v1::Guidance::set_rescale}};
  const bool keep_video = !g->has_video_guidance(), keep_audio = !g->has_audio_guidance();
  const bool no_picture = g->audio_only() || g->retake().keep_video();
  const bool no_sound = g->has_audio() || line.Has("audio") || g->retake().keep_audio();
  for (const auto& [flag, set] : kTerms) {
    if (!line.Has(flag)) continue;
    KINORA_ASSIGN_OR_RETURN(const auto scales, ScalesOf(line, flag));
    const bool both = absl::StrContains(*line.Get(flag), ',');
    if (both || !no_picture) {
      (g->mutable_video_guidance()->*set)(scales[0]);
      g->mutable_video_guidance()->set_keep_defaults(keep_video);
    }
    if (both || !no_sound) {
      (g->mutable_audio_guidance()->*set)(scales[1]);
      g->mutable_audio_guidance()->set_keep_defaults(keep_audio);
    }
  }
  return absl::OkStatus();
}

absl::Status SetSampling(const CommandLine& line, v1::Generation* g) {
  if (const auto sigmas = line.Get("sigmas")) {
    g->clear_sigmas();
    for (absl::string_view text : absl::StrSplit(*sigmas, ',')) {
      double sigma;
      if (!absl::SimpleAtod(text, &sigma)) {
        return absl::InvalidArgumentError(absl::StrCat("--sigmas ", *sigmas, ": \"", text, "\" is not a number"));
      }
      g->add_sigmas(sigma);
    }
  }
  if (line.Has("video-guidance")) {
    KINORA_RETURN_IF_ERROR(ParseJsonFlag(line, "video-guidance", g->mutable_video_guidance()));
  }
  if (line.Has("audio-guidance")) {
    KINORA_RETURN_IF_ERROR(ParseJsonFlag(line, "audio-guidance", g->mutable_audio_guidance()));
  }
  KINORA_RETURN_IF_ERROR(SetGuidanceTerms(line, g));
  for (const std::string& lora : line.GetAll("lora")) {
    const std::vector<std::string> parts = absl::StrSplit(lora, ':');
    v1::LoraRef* ref = g->add_loras();
    ref->set_id(parts[0]);
    double strength[2] = {};
    bool numbers = parts.size() <= 3;
    for (size_t i = 1; numbers && i < parts.size(); ++i) numbers = absl::SimpleAtod(parts[i], &strength[i - 1]);
    if (!numbers) {
      return absl::InvalidArgumentError(
          absl::StrCat("--lora ", lora, ": must be ID[:STRENGTH[:STAGE2]], with numbers for STRENGTH and STAGE2"));
    }
    if (parts.size() > 1) ref->set_strength(strength[0]);
    if (parts.size() > 2) ref->set_strength_stage2(strength[1]);
  }
  return absl::OkStatus();
}

absl::Status SetOutput(const CommandLine& line, v1::Output* output) {
  if (line.Has("output-options")) KINORA_RETURN_IF_ERROR(ParseJsonFlag(line, "output-options", output));
  KINORA_RETURN_IF_ERROR(SetInt32(line, "crf", 0, [output](int32_t v) { output->set_crf(v); }));
  KINORA_RETURN_IF_ERROR(SetSeconds(line, "ttl", [output] { return output->mutable_ttl(); }));
  KINORA_RETURN_IF_ERROR(
      SetInt32(line, "preview-every", 0, [output](int32_t v) { output->set_preview_every_steps(v); }));
  if (line.Has("without-audio")) output->set_without_audio(true);
  if (line.Has("embed-parameters")) output->set_embed_parameters(true);
  if (line.Has("embed-prompt")) output->set_embed_prompt(true);
  if (line.Has("trace")) output->set_trace(true);
  if (line.Has("thumbnail")) output->set_thumbnail(true);
  return SetEnum<v1::Output::Container>(line, "container", [output](auto v) { output->set_container(v); });
}

absl::Status SetScheduling(const CommandLine& line, v1::CreateVideoRequest* request) {
  KINORA_RETURN_IF_ERROR(SetInt32(line, "priority", std::numeric_limits<int32_t>::min(),
                                  [request](int32_t v) { request->mutable_scheduling()->set_priority(v); }));
  KINORA_RETURN_IF_ERROR(
      SetSeconds(line, "deadline", [request] { return request->mutable_scheduling()->mutable_deadline(); }));
  for (const std::string& label : line.GetAll("label")) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("--label ", label, ": must be KEY=VALUE"));
    }
    (*request->mutable_labels())[label.substr(0, equals)] = label.substr(equals + 1);
  }
  return absl::OkStatus();
}

std::string DrawRequestId() {
  std::random_device random;
  return absl::StrFormat("kinora-%08x%08x%08x%08x", random(), random(), random(), random());
}

}  // namespace

absl::Span<const FlagSpec> RequestFlags() { return kFlags; }

absl::StatusOr<v1::CreateVideoRequest> RequestFromFlags(const CommandLine& line, v1::CreateVideoRequest base) {
  v1::CreateVideoRequest request = std::move(base);
  if (const auto path = line.Get("request")) {
    KINORA_ASSIGN_OR_RETURN(const std::string json, ReadFile("request", *path));
    KINORA_RETURN_IF_ERROR(ParseJson("--request", json, *request.mutable_generation()));
  }
  KINORA_RETURN_IF_ERROR(SetPrompts(line, request.mutable_generation()));
  KINORA_RETURN_IF_ERROR(SetShape(line, request.mutable_generation()));
  KINORA_RETURN_IF_ERROR(SetSampling(line, request.mutable_generation()));
  KINORA_RETURN_IF_ERROR(SetOutput(line, request.mutable_output()));
  KINORA_RETURN_IF_ERROR(SetScheduling(line, &request));
  if (const auto model = line.Get("model")) request.set_model(*model);
  request.set_request_id(line.Has("request-id") ? *line.Get("request-id") : DrawRequestId());
  return request;
}

std::string SoundAloneWarning(const v1::Generation& generation, v1::Output::Container container) {
  if (container != v1::Output::WAV || generation.audio_only()) return "";
  return "warning: WAV holds only sound, so the picture is computed for nothing; use --audio-only to skip it";
}

absl::Status CheckPrompt(const CommandLine& line, const v1::Generation& generation, absl::string_view prompt) {
  if (!generation.prompt().empty() || line.Has("prompt")) return absl::OkStatus();
  const std::string where = line.Has("prompt-file")    ? absl::StrCat("--prompt-file ", *line.Get("prompt-file"))
                            : !line.operands().empty() ? "PROMPT"
                            : line.Has("request")      ? absl::StrCat("--request ", *line.Get("request"), ": prompt")
                                                       : "";
  return absl::InvalidArgumentError(
      absl::StrCat(where.empty() ? absl::StrCat(prompt, ": is missing") : absl::StrCat(where, ": is empty"),
                   "; describe the clip, or use --prompt \"\" for a clip without a prompt"));
}

}  // namespace kinora
