#include "tests/pipeline/golden_renders.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

using Json = nlohmann::json;
using Floats = std::vector<float>;

std::optional<GuidanceParams> Guidance(const Json& request, const char* name) {
  if (!request.contains(name)) return std::nullopt;
  const Json& g = request[name];
  GuidanceParams params;
  params.cfg_scale = g.value("cfg_scale", 1.0);
  params.stg_scale = g.value("stg_scale", 0.0);
  params.stg_blocks = g.value("stg_blocks", std::vector<int32_t>());
  params.modality_scale = g.value("modality_scale", 1.0);
  params.rescale = g.value("rescale", 0.0);
  return params;
}

// Returns the pixels that `shown` names.
std::shared_ptr<const PixelClip> Pixels(Golden& golden, const Json& shown) {
  const Tensor& pixels = golden.Get("in." + shown["picture"].get<std::string>());
  const uint8_t* const rgb = pixels.data<uint8_t>();
  return std::make_shared<PixelClip>(PixelClip{
      .frames = pixels.dim(0), .height = pixels.dim(1), .width = pixels.dim(2), .rgb = {rgb, rgb + pixels.elements()}});
}

ConditionInput Condition(Golden& golden, const Json& shown) {
  ConditionInput condition{.input_id = shown["picture"],
                           .pixels = Pixels(golden, shown),
                           .frame = shown["frame"],
                           .strength = shown["strength"],
                           .append = shown["append"]};
  const bool image = condition.pixels->frames == 1;
  condition.media = image ? ConditionInput::Media::kImage : ConditionInput::Media::kClip;
  return condition;
}

double Psnr(const Floats& a, const Tensor& golden, const ClipInfo& info, int64_t stride) {
  double squares = 0;
  int64_t n = 0;
  const float* g = golden.data<float>();
  for (int64_t f = 0; f < info.num_frames; ++f)
    for (int64_t y = 0; y < info.height; y += stride)
      for (int64_t x = 0; x < info.width; x += stride)
        for (int64_t c = 0; c < 3; ++c, ++n) {
          const double d = a[((f * info.height + y) * info.width + x) * 3 + c] - g[n];
          squares += d * d;
        }
  EXPECT_EQ(n, golden.elements());
  return -10 * std::log10(squares / static_cast<double>(n) + 1e-30);
}

// Returns every `stride`-th row of [rows, width].
Floats EveryRow(const Floats& values, int64_t width, int64_t stride) {
  Floats kept;
  for (size_t row = 0; row < values.size(); row += stride * width) {
    kept.insert(kept.end(), values.begin() + static_cast<int64_t>(row),
                values.begin() + static_cast<int64_t>(row) + width);
  }
  return kept;
}

std::shared_ptr<const AudioClip> SoundOf(Golden& golden, int32_t sample_rate) {
  const Tensor& sound = golden.Get("in.sound");
  auto clip = std::make_shared<AudioClip>();
  clip->channels = sound.dim(0);
  clip->samples = sound.dim(1);
  clip->sample_rate = sample_rate;
  clip->waveform.assign(sound.data<float>(), sound.data<float>() + sound.elements());
  return clip;
}

GivenNoise NoiseOf(Golden& golden) {
  GivenNoise noise;
  for (const std::string& name : NoiseNames()) {
    if (!golden.Has(name)) continue;
    const Tensor& draws = golden.Get(name);
    noise.draws[name] = {.shape = {draws.shape().dims().begin(), draws.shape().dims().end()},
                         .values = {draws.data<float>(), draws.data<float>() + draws.elements()}};
  }
  return noise;
}

// Returns the file of an upsampler whose weights are in another golden. The file exists until the program ends.
std::string UpsamplerOf(const std::string& name) {
  static absl::Mutex mu(absl::kConstInit);
  static std::map<std::string, Golden> goldens;
  static std::map<std::string, std::string> paths;
  const absl::MutexLock lock(&mu);
  const auto [found, added] = goldens.try_emplace(name, name);
  if (added) paths[name] = found->second.WriteCheckpoint();
  return paths[name];
}

}  // namespace

