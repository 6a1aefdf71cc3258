#include "server/tools/request_flags.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "server/common/request_conversion.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"prompt", "TEXT", "what to show and to be heard; \"\" is a clip of no prompt"},
    {"prompt-file", "FILE", "the prompt, from a file; - is standard input"},
    {"negative-prompt", "TEXT", "what to keep away from; absent: the model's default, empty: none"},
    {"model", "ID", "absent: the server's only or default model"},
    {"recipe", "one_stage|two_stage|distilled|distilled_two_stage|hq", "absent: the model's default"},
    {"width", "PIXELS", "absent: the model's default; `kinora models` lists limits"},
    {"height", "PIXELS", "absent: the model's default"},
    {"frames", "N", "8k + 1; absent: the model's default"},
    {"frame-rate", "FPS", "absent: the model's default"},
    {"seed", "N", "absent: the server draws one and returns it"},
    {"steps", "N", "denoising steps; absent: the recipe's default"},
    {"sigmas", "A,B,...,0", "explicit noise levels, descending, the last 0"},
    {"schedule-tokens", "N", "tokens the dev schedule shifts for; -1: the actual number"},
    {"video-guidance", "JSON", "a Guidance message, {\"cfgScale\": 3}"},
    {"audio-guidance", "JSON", "a Guidance message"},
    {"lora", "ID[:STRENGTH[:STAGE2]]", "may be given again; STAGE2: its strength in the second stage"},
    {"audio-only", "", "sound without a picture"},
    {"request", "FILE", "a Generation message as proto3 JSON; other flags override its fields"},
    {"output-options", "JSON", "an Output message as proto3 JSON; other flags override its fields"},
    {"container", "mp4|webm|png_frames|wav", "absent: mp4, or wav with --audio-only"},
    {"crf", "N", "quality of the video encoder, lower is better"},
    {"without-audio", "", "leave the sound out of the file"},
    {"embed-parameters", "", "seed and parameters in the file's metadata"},
    {"embed-prompt", "", "the prompt in the file's metadata"},
    {"preview-every", "STEPS", "a preview after every so many steps; absent: none, with --preview after each"},
    {"trace", "", "a second file, trace.json: where the time of each rank went, for ui.perfetto.dev"},
    {"ttl", "DURATION", "how long the server keeps the file, 90s, 24h, 7d"},
    {"priority", "N", "higher runs first"},
    {"deadline", "DURATION", "from now; a job that is not done by then fails"},
    {"label", "KEY=VALUE", "may be given again"},
    {"request-id", "KEY", "idempotency key: the same key and content is the same job; absent: drawn"},
};

// As long as the server takes messages, which no valid request comes near. Files without an end end here.
constexpr size_t kMaxFileBytes = 4 << 20;

// Files, pipes and, as "-", standard input.
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

// A name of the enumeration in any case, with dashes or underscores.
template <typename Enum, typename Set>
absl::Status SetEnum(const CommandLine& line, absl::string_view flag, Set set) {
  const std::optional<std::string> name = line.Get(flag);
  if (!name) return absl::OkStatus();
  const std::string lower = absl::StrReplaceAll(absl::AsciiStrToLower(*name), {{"-", "_"}});
  const auto* const values = google::protobuf::GetEnumDescriptor<Enum>();
  std::vector<std::string> words;
  for (int i = 0; i < values->value_count(); ++i) {
    if (values->value(i)->number() == 0) continue;  // unspecified: the flag that is not given
    words.push_back(absl::AsciiStrToLower(values->value(i)->name()));
    if (words.back() != lower) continue;
    set(static_cast<Enum>(values->value(i)->number()));
    return absl::OkStatus();
  }
  const std::vector<absl::string_view> views(words.begin(), words.end());
  const absl::string_view nearest = NearestWord(lower, views);
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " ", *name, ": one of ", absl::StrJoin(words, ", "),
                                                 " is needed",
                                                 nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

absl::Status SetPrompts(const CommandLine& line, v1::Generation* generation) {
  if (line.Has("prompt") + line.Has("prompt-file") + !line.operands().empty() > 1) {
    return absl::InvalidArgumentError("PROMPT, --prompt and --prompt-file: give one of them");
  }
  if (!line.operands().empty()) generation->set_prompt(line.operands()[0]);
  if (const auto prompt = line.Get("prompt")) generation->set_prompt(*prompt);
  if (const auto path = line.Get("prompt-file")) {
    KINORA_ASSIGN_OR_RETURN(std::string text, ReadFile("prompt-file", *path));
    absl::StripTrailingAsciiWhitespace(&text);  // an editor's last newline is not meant
    generation->set_prompt(text);
  }
  if (const auto prompt = line.Get("negative-prompt")) generation->set_negative_prompt(*prompt);
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
  KINORA_ASSIGN_OR_RETURN(const auto seed, line.GetUint64("seed"));
  if (seed) g->set_seed(*seed);
  if (line.Has("audio-only")) g->set_audio_only(true);
  return SetEnum<v1::Generation::Recipe>(line, "recipe", [g](auto v) { g->set_recipe(v); });
}

absl::Status SetSampling(const CommandLine& line, v1::Generation* g) {
  if (const auto sigmas = line.Get("sigmas")) {
    g->clear_sigmas();
    for (absl::string_view text : absl::StrSplit(*sigmas, ',')) {
      double sigma;
      if (!absl::SimpleAtod(text, &sigma)) {
        return absl::InvalidArgumentError(absl::StrCat("--sigmas ", *sigmas, ": \"", text, "\" is no number"));
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
  for (const std::string& lora : line.GetAll("lora")) {
    const std::vector<std::string> parts = absl::StrSplit(lora, ':');
    v1::LoraRef* ref = g->add_loras();
    ref->set_id(parts[0]);
    double strength[2] = {};
    bool numbers = parts.size() <= 3;
    for (size_t i = 1; numbers && i < parts.size(); ++i) numbers = absl::SimpleAtod(parts[i], &strength[i - 1]);
    if (!numbers) {
      return absl::InvalidArgumentError(absl::StrCat("--lora ", lora, ": ID[:STRENGTH[:STAGE2]], numbers, is needed"));
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
      return absl::InvalidArgumentError(absl::StrCat("--label ", label, ": KEY=VALUE is needed"));
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

absl::Status CheckPrompt(const CommandLine& line, const v1::Generation& generation, absl::string_view prompt) {
  if (!generation.prompt().empty() || line.Has("prompt")) return absl::OkStatus();
  const std::string where = line.Has("prompt-file")    ? absl::StrCat("--prompt-file ", *line.Get("prompt-file"))
                            : !line.operands().empty() ? "PROMPT"
                            : line.Has("request")      ? absl::StrCat("--request ", *line.Get("request"), ": prompt")
                                                       : "";
  return absl::InvalidArgumentError(
      absl::StrCat(where.empty() ? absl::StrCat(prompt, ": is missing") : absl::StrCat(where, ": is empty"),
                   "; say what to show and to be heard, or --prompt \"\" for a clip of no prompt"));
}

}  // namespace kinora
