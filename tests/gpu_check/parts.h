// The parts of the check. They are independent, and each runs in its own process.
#ifndef KINORA_TESTS_GPU_CHECK_PARTS_H_
#define KINORA_TESTS_GPU_CHECK_PARTS_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/ops/backend.h"
#include "tests/gpu_check/report.h"

namespace kinora {

struct Settings {
  bool small = false;      // shapes for a simulated device
  bool simulated = false;  // the device is simulated, so times are meaningless
  int threads = 1;         // host threads
  int runs = 10;           // runs per median
  std::string program;     // path of this program
  std::string model;       // a folder like models/demo
  std::string configs;     // a folder with lightricks_2.0.json and lightricks_2.3.json
  std::string work;        // an empty folder
  std::string compare;     // JSON of an earlier run, whose errors are subtracted; may be empty
};

// Finds the driver and the libraries and checks whether they can be used.
void CheckLibraries(const Settings& settings, Report& report);
// Answers what only a device can: which products and convolutions the libraries have, and whether early launches wait.
void CheckQuestions(const Settings& settings, Report& report);
// Compares every op on the device with the CPU.
void CheckOps(const Settings& settings, Report& report);
// Measures memory-bound kernels: time, and bandwidth relative to a copy.
void CheckKernels(const Settings& settings, Report& report);
// Measure one transformer block and one denoising step at the released shapes.
void CheckBlock(const Settings& settings, Report& report);
void CheckStep(const Settings& settings, Report& report);
// Measures the video decoders at the released shapes.
void CheckDecode(const Settings& settings, Report& report);
// Measures the video and audio encoders and the latent upsampler at the released shapes.
void CheckEncode(const Settings& settings, Report& report);
// Renders a clip of the small model on the device and on the CPU.
void CheckRender(const Settings& settings, Report& report);
// Lists the algorithms that the libraries offer for the model's shapes.
void CheckProbes(const Settings& settings, Report& report);
// Runs the op cases under compute-sanitizer.
void CheckSanitizer(const Settings& settings, Report& report);

struct Part {
  const char* name;
  void (*run)(const Settings& settings, Report& report);
  double budget_seconds;  // on a device; less than ten minutes in total
};
inline constexpr Part kParts[] = {
    {"libraries", CheckLibraries, 10}, {"questions", CheckQuestions, 25}, {"ops", CheckOps, 50},
    {"kernels", CheckKernels, 40},     {"block", CheckBlock, 65},         {"step", CheckStep, 175},
    {"decode", CheckDecode, 60},       {"encode", CheckEncode, 50},       {"render", CheckRender, 40},
    {"probes", CheckProbes, 40},       {"sanitizer", CheckSanitizer, 40}};

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_PARTS_H_