absl::Status ClipRecorder::Begin(const ClipInfo& info) {
  info_ = info;
  return absl::OkStatus();
}

absl::Status ClipRecorder::Frames(int64_t first, const Tensor& rgb8) {
  EXPECT_EQ(first * info_.width * info_.height * 3, static_cast<int64_t>(rgb8_.size()));
  rgb8_.insert(rgb8_.end(), rgb8.data<uint8_t>(), rgb8.data<uint8_t>() + rgb8.elements());
  return absl::OkStatus();
}

absl::Status ClipRecorder::End() {
  ended_ = true;
  return absl::OkStatus();
}

absl::Status ClipRecorder::FloatFrames(int64_t, const Tensor& rgb) {
  frames_.insert(frames_.end(), rgb.data<float>(), rgb.data<float>() + rgb.elements());
  return absl::OkStatus();
}

absl::Status ClipRecorder::Intermediate(std::string_view name, const Tensor& value) {
  Floats& kept = values_[std::string(name)];
  for (int64_t i = 0; i < value.elements(); ++i) {
    kept.push_back(value.dtype() == DType::kI64 ? static_cast<float>(value.data<int64_t>()[i])
                                                : value.data<float>()[i]);
  }
  return absl::OkStatus();
}

GenerationRequest RequestOf(Golden& golden) {
  const Json parameters = Json::parse(golden.metadata("parameters"));
  const Json& r = parameters["request"];
  GenerationRequest request;
  request.prompt = r["prompt"];
  if (r.contains("negative_prompt")) request.negative_prompt = r["negative_prompt"].get<std::string>();
  request.width = r.value("width", 0);
  request.height = r.value("height", 0);
  request.num_frames = r["num_frames"];
  request.frame_rate = r["frame_rate"];
  request.seed = std::stoull(r["seed"].get<std::string>());
  for (int number = 1; number <= static_cast<int>(Recipe::kHq); ++number) {
    if (r["recipe"] == RecipeName(static_cast<Recipe>(number))) request.recipe = static_cast<Recipe>(number);
  }
  request.sigmas = r["sigmas"].get<std::vector<double>>();
  request.video_guidance = Guidance(r, "video_guidance");
  request.audio_guidance = Guidance(r, "audio_guidance");
  for (const Json& shown : r.value("conditions", Json::array())) {
    request.conditions.push_back(Condition(golden, shown));
  }
  if (r.contains("retake")) {
    request.retake = RetakeInput{.clip = Pixels(golden, r["retake"]),
                                 .audio = SoundOf(golden, r["retake"]["sound_rate"]),
                                 .start_seconds = r["retake"]["start_seconds"],
                                 .end_seconds = r["retake"]["end_seconds"],
                                 .keep_video = r["retake"].value("keep_video", false),
                                 .keep_audio = r["retake"].value("keep_audio", false)};
  }
  request.upsampler = r.value("upsampler", "");
  request.audio_only = r.value("audio_only", false);
  if (r.contains("audio")) {
    request.audio =
        AudioGuide{.audio = SoundOf(golden, parameters["sound_rate"]), .start_seconds = r["audio"]["start_seconds"]};
  }
  const Json loras = parameters.value("loras", Json::object());
  for (const auto& [id, lora] : loras.items()) {
    request.loras.push_back({.id = id, .strength = lora["strength"]});
  }
  if (parameters.value("given_noise", false)) request.noise = NoiseOf(golden);
  return request;
}

PipelineOptions OptionsOf(const Golden& golden, DType precision) {
  const Json parameters = Json::parse(golden.metadata("parameters"));
  const std::string root = std::string(KINORA_SOURCE_DIR "/");
  PipelineOptions options;
  options.files.paths = {root + parameters["model"].get<std::string>()};
  const Json loras = parameters.value("loras", Json::object());
  for (const auto& [id, lora] : loras.items()) {
    options.files.loras.push_back({id, root + lora["file"].get<std::string>()});
  }
  const auto file = [&](const char* name) {
    return parameters.contains(name) ? root + parameters[name].get<std::string>() : "";
  };
  options.files.text_encoder = file("text_encoder");
  options.files.video_vae = file("video_vae");
  options.files.distilled_lora = file("distilled_lora");
  options.files.spatial_upsampler = file("spatial_upsampler");
  if (parameters.contains("upsampler_case")) {
    const std::string name = parameters["upsampler_case"];
    const bool of_time = name.starts_with("upsampler_temporal");
    (of_time ? options.files.temporal_upsampler : options.files.spatial_upsampler) = UpsamplerOf(name);
  }
  using Kind = ModelFiles::Kind;
  options.files.kind = parameters.value("kind", "dev") == "dev" ? Kind::kDev : Kind::kDistilled;
  options.device = "cpu";  // ignored by RenderOn
  options.precision = precision;
  return options;
}

