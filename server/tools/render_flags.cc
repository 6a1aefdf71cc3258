#include "server/tools/render_flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/media/file_sink.h"
#include "engine/media/frame_folder.h"
#include "engine/media/jpeg.h"
#include "engine/model/released_models.h"
#include "engine/ops/backend.h"
#include "server/common/program_help.h"
#include "server/common/request_conversion.h"
#include "server/tools/media_flags.h"
#include "server/tools/request_flags.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"model", "PATH|NAME=VALUE",
     "a diffusers folder or a .safetensors file; given again for more. Names: text_encoder=DIR, "
     "spatial_upsampler=FILE, "
     "temporal_upsampler=FILE, distilled_lora=FILE[:STRENGTH], lora=ID:FILE, kind=dev|distilled"},
    {"request", "FILE", "a Generation message as proto3 JSON; the flags below override its fields"},
    {"output", "FILE|FOLDER", "ends in .mp4, .webm, .wav or .zip (PNG frames), or is an existing folder (PNG frames)"},
    {"output-options", "JSON", "an Output message as proto3 JSON, {\"crf\": 16, \"embedParameters\": true}"},
    {"prompt", "TEXT", "what to show and to be heard; \"\" is a clip of no prompt"},
    {"prompt-file", "FILE", "the prompt, from a file; - is standard input"},
    {"negative-prompt", "TEXT", "what to keep away from; absent: the model's default, empty: none"},
    {"recipe", "one_stage|two_stage|distilled|distilled_two_stage|hq", "absent: the model's default"},
    {"width", "PIXELS", "absent: the model's default"},
    {"height", "PIXELS", "absent: the model's default"},
    {"frames", "N", "8k + 1; absent: the model's default"},
    {"frame-rate", "FPS", "absent: the model's default"},
    {"seed", "N", "absent: drawn and printed"},
    {"steps", "N", "denoising steps; absent: the recipe's default"},
    {"sigmas", "A,B,...,0", "explicit noise levels, descending, the last 0"},
    {"schedule-tokens", "N", "tokens the dev schedule shifts for; -1: the actual number"},
    {"video-guidance", "JSON", "a Guidance message, {\"cfgScale\": 3}"},
    {"audio-guidance", "JSON", "a Guidance message"},
    {"lora", "ID[:STRENGTH[:STAGE2]]", "may be given again; STAGE2: its strength in the second stage"},
    {"audio-only", "", "sound without a picture"},
    {"image", "FILE[@FRAME[:STRENGTH]]",
     "the clip shows this picture, or clip, from FRAME (0) on, as strongly as 0 to 1 (1); may be given again"},
    {"audio", "FILE[@START]", "the clip is made for this sound, which it keeps, from START (0) seconds on"},
    {"retake", "FILE:FROM-TO", "the clip is this one, made anew between these seconds"},
    {"noise", "FILE", "safetensors with video_noise, audio_noise, ...: initial noise instead of the seed's"},
    {"dump", "FILE", "safetensors to write contexts, sigmas, latents, frames and waveform to"},
    {"preview", "FILE", "a JPEG of about what the clip will look like, replaced as it is made; ends in .jpg"},
    {"preview-every", "STEPS", "a preview after every so many steps; absent: after each"},
    {"device", "cpu|cuda", "absent: cuda if one is usable, else cpu"},
    {"precision", "f32|bf16|fp8[,PATTERN=…]",
     "absent: bf16; f32 is the parity mode; PATTERN: of weights held in another"},
    {"ranks", "AXIS=N,...", "tokens=2,guidance=2,tensor=1: one request on several ranks, which are threads of the CPU"},
    {"processes", "", "the ranks are processes: by sockets on the CPU, a device each by NCCL"},
    {"threads", "N", "threads that compute, all ranks together; absent: the machine's cores"},
    {"trace", "FILE", "stages, steps and ops of each rank in the Chrome trace format"},
    {"json", "", "print one JSON line: seconds, memory, collectives, seed, file"},
    {"quiet", "", "no progress"},
    {"compare", "PRECISION", "run in both precisions and report the difference"},
    {"plan", "", "print what usual clips (or the one asked for) take in memory and work; reads headers only"},
    {"like", "NAME",
     "with --plan instead of --model: a released model whose files are not here: ltx-2-19b, ltx-2.3-22b"},
    {"device-memory", "SIZE", "what --plan fits the model into: 80GB, 24GiB"},
    {"help", "", "this text"},
    {"version", "", "version, commit, backends and the CPU's instruction set"},
};

