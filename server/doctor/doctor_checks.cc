#include "server/doctor/doctor_checks.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/cpu_path.h"
#include "engine/base/version.h"
#include "engine/ops/cuda_traits.h"
#include "server/common/human_text.h"
#include "server/common/run_program.h"
#include "server/config/config.h"
#include "server/net/listen_address.h"

namespace kinora {
namespace {

using State = Finding::State;

bool WantsCuda(const Patient& patient) {
  const std::vector<v1::GroupConfig> groups = GroupsOf(patient.config);
  return std::any_of(groups.begin(), groups.end(), [](const auto& group) { return group.worker().device() == "cuda"; });
}

// Returns the folder in which a worker keeps a clip until it is sent.
std::string ScratchOf(const v1::WorkerConfig& worker) {
  if (!worker.scratch_directory().empty()) return worker.scratch_directory();
  const char* const temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
}

struct CudaLibrary {
  const char* name;
  bool optional;
  const char* fix;
};
constexpr CudaLibrary kCudaLibraries[] = {
    {"libcuda.so.1", false, "install the NVIDIA driver; start a container with the device (--gpus all)"},
    {"libcublasLt.so.13", false,
     "install cuBLAS for CUDA 13 (or the wheel nvidia-cublas) and add its folder to LD_LIBRARY_PATH"},
    {kCudnnLibrary, false,
     "install cuDNN 9.15 or later for CUDA 13 (or the wheel nvidia-cudnn-cu13) and add its folder to LD_LIBRARY_PATH"},
    {kNvrtcLibrary, false,
     "install NVRTC for CUDA 13 (or the wheel nvidia-cuda-nvrtc), with which cuDNN compiles its attention, and add its "
     "folder to LD_LIBRARY_PATH"},
    {"libnccl.so.2", true, "needed for several ranks on devices; install libnccl2 or the wheel nvidia-nccl-cu13"}};

}  // namespace

std::string WhyUnusable(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return dlerror();
  const auto version = reinterpret_cast<size_t (*)()>(dlsym(handle, "cudnnGetVersion"));
  const size_t cudnn = version != nullptr ? version() : kLeastCudnnVersion;
  dlclose(handle);
  if (cudnn >= kLeastCudnnVersion) return "";
  return absl::StrCat(library, ": is cuDNN ", cudnn / 10000, ".", cudnn / 100 % 100, ", older than ",
                      kLeastCudnnVersion / 10000, ".", kLeastCudnnVersion / 100 % 100);
}

Findings CheckCpu() {
  const CpuPath path = ThisCpuPath();
  const std::string what = absl::StrCat(CpuPathName(path), ", ", std::thread::hardware_concurrency(), " threads");
  if (path != CpuPath::kBaseline) return {{State::kOk, "cpu", what, ""}};
  return {{State::kWarning, "cpu", what,
           "a CPU with AVX2 is several times faster; in a virtual machine, pass through the host's CPU"}};
}

Findings CheckPrograms(const Patient& patient) {
  Findings findings;
  const std::string commit = absl::StrCat("commit ", kBuildCommit);
  for (const char* name : {"kinora-frontend", "kinora-worker", "kinora-render"}) {
    const std::string path = absl::StrCat(patient.folder, "/", name);
    const auto version = RunProgram(path, {"--version"}, kPatience);
    if (!version.ok() || version->exit_status != 0) {
      findings.push_back({State::kFailed, "programs",
                          version.ok() ? absl::StrCat(path, ": exits with status ", version->exit_status)
                                       : std::string(version.status().message()),
                          "install all programs into one folder with cmake --install, or build all targets"});
    } else if (!absl::StrContains(version->out, kBuildCommit)) {
      findings.push_back(
          {State::kFailed, "programs", absl::StrCat(path, ": is from a different build than this ", commit),
           "install all programs from one build; a frontend and workers of different builds reject each other"});
    }
  }
  if (findings.empty()) findings.push_back({State::kOk, "programs", absl::StrCat(patient.folder, ", ", commit), ""});
  return findings;
}

Findings CheckConfiguration(const Patient& patient) {
  std::vector<std::string> flags = patient.flags;
  flags.emplace_back("--check-config");
  const std::string program = patient.worker_alone ? "kinora-worker" : "kinora-frontend";
  const auto checked = RunProgram(absl::StrCat(patient.folder, "/", program), flags, kPatience);
  if (!checked.ok()) return {};  // CheckPrograms reports it
  const bool model = !GroupsOf(patient.config).empty();
  if (checked->exit_status == 0) {
    if (!model && OutsideGroupsOf(patient.config).empty()) {
      return {{State::kWarning, "configuration", "valid, but names no model, so the server cannot generate clips",
               "give the model's folder or file, for example: kinora doctor models/demo"}};
    }
    return {{State::kOk, "configuration", model ? "valid, and the model's files are complete" : "valid", ""}};
  }
  const std::string fix = absl::StrCat("correct the field; `", program, " --help` describes every field");
  Findings findings;
  const std::string prefix = absl::StrCat(program, ": ");
  for (const absl::string_view line : absl::StrSplit(checked->err, '\n', absl::SkipWhitespace())) {
    findings.push_back({State::kFailed, "configuration", std::string(absl::StripPrefix(line, prefix)), fix});
  }
  if (findings.empty()) findings.push_back({State::kFailed, "configuration", program + " printed no reason", fix});
  return findings;
}

Findings CheckPorts(const Patient& patient) {
  const v1::FrontendConfig& config = patient.config;
  std::vector<std::pair<std::string, std::string>> ports;
  if (!patient.worker_alone) {
    ports = {{"address", config.address()},
             {"admin_address", config.admin_address()},
             {"http_address", config.http_address()},
             {"web_address", WebAddressOf(config)},
             {"join_address", config.join_address()}};
  }
  for (const v1::GroupConfig& group : GroupsOf(config)) {
    v1::WorkerConfig worker = group.worker();
    for (int rank = 0; rank < group.processes(); ++rank) {
      if (!patient.worker_alone) worker.set_rank(rank);
      ports.emplace_back("worker.http_address", HttpAddressOf(worker));
    }
  }
  Findings findings;
  for (const auto& [field, address] : ports) {
    if (address.empty() || absl::StartsWith(address, "unix:") || absl::EndsWith(address, ":0")) continue;
    const auto bound = ListeningSockets::Bind(field, address, /*local_only=*/false);
    if (bound.ok()) {
      findings.push_back({State::kOk, "port", absl::StrCat(address, " is free (", field, ")"), ""});
      continue;
    }
    const bool may_be_taken = field == "web_address" && !config.has_web_address();  // then there is no page
    findings.push_back(
        {may_be_taken ? State::kWarning : State::kFailed, "port", std::string(bound.status().message()),
         absl::StrCat("`ss -ltnp` shows the process, perhaps a running Kinora; stop it or change ", field)});
  }
  return findings;
}

Findings CheckDisk(const Patient& patient) {
  namespace fs = std::filesystem;
  const std::string field = patient.worker_alone ? "scratch_directory" : "state_directory";
  const std::string folder =
      patient.worker_alone ? ScratchOf(patient.config.worker()) : patient.config.state_directory();
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  struct statvfs disk {};
  if (access(there.c_str(), W_OK | X_OK) != 0 || statvfs(there.c_str(), &disk) != 0) {
    return {{State::kFailed, "disk", absl::StrCat(there.string(), ": is not writable by this user"),
             absl::StrCat("set ", field, " to a folder that this user owns, or run as its owner")}};
  }
  const int64_t free = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  const std::string what = absl::StrCat(HumanBytes(free), " free for ", field, " ", folder);
  if (patient.worker_alone) return {{State::kOk, "disk", what, ""}};
  const int64_t least = patient.config.min_free_bytes();
  if (free < least) {
    return {{State::kFailed, "disk", absl::StrCat(what, "; the frontend rejects jobs below ", HumanBytes(least)),
             "free some space, move state_directory to another disk, or lower min_free_bytes"}};
  }
  if (free < 10 * least) {
    return {{State::kWarning, "disk", absl::StrCat(what, "; the frontend rejects jobs below ", HumanBytes(least)),
             "free some space, or keep clips for a shorter time: --default-ttl-seconds 1d"}};
  }
  return {{State::kOk, "disk", what, ""}};
}

Findings CheckOpenFiles(const Patient& patient) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max == RLIM_INFINITY) return {};
  const int64_t most = static_cast<int64_t>(files.rlim_max), connections = patient.config.max_connections();
  // Two per connection, and some hundreds for the database, other listeners and workers.
  const int64_t needed = 2 * connections + 512;
  const std::string what = absl::StrCat("up to ", most, " (ulimit -Hn)");
  if (most >= needed) return {{State::kOk, "open files", what, ""}};
  return {{State::kWarning, "open files",
           absl::StrCat(what, "; ", needed, " are needed for max_connections, ", connections,
                        ", which the frontend lowers at startup"),
           "raise the limit: LimitNOFILE= in systemd, --ulimit nofile= in a container"}};
}