void MakeTextEncoder(const TemporaryDirectory& folder, int64_t rows) {
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"}) {
    std::filesystem::create_symlink(std::string(KINORA_SOURCE_DIR "/models/tiny/gemma/") + name, folder.File(name));
  }
  WriteFile(folder.File("tokenizer_config.json"), "{\"model_max_length\": " + std::to_string(rows) + "}");
}

absl::Status RenderOn(const TestedBackend& on, PipelineOptions options, const Mesh& mesh,
                      const GenerationRequest& request, ClipRecorder& sink) {
  const BackendOptions backend_options{.threads = 2};
  KINORA_ASSIGN_OR_RETURN(const RunPlan cost, Pipeline::PlanOn(on.traits(backend_options), options, mesh, request));
  options.arena_bytes = cost.arena_bytes;
  options.host_arena_bytes = cost.host_arena_bytes;
  KINORA_ASSIGN_OR_RETURN(auto backend, on.open(backend_options));
  KINORA_ASSIGN_OR_RETURN(auto pipeline, Pipeline::LoadOn(std::move(backend), options, mesh));
  KINORA_ASSIGN_OR_RETURN(RunPlan plan, pipeline->Prepare(request));
  if (plan.open_length.has_value()) {
    KINORA_ASSIGN_OR_RETURN(const int32_t frames, pipeline->ChooseFrames(plan, nullptr));
    KINORA_ASSIGN_OR_RETURN(plan, pipeline->Prepare(WithFrames(request, frames)));
  }
  return pipeline->Generate(plan, mesh.world().rank() == 0 ? &sink : nullptr, &sink);
}

RenderTolerances FloatTolerances(const TestedBackend& on) {
  const double step = Tolerance(on, DType::kF32);  // guidance doubles the error of a step
  return {.context = step, .latent = 2 * step, .waveform = 1e-3, .frames = 60.0};
}

void ExpectRender(const ClipRecorder& clip, Golden& golden, const RenderTolerances& tolerances) {
  const Json parameters = Json::parse(golden.metadata("parameters"));
  EXPECT_TRUE(clip.ended_);
  const auto near = [&](const std::string& name, double tolerance) {
    EXPECT_TRUE(Near(clip.values_.at(name), golden.Get("out." + name), tolerance)) << name;
  };
  near("sigmas", 1e-7);
  if (golden.Has("out.sigmas_stage2")) near("sigmas_stage2", 1e-7);
  if (golden.Has("out.input_ids")) near("input_ids", 0);
  for (const char* name : {"video_context", "audio_context", "video_context_negative", "audio_context_negative"}) {
    const std::string key = std::string("out.") + name;
    if (!golden.Has(key)) continue;
    const Tensor& rows = golden.Get(key);
    EXPECT_TRUE(
        Near(EveryRow(clip.values_.at(name), rows.width(), parameters["context_row_stride"]), rows, tolerances.context))
        << name;
  }
  near("audio_latent", tolerances.latent);
  if (golden.Has("out.waveform")) near("waveform", tolerances.waveform);
  EXPECT_EQ(clip.values_.contains("video_latent"), golden.Has("out.video_latent"));
  if (!golden.Has("out.video_latent")) return;
  near("video_latent", tolerances.latent);
  if (!golden.Has("out.frames")) return;
  EXPECT_GE(Psnr(clip.frames_, golden.Get("out.frames"), clip.info_, parameters["frame_stride"]), tolerances.frames);
}

}  // namespace kinora