absl::Status NotYet(const std::string& flag) { return absl::UnimplementedError(flag + ": not available yet"); }

// What the engine says, said of the flag that it begins with, or that `flag` adds.
absl::Status OfFlag(const std::string& flag, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat("--", flag, std::string(status.message())));
}

absl::Status TakeModel(const CommandLine& line, RenderOptions& options) {
  options.model = line.GetAll("model");
  options.like = line.Get("like").value_or("");
  if (!line.Has("like")) {
    return options.model.empty() ? absl::InvalidArgumentError("--model: is missing") : absl::OkStatus();
  }
  if (!options.plan) return absl::InvalidArgumentError("--like: is for --plan; a clip needs --model");
  if (!options.model.empty())
    return absl::InvalidArgumentError("--like: not with --model, which has the model's files");
  return OfFlag("like ", ReleasedModelConfig(options.like).status());
}

absl::Status TakeDevice(const CommandLine& line, RenderOptions& options) {
  options.device = line.Get("device").value_or("");
  if (!line.Has("plan")) KINORA_RETURN_IF_ERROR(DeviceName(options.device, {}).status());  // --plan needs no device
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(options.device, {}));
  KINORA_ASSIGN_OR_RETURN(options.precision, Precision::Parse(line.Get("precision").value_or("bf16")));
  return options.precision.CheckOn(traits);
}

// A folder that is not there is better found before the clip is computed than after.
absl::Status CheckWritable(const std::string& flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const size_t slash = path.find_last_not_of('/') == std::string::npos  // of "frames/" the folder that it is made in
                           ? path.find_last_of('/')
                           : path.find_last_of('/', path.find_last_not_of('/'));
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": there is no folder ", folder));
  }
  if (flag != "--output" && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": is a folder, a file is needed"));
  }
  if (access(folder.c_str(), W_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": the folder ", folder, " cannot be written"));
  }
  return absl::OkStatus();
}

absl::Status TakePaths(const CommandLine& line, RenderOptions& options) {
  const std::pair<const char*, std::string*> paths[] = {{"output", &options.output_path},
                                                        {"noise", &options.noise_path},
                                                        {"dump", &options.dump_path},
                                                        {"trace", &options.trace_path},
                                                        {"preview", &options.preview_path}};
  for (const auto& [flag, path] : paths) {
    *path = line.Get(flag).value_or("");
    if (line.Has(flag) && path->empty()) return absl::InvalidArgumentError(absl::StrCat("--", flag, ": is empty"));
    if (path != &options.noise_path) KINORA_RETURN_IF_ERROR(CheckWritable(absl::StrCat("--", flag), *path));
  }
  if (options.output_path.empty() && options.dump_path.empty()) {
    return absl::InvalidArgumentError("--output: is missing (or --dump, to compute without writing a clip)");
  }
  if (!options.output_path.empty()) {
    const auto container = ContainerForPath(options.output_path);
    absl::Status fits = container.status();
    if (fits.ok() && *container == Container::kPngFolder) fits = CheckFrameFolder(options.output_path);
    if (!fits.ok()) return absl::InvalidArgumentError("--output " + std::string(fits.message()));
  }
  return absl::OkStatus();
}