Findings CheckCuda(const Patient& patient) {
  const bool wanted = WantsCuda(patient), device = access("/dev/nvidia0", F_OK) == 0;
  const std::string backends = kBuildBackends;
  if (absl::StrContains(backends, "simulated")) {
    return {{State::kWarning, "cuda", "this build simulates the device, for tests", "build with cmake --preset cuda"}};
  }
  if (!absl::StrContains(backends, "cuda")) {
    if (!wanted && !device)
      return {{State::kOk, "cuda", "not in this build, and this machine has no NVIDIA device", ""}};
    return {{wanted ? State::kFailed : State::kWarning, "cuda",
             wanted ? "device is cuda, but this build has no CUDA"
                    : "this machine has an NVIDIA device, but this build has no CUDA",
             "build with nvcc: scripts/install-deps --cuda=nvcc, cmake --preset cuda (docs/cuda.md)"}};
  }
  Findings findings;
  for (const CudaLibrary& library : kCudaLibraries) {
    const std::string why = WhyUnusable(library.name);
    const State state = wanted && !library.optional ? State::kFailed : State::kWarning;
    findings.push_back(why.empty() ? Finding{State::kOk, "cuda", absl::StrCat(library.name, " loads"), ""}
                                   : Finding{state, "cuda", why, library.fix});
  }
  return findings;
}

}  // namespace kinora
