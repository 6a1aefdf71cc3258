// kinora-gpu-check: checks and measures the CUDA backend on this machine's device. docs/gpu-check.md.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/base/command_line.h"
#include "engine/base/fallbacks.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/base/version.h"
#include "tests/gpu_check/parts.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"model", "FOLDER", "a folder as models/demo: part render"},
    {"configs", "FOLDER",
     "the folder of lightricks_2.0.json and lightricks_2.3.json: parts block, step, decode, encode"},
    {"part", "NAME",
     "libraries, ops, kernels, block, step, decode, encode, render, probes or sanitizer; may be given again; absent: "
     "all"},
    {"json", "FILE", "where the tables go as JSON"},
    {"compare", "FILE", "such a file of another run, as a rule on the simulated device: part ops subtracts its errors"},
    {"small", "", "small shapes; always on a simulated device"},
    {"runs", "N", "that a median is of [10]"},
    {"work", "FOLDER", "where parts write; absent: a folder of its own, removed at the end"},
    {"in-process", "", "the one part that is named, without a process of its own"},
    {"help", "", "this text"},
    {"version", "", "version, commit, backends and the CPU's instruction set"},
};

constexpr char kUsage[] =
    "kinora-gpu-check --model FOLDER --configs FOLDER [flags]: what the CUDA backend does on the device that is there\n"
    "Exit status: 0 passed, 1 a part failed, 2 bad arguments, 3 no part could be run.\n\n";

struct Options {
  Settings settings;
  std::vector<const Part*> parts;
  std::string json;
  bool in_process = false;
};

const Part* FindPart(const std::string& name) {
  const Part* const at =
      std::find_if(std::begin(kParts), std::end(kParts), [&](const Part& part) { return name == part.name; });
  return at == std::end(kParts) ? nullptr : at;
}

absl::Status Read(const CommandLine& line, Options& options) {
  Settings& settings = options.settings;
  for (const auto& [flag, value] : {std::pair<const char*, std::string*>{"model", &settings.model},
                                    {"configs", &settings.configs},
                                    {"compare", &settings.compare},
                                    {"work", &settings.work},
                                    {"json", &options.json}}) {
    *value = line.Get(flag).value_or(*value);
  }
  settings.small = line.Has("small");
  options.in_process = line.Has("in-process");
  KINORA_ASSIGN_OR_RETURN(const auto runs, line.GetInt("runs", 1, 1'000'000));
  settings.runs = static_cast<int>(runs.value_or(settings.runs));
  for (const std::string& name : line.GetAll("part")) {
    if (FindPart(name) == nullptr) return absl::InvalidArgumentError("--part " + name + ": there is no such part");
    options.parts.push_back(FindPart(name));
  }
  if (!line.operands().empty()) return absl::InvalidArgumentError(line.operands()[0] + ": no such argument");
  if (options.in_process && options.parts.size() != 1) {
    return absl::InvalidArgumentError("--in-process: needs one --part");
  }
  if (options.parts.empty()) {
    for (const Part& part : kParts) options.parts.push_back(&part);
  }
  return absl::OkStatus();
}

Json RunHere(const Part& part, const Options& options) {
  Report report(part.name, options.json, options.settings.simulated ? 1e6 : part.budget_seconds);
  if (options.settings.simulated) report.Note("SIMULATED DEVICE: times and rates mean nothing");
  part.run(options.settings, report);
  for (const FallbackCount& each : FallbackCounts()) {
    if (each.count > 0) report.Note(Cat(each.count, " calls without cuDNN: ", each.op, ", ", each.reason));
  }
  report.End();
  return report.json();
}

std::vector<std::string> ArgumentsOf(const Part& part, const Settings& settings, const std::string& json) {
  const std::string folder = Cat(settings.work, "/", part.name);
  std::filesystem::create_directory(folder);
  std::vector<std::string> arguments = {settings.program, "--in-process", "--part", part.name, "--json", json};
  for (const auto& [flag, value] : {std::pair<const char*, std::string>{"--model", settings.model},
                                    {"--configs", settings.configs},
                                    {"--compare", settings.compare},
                                    {"--work", folder},
                                    {"--runs", Cat(settings.runs)}}) {
    if (!value.empty()) arguments.insert(arguments.end(), {flag, value});
  }
  if (settings.small) arguments.emplace_back("--small");
  return arguments;
}

pid_t Start(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? child : -1;
}