// After how many steps, and where to.
absl::Status TakePreview(const CommandLine& line, RenderOptions& options) {
  if (options.plan) return absl::OkStatus();
  const bool every = options.output.preview_every_steps() > 0;
  if (!line.Has("preview")) {
    return every ? absl::InvalidArgumentError("--preview-every: give --preview FILE.jpg, which says where to")
                 : absl::OkStatus();
  }
  if (!HasJpegEnding(options.preview_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--preview ", options.preview_path, ": a preview is a JPEG; let the name end in .jpg"));
  }
  if (!every && !line.Has("preview-every")) options.output.set_preview_every_steps(1);
  return absl::OkStatus();
}

absl::Status TakeRequest(const CommandLine& line, RenderOptions& options) {
  KINORA_ASSIGN_OR_RETURN(const v1::CreateVideoRequest request, RequestFromFlags(line));
  options.generation = request.generation();
  options.output = request.output();
  KINORA_ASSIGN_OR_RETURN(const std::vector<LocalMedia> media, AddMedia(line, options.generation));
  for (const LocalMedia& file : media) file.ref(options.generation)->set_input_id(file.path);
  if (options.output.trace() && !line.Has("trace")) {
    return absl::InvalidArgumentError("--output-options: trace: give --trace FILE, which says where to");
  }
  KINORA_RETURN_IF_ERROR(TakePreview(line, options));
  if (!options.generation.has_seed()) {
    std::random_device random;
    options.generation.set_seed(uint64_t{random()} << 32 | random());
    options.seed_drawn = true;
  }
  KINORA_RETURN_IF_ERROR(CheckGeneration(options.generation));
  KINORA_RETURN_IF_ERROR(CheckOutput(options.output));
  return options.plan ? absl::OkStatus() : CheckPrompt(line, options.generation, "--prompt");
}

}  // namespace

absl::Span<const FlagSpec> RenderFlags() { return kFlags; }

std::string RenderUsage() { return HelpText(kRenderHelp, kFlags); }

absl::StatusOr<MeshShape> ParseRanks(const std::string& text) {
  absl::StatusOr<MeshShape> shape =
      text.empty() ? absl::InvalidArgumentError("tokens=N, guidance=N or tensor=N is needed") : MeshShape::Parse(text);
  if (shape.ok()) return shape;
  return absl::InvalidArgumentError(absl::StrCat("--ranks ", text, ": ", std::string(shape.status().message())));
}

absl::StatusOr<RenderOptions> ParseRenderFlags(absl::Span<const std::string> arguments) {
  KINORA_ASSIGN_OR_RETURN(const CommandLine line, CommandLine::Parse(kFlags, arguments));
  RenderOptions options;
  options.help = line.Has("help");
  options.version = line.Has("version");
  if (options.help || options.version) return options;
  if (!line.operands().empty())
    return absl::InvalidArgumentError(line.operands()[0] + ": no such argument; see --help");
  if (line.Has("compare")) return NotYet("--compare");
  options.processes = line.Has("processes");
  options.plan = line.Has("plan");
  KINORA_RETURN_IF_ERROR(TakeModel(line, options));
  KINORA_RETURN_IF_ERROR(OfFlag("", TakeDevice(line, options)));
  if (const auto ranks = line.Get("ranks")) {
    KINORA_ASSIGN_OR_RETURN(options.mesh, ParseRanks(*ranks));
  }
  KINORA_ASSIGN_OR_RETURN(const auto threads, line.GetInt("threads", 1, 1024));
  options.threads = static_cast<int>(threads.value_or(0));
  options.json = line.Has("json");
  options.quiet = line.Has("quiet");
  KINORA_ASSIGN_OR_RETURN(const auto memory, line.GetBytes("device-memory"));
  options.device_memory = memory.value_or(0);
  if (options.device_memory > 0 && !options.plan) return absl::InvalidArgumentError("--device-memory: is for --plan");
  if (!options.plan) KINORA_RETURN_IF_ERROR(TakePaths(line, options));
  KINORA_RETURN_IF_ERROR(TakeRequest(line, options));
  return options;
}

}  // namespace kinora
