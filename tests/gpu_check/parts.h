// The parts of the check. Each stands alone, and runs in a process of its own.
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
  bool simulated = false;  // the device is one: times mean nothing
  int threads = 1;         // of the host
  int runs = 10;           // that a median is of
  std::string program;     // this one's path
  std::string model;       // a folder as models/demo
  std::string configs;     // a folder with lightricks_2.0.json and lightricks_2.3.json
  std::string work;        // an empty folder
  std::string compare;     // JSON of an earlier run, whose errors are subtracted; "": none
};

// The driver and the libraries that are found, and whether they can be used.
void CheckLibraries(const Settings& settings, Report& report);
// Every op on the device against the CPU.
void CheckOps(const Settings& settings, Report& report);
// Memory-bound kernels: time, and share of what a copy reaches.
void CheckKernels(const Settings& settings, Report& report);
// One transformer block and one denoising step of the released shapes.
void CheckBlock(const Settings& settings, Report& report);
void CheckStep(const Settings& settings, Report& report);
// The video decoders of the released shapes.
void CheckDecode(const Settings& settings, Report& report);
// The encoders of picture and sound and the latent upsampler of the released shapes.
void CheckEncode(const Settings& settings, Report& report);
// A clip of the small model, on the device and on the CPU.
void CheckRender(const Settings& settings, Report& report);
// What the libraries have for the model's shapes.
void CheckProbes(const Settings& settings, Report& report);
// The op cases under compute-sanitizer.
void CheckSanitizer(const Settings& settings, Report& report);

struct Part {
  const char* name;
  void (*run)(const Settings& settings, Report& report);
  double budget_seconds;  // on a device; in all less than eight minutes
};
inline constexpr Part kParts[] = {{"libraries", CheckLibraries, 10}, {"ops", CheckOps, 30},
                                  {"kernels", CheckKernels, 40},     {"block", CheckBlock, 65},
                                  {"step", CheckStep, 175},          {"decode", CheckDecode, 30},
                                  {"encode", CheckEncode, 20},       {"render", CheckRender, 30},
                                  {"probes", CheckProbes, 40},       {"sanitizer", CheckSanitizer, 40}};

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_PARTS_H_