// Waits for the child. Kills it at its limit, so that it does not use the other parts' time. Returns "" if it exited by
// itself, and otherwise a description of how it ended.
std::string Await(pid_t child, double limit_seconds) {
  if (child < 0) return "its process could not be started";
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  bool late = false;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (!late && passed.count() > limit_seconds) late = kill(child, SIGKILL) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (late) return Cat("ended after ", limit_seconds, " s; the tables hold what it had");
  return WIFSIGNALED(status) ? Cat("ended by signal ", WTERMSIG(status)) : "";
}

// Runs a part in its own process, so that a crash or a lost device affects only that part.
Json RunApart(const Part& part, const Settings& settings) {
  const std::string file = Cat(settings.work, "/", part.name, ".json");
  const auto begin = std::chrono::steady_clock::now();
  std::string why = Await(Start(ArgumentsOf(part, settings, file)), settings.simulated ? 600 : part.budget_seconds + 2);
  std::ifstream stream(file);
  Json json = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) json = Report(part.name, "", 0).json();
  if (why.empty() && !json.contains("ended")) why = "it ended before it was done";
  if (why.empty()) return json;
  json["state"] = "failed";
  json["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  json["why"].push_back(why);
  return json;
}

int ExitStatusOf(const Json& parts) {
  bool any = false;
  for (const Json& part : parts) {
    if (part["state"] == "failed") return 1;
    any |= part["state"] == "passed";
  }
  return any ? 0 : 3;
}

Json Describe(const Settings& settings, const absl::StatusOr<std::string>& device) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  return {{"program", "kinora-gpu-check"},
          {"device", device.ok() ? *device : std::string(device.status().message())},
          {"simulated", settings.simulated},
          {"times_mean_something", !settings.simulated},
          {"small", settings.small},
          {"driver", driver},
          {"runtime", runtime},
          {"parts", Json::array()}};
}

// Sets the settings that the program determines itself.
void Complete(const absl::StatusOr<std::string>& device, Settings& settings) {
  settings.simulated = device.ok() && device->find("simulated") != std::string::npos;
  settings.small |= settings.simulated;
  settings.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  settings.program = std::filesystem::read_symlink("/proc/self/exe").string();
}

Json RunParts(const Options& options, Json all) {
  if (options.in_process) {
    all["parts"].push_back(RunHere(*options.parts[0], options));
    PrintReport(all["parts"][0], stdout);
    return all;
  }
  const auto device = all["device"].get<std::string>();  // or the reason why there is none
  std::printf("%s%s%s\n", device.rfind("device: ", 0) == 0 ? "" : "device: ", device.c_str(),
              options.settings.simulated ? " - times and rates mean nothing" : "");
  for (const Part* part : options.parts) {
    all["parts"].push_back(RunApart(*part, options.settings));
    PrintReport(all["parts"].back(), stdout);
  }
  std::printf("\n");
  for (const Json& part : all["parts"]) {
    std::printf("%-10s %s\n", part.value("part", "").c_str(), part.value("state", "").c_str());
  }
  if (!options.json.empty()) std::ofstream(options.json) << all.dump(1) << "\n";
  return all;
}

int Main(Options& options) {
  const absl::StatusOr<std::string> device = DeviceName("cuda", {});
  Complete(device, options.settings);
  std::string made;
  if (options.settings.work.empty()) {
    made = (std::filesystem::temp_directory_path() / "kinora-gpu-check-XXXXXX").string();
    if (mkdtemp(made.data()) == nullptr) {
      std::fprintf(stderr, "kinora-gpu-check: no folder can be made as %s\n", made.c_str());
      return 1;
    }
    options.settings.work = made;
  }
  const Json all = RunParts(options, Describe(options.settings, device));
  std::error_code ignored;
  if (!made.empty()) std::filesystem::remove_all(made, ignored);
  return ExitStatusOf(all["parts"]);
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {  // NOLINT: an exception, as of memory that is lacking, ends it
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto line = kinora::CommandLine::Parse(kinora::kFlags, arguments);
  kinora::Options options;
  absl::Status status = line.status();
  if (line.ok() && (line->Has("help") || line->Has("version"))) {
    std::fputs(line->Has("version") ? kinora::VersionText("kinora-gpu-check").c_str()
                                    : (kinora::kUsage + kinora::FormatFlags(kinora::kFlags)).c_str(),
               stdout);
    return 0;
  }
  if (status.ok()) status = kinora::Read(*line, options);
  if (status.ok()) return kinora::Main(options);
  std::fprintf(stderr, "kinora-gpu-check: %s\n", std::string(status.message()).c_str());
  return 2;
}
