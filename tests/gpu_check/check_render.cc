// Part "render": a clip of the small model, on the device and on the CPU.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/pipeline/pipeline.h"
#include "tests/gpu_check/parts.h"

namespace kinora {
namespace {

// Minimum PSNR of frames (dB) and, in float32, maximum ‖a − b‖ / ‖b‖ of sound. In bfloat16 rounding noise grows over
// the steps.
constexpr double kLeastFrames = 40.0, kLeastFramesBf16 = 30.0, kMostSound = 1e-2;

struct Clip : ClipSink {
  absl::Status Begin(const ClipInfo&) override { return absl::OkStatus(); }
  absl::Status Frames(int64_t, const Tensor& rgb8) override {
    frames.insert(frames.end(), rgb8.data<uint8_t>(), rgb8.data<uint8_t>() + rgb8.elements());
    return absl::OkStatus();
  }
  absl::Status Audio(const Tensor& waveform) override {
    sound.assign(waveform.data<float>(), waveform.data<float>() + waveform.elements());
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }

  std::vector<uint8_t> frames;
  std::vector<float> sound;
  double seconds = 0;  // of the run, without loading
};

absl::StatusOr<ModelFiles> FilesIn(const std::string& folder) {
  ModelFiles files{.text_encoder = folder + "/gemma"};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().string().ends_with("-dev.safetensors")) files.paths.push_back(entry.path().string());
  }
  if (files.paths.size() != 1) {
    return absl::NotFoundError(Cat("--model ", folder, ": no file, or several, ending in -dev.safetensors"));
  }
  return files;
}

GenerationRequest RequestOf(const Settings& settings) {
  GenerationRequest request;
  request.prompt = "A red ball moves to the right on a white background.";
  request.seed = 7;
  if (settings.small) {
    request.width = request.height = 64;
    request.num_frames = 9;
    request.num_inference_steps = 2;
    request.recipe = Recipe::kOneStage;
  }
  return request;
}

absl::StatusOr<Clip> Render(const Settings& settings, const char* device, DType precision) {
  PipelineOptions options{.device = device, .precision = precision, .threads = settings.threads};
  KINORA_ASSIGN_OR_RETURN(options.files, FilesIn(settings.model));
  const auto mesh = Mesh::Single();
  const GenerationRequest request = RequestOf(settings);
  KINORA_ASSIGN_OR_RETURN(const RunPlan needed, Pipeline::Plan(options, *mesh, request));
  options.arena_bytes = needed.arena_bytes;
  options.host_arena_bytes = needed.host_arena_bytes;
  KINORA_ASSIGN_OR_RETURN(const auto pipeline, Pipeline::Load(options, *mesh));
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, pipeline->Prepare(request));
  Clip clip;
  const auto begin = std::chrono::steady_clock::now();
  KINORA_RETURN_IF_ERROR(pipeline->Generate(plan, &clip, nullptr));
  clip.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return clip;
}

double Psnr(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  double squares = 0;
  for (size_t i = 0; i < b.size(); ++i) squares += std::pow((a[i] - b[i]) / 255.0, 2);
  return -10 * std::log10(squares / static_cast<double>(b.size()) + 1e-10);  // at most 100
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0, of_b = 1e-30;
  for (size_t i = 0; i < b.size(); ++i) {
    squares += std::pow(double{a[i]} - b[i], 2);
    of_b += double{b[i]} * b[i];
  }
  return std::sqrt(squares / of_b);
}

void Compare(const Settings& settings, DType precision, Report& report) {
  const std::string name(DTypeName(precision));
  const auto device = Render(settings, "cuda", precision);
  if (!device.ok()) return report.Fail(Cat(name, " on the device"), device.status());
  const auto cpu = Render(settings, "cpu", precision);
  if (!cpu.ok()) return report.Fail(Cat(name, " on the CPU"), cpu.status());
  if (device->frames.size() != cpu->frames.size() || device->sound.size() != cpu->sound.size() || cpu->frames.empty() ||
      cpu->sound.empty()) {
    return report.Fail(Cat(name, ": the clips are not of one size"));
  }
  const double frames = Psnr(device->frames, cpu->frames), sound = RelativeError(device->sound, cpu->sound);
  report.Add("clip", {{"precision", name},
                      {"frames dB", frames},
                      {"sound, relative", sound},
                      {"device s", device->seconds},
                      {"CPU s", cpu->seconds}});
  if (precision == DType::kF32 && (!(frames >= kLeastFrames) || !(sound <= kMostSound))) {
    report.Fail(Cat(name, ": frames of ", kLeastFrames, " dB and sound within ", kMostSound, " are needed"));
  }
  if (precision == DType::kBF16 && !(frames >= kLeastFramesBf16)) {
    report.Fail(Cat(name, ": frames of ", kLeastFramesBf16, " dB are needed"));
  }
}

}  // namespace

void CheckRender(const Settings& settings, Report& report) {
  const auto device = DeviceName("cuda", {});
  if (!device.ok()) return report.NotAvailable(std::string(device.status().message()));
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    if (!report.TimeIsUp(std::string(DTypeName(precision)))) Compare(settings, precision, report);
  }
  report.Note(
      "frames: PSNR of the device's 8-bit frames against the CPU's, 100: equal; the first render of each is timed");
}

}  // namespace kinora
