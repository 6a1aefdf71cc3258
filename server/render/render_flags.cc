#include "server/render/render_flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/config/released_models.h"
#include "engine/media/file_sink.h"
#include "engine/media/frame_folder.h"
#include "engine/media/jpeg.h"
#include "engine/ops/backend.h"
#include "server/config/program_help.h"
#include "server/request/media_flags.h"
#include "server/request/request_conversion.h"
#include "server/request/request_flags.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"model", "PATH|NAME=VALUE",
     "a .safetensors file, or a folder that holds a model's files; repeatable. NAME=VALUE is one of "
     "text_encoder=FOLDER|FILE, video_vae=FILE, audio_vae=FILE, duration_head=FILE, spatial_upsampler=FILE, "
     "temporal_upsampler=FILE, distilled_lora=FILE[:STRENGTH], lora=ID:FILE, kind=dev|distilled"},
    {"request", "FILE", "read a Generation message as proto3 JSON; the flags below override its fields"},
    {"output", "FILE|FOLDER",
     "output file; its extension selects the format: .mp4, .webm, .wav or .zip (PNG frames); or an existing folder "
     "(PNG frames)"},
    {"output-options", "JSON", "an Output message as proto3 JSON, such as {\"crf\": 16, \"embedParameters\": true}"},
    {"prompt", "TEXT", "what the clip shows and sounds like; \"\": a clip without a prompt"},
    {"prompt-file", "FILE", "read the prompt from a file; -: standard input"},
    {"negative-prompt", "TEXT", "what to avoid; \"\": nothing; default: the model's"},
    {"recipe", "one_stage|two_stage|distilled|distilled_two_stage|hq", "default: the model's"},
    {"width", "PIXELS", "default: the model's"},
    {"height", "PIXELS", "default: the model's"},
    {"size", "WIDTHxHEIGHT", "width and height, such as 768x512"},
    {"frames", "N", "number of frames, 8k + 1; default: the model's"},
    {"duration", "DURATION", "length, such as 5s, rounded to a valid number of frames; at 24 fps without --frame-rate"},
    {"auto-length", "MIN..MAX",
     "let the model choose the length from the prompt, within these seconds, such as 1..20; needs a duration head"},
    {"frame-rate", "FPS", "default: the model's"},
    {"seed", "N", "random seed; default: a random one, which is printed"},
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
    {"image", "FILE[@FRAME[:STRENGTH]]",
     "show this image or clip from frame FRAME on (default: 0), with STRENGTH 0 to 1 (default: 1); repeatable"},
    {"audio", "FILE[@START]",
     "generate the picture for this sound, and keep the sound; START: where to begin in it, in seconds (default: 0)"},
    {"retake", "FILE:FROM-TO", "regenerate FILE from FROM to TO seconds and keep the rest"},
    {"noise", "FILE",
     "read noise from this safetensors file (video_noise, audio_noise_stage2, ...) instead of drawing it from the "
     "seed"},
    {"dump", "FILE", "write contexts, sigmas, latents, frames and waveform to this safetensors file"},
    {"preview", "FILE", "write a rough preview of the clip to this .jpg file, overwritten with each preview"},
    {"preview-every", "STEPS", "write a preview every STEPS steps; default: 1"},
    {"device", "cpu|cuda", "default: cuda if a device is usable, otherwise cpu"},
    {"precision", "f32|bf16[,PATTERN=…]",
     "weight precision; f32 is the parity mode; PATTERN=…: precision of the weights that match; default: bf16"},
    {"ranks", "AXIS=N,...",
     "split the request across ranks, such as tokens=2,guidance=2,tensor=1; ranks are CPU threads without --processes"},
    {"processes", "", "run each rank as a process: connected by sockets on the CPU, or one device each with NCCL"},
    {"threads", "N", "compute threads for all ranks together; default: the number of cores"},
    {"cuda-off", "PART,...",
     "do without parts of the CUDA backend, to find one that is at fault: graphs, early-launch, branch (the second "
     "stream), cudnn, tuning (of matrix products); default: the environment's KINORA_CUDA_OFF"},
    {"cuda-synchronize", "[=true|false]",
     "wait behind each op, so that an error of the CUDA device names the op and its shape; without graphs; default: "
     "the environment's KINORA_CUDA_SYNCHRONIZE"},
    {"untiled-decode", "",
     "decode the picture without tiles: fewer operations, more memory, and other pixels if it would have had several "
     "tiles"},
    {"decoder-border", "shift|repeat",
     "what the windows of LTX-2.5's diffusion decoder read beyond the left and right border: shift moves them inward, "
     "repeat repeats the border's column, as the reference's pipelines do; default: shift"},
    {"trace", "FILE", "write a timeline of each rank's stages, steps and ops in Chrome trace format"},
    {"json", "", "print one line of JSON: seconds, memory, collectives, seed, file"},
    {"quiet", "", "do not show progress"},
    {"plan", "",
     "print memory and compute estimates for typical clips, or for the requested one; reads only file headers"},
    {"like", "NAME",
     "with --plan, instead of --model: plan for a released model without its files: ltx-2-19b, ltx-2.3-22b, "
     "ltx-2.5-22b, ltx-2.5-22b-diffusion-decoder"},
    {"device-memory", "SIZE",
     "memory that --plan fits the model into, such as 80GB or 24GiB; for a GPU unless --device is cpu. The last line "
     "is the smallest size that works"},
    {"help", "", "show this help"},
    {"version", "", "show version, commit, backends and the CPU's instruction set"},
};

