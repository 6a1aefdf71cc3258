// Measures one part of a model, one run per request, so that a driver can alternate it with another program.
//   model_bench transformer|video_decoder|video_encoder|upsampler|gemma f32|bf16 THREADS INPUTS.safetensors MODEL…
// MODEL is like kinora-render's --model. Loads the part, prints "ready GFLOP ARENA_MIB", then reads lines from stdin.
// For each line it runs once and prints "WALL PROCESSOR" in seconds; for the line "save PATH" it writes the outputs as
// safetensors instead. Ends at the end of its input. model_parts.h describes INPUTS. Exits with status 2 if arguments
// or files are invalid.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "engine/base/status_macros.h"
#include "tests/bench/measure.h"
#include "tests/bench/model_parts.h"

namespace kinora {
namespace {

absl::Status Serve(const std::string& part, const PartOptions& options) {
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<ModelPart> model, LoadPart(part, options));
  std::printf("ready %.6g %.6g\n", model->flops() / 1e9, static_cast<double>(model->arena_bytes()) / (1 << 20));
  std::fflush(stdout);
  constexpr std::string_view kSave = "save ";
  for (std::string line; std::getline(std::cin, line);) {
    if (line.starts_with(kSave)) {
      KINORA_RETURN_IF_ERROR(WriteSafetensors(line.substr(kSave.size()), model->outputs()));
      std::printf("saved\n");
    } else {
      const Times times = Measure([&] { model->Run(); });
      std::printf("%.6f %.6f\n", times.wall, times.processor);
    }
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::StatusOr<PartOptions> ParseArguments(int argc, char** argv) {
  if (argc < 6) return absl::InvalidArgumentError("model_bench PART f32|bf16 THREADS INPUTS.safetensors MODEL...");
  PartOptions options{.inputs = argv[4], .threads = std::atoi(argv[3])};
  const std::string precision = argv[2];
  if (precision != "f32" && precision != "bf16") return absl::InvalidArgumentError("precision: f32 or bf16");
  if (options.threads < 1) return absl::InvalidArgumentError("threads: at least 1");
  options.precision = precision == "f32" ? DType::kF32 : DType::kBF16;
  KINORA_ASSIGN_OR_RETURN(options.files, ModelFiles::Parse(std::vector<std::string>(argv + 5, argv + argc)));
  return options;
}

absl::Status Main(int argc, char** argv) {
  KINORA_ASSIGN_OR_RETURN(const PartOptions options, ParseArguments(argc, argv));
  return Serve(argv[1], options);
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  const absl::Status status = kinora::Main(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "model_bench: %s\n", std::string(status.message()).c_str());
  return 2;
}