// Names the flag in an error of the engine: the error's message begins with the flag's name, or `flag` supplies it.
absl::Status OfFlag(const std::string& flag, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat("--", flag, std::string(status.message())));
}

absl::Status TakeModel(const CommandLine& line, RenderOptions& options) {
  options.model = line.GetAll("model");
  options.like = line.Get("like").value_or("");
  if (!line.Has("like")) {
    return options.model.empty() ? absl::InvalidArgumentError("--model: is missing") : absl::OkStatus();
  }
  if (!options.plan) return absl::InvalidArgumentError("--like: needs --plan; to generate a clip, use --model");
  if (!options.model.empty()) return absl::InvalidArgumentError("--like: cannot be combined with --model");
  return OfFlag("like ", ReleasedModelConfig(options.like).status());
}

absl::Status TakeDevice(const CommandLine& line, RenderOptions& options) {
  // --device-memory is about a GPU by default, because the memory of this machine is known.
  const bool of_gpu = line.Has("plan") && line.Has("device-memory");
  options.device = line.Get("device").value_or(of_gpu ? "cuda" : "");
  if (!line.Has("plan")) KINORA_RETURN_IF_ERROR(DeviceName(options.device, {}).status());  // --plan needs no device
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(options.device, {}));
  KINORA_ASSIGN_OR_RETURN(options.precision, Precision::Parse(line.Get("precision").value_or("bf16")));
  return options.precision.CheckOn(traits);
}

absl::Status TakeCudaFlags(const CommandLine& line, CudaFlags& flags) {
  if (const auto off = line.Get("cuda-off")) {
    KINORA_ASSIGN_OR_RETURN(flags.off, ParseCudaOff("cuda-off", *off));
  }
  const auto synchronize = line.Get("cuda-synchronize");
  if (!synchronize || absl::SimpleAtob(*synchronize, &flags.synchronize.emplace())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cuda-synchronize: \"", *synchronize, "\" is not true or false"));
}

// Reports a missing folder before the clip is computed, not after.
absl::Status CheckWritable(const std::string& flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const size_t slash = path.find_last_not_of('/') == std::string::npos  // for "frames/", its parent folder
                           ? path.find_last_of('/')
                           : path.find_last_of('/', path.find_last_not_of('/'));
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": no such folder: ", folder));
  }
  if (flag != "--output" && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": is a folder; give a file"));
  }
  if (access(folder.c_str(), W_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": folder ", folder, " is not writable"));
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

// Checks --preview and --preview-every, and sets the default of the latter.
absl::Status TakePreview(const CommandLine& line, RenderOptions& options) {
  if (options.plan) return absl::OkStatus();
  const bool every = options.output.preview_every_steps() > 0;
  if (!line.Has("preview")) {
    return every ? absl::InvalidArgumentError("--preview-every: needs --preview FILE.jpg") : absl::OkStatus();
  }
  if (!HasJpegEnding(options.preview_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--preview ", options.preview_path, ": must end in .jpg; a preview is a JPEG"));
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
    return absl::InvalidArgumentError("--output-options: trace: use --trace FILE instead");
  }
  if (options.output.thumbnail()) {
    return absl::InvalidArgumentError("--output-options: thumbnail: only a server's jobs have one; omit it");
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
      text.empty() ? absl::InvalidArgumentError("must be tokens=N, guidance=N or tensor=N") : MeshShape::Parse(text);
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
    return absl::InvalidArgumentError(line.operands()[0] + ": unexpected argument; see --help");
  options.processes = line.Has("processes");
  options.untiled_decode = line.Has("untiled-decode");
  KINORA_ASSIGN_OR_RETURN(options.decoder_border,
                          ParseDecoderBorder("--decoder-border", line.Get("decoder-border").value_or("")));
  options.plan = line.Has("plan");
  KINORA_RETURN_IF_ERROR(TakeModel(line, options));
  KINORA_RETURN_IF_ERROR(OfFlag("", TakeDevice(line, options)));
  KINORA_RETURN_IF_ERROR(OfFlag("", TakeCudaFlags(line, options.cuda)));
  if (const auto ranks = line.Get("ranks")) {
    KINORA_ASSIGN_OR_RETURN(options.mesh, ParseRanks(*ranks));
  }
  KINORA_ASSIGN_OR_RETURN(const auto threads, line.GetInt("threads", 1, 1024));
  options.threads = static_cast<int>(threads.value_or(0));
  options.json = line.Has("json");
  options.quiet = line.Has("quiet");
  KINORA_ASSIGN_OR_RETURN(const auto memory, line.GetBytes("device-memory"));
  options.device_memory = memory.value_or(0);
  if (options.device_memory > 0 && !options.plan) return absl::InvalidArgumentError("--device-memory: needs --plan");
  if (!options.plan) KINORA_RETURN_IF_ERROR(TakePaths(line, options));
  KINORA_RETURN_IF_ERROR(TakeRequest(line, options));
  return options;
}

}  // namespace kinora
