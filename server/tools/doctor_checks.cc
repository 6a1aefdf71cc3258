#include "server/tools/doctor_checks.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/cpu_path.h"
#include "engine/base/version.h"
#include "server/common/config.h"
#include "server/common/human_text.h"
#include "server/common/listen_address.h"
#include "server/common/run_program.h"

namespace kinora {
namespace {

using State = Finding::State;

bool WantsCuda(const Patient& patient) {
  const std::vector<v1::GroupConfig> groups = GroupsOf(patient.config);
  return std::any_of(groups.begin(), groups.end(), [](const auto& group) { return group.worker().device() == "cuda"; });
}

// What keeps `library` from being opened; "": nothing does.
std::string CannotOpen(const char* library) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return dlerror();
  dlclose(handle);
  return "";
}

}  // namespace

Findings CheckCpu() {
  const CpuPath path = ThisCpuPath();
  const std::string what = absl::StrCat(CpuPathName(path), ", ", std::thread::hardware_concurrency(), " threads");
  if (path != CpuPath::kBaseline) return {{State::kOk, "cpu", what, ""}};
  return {{State::kWarning, "cpu", what,
           "a CPU with AVX2 computes several times faster; in a virtual machine, pass the host's CPU through"}};
}

Findings CheckPrograms(const Patient& patient) {
  Findings findings;
  const std::string commit = absl::StrCat("commit ", kBuildCommit);
  for (const char* name : {"kinora-frontend", "kinora-worker", "kinora-render"}) {
    const std::string path = absl::StrCat(patient.folder, "/", name);
    const auto version = RunProgram(path, {"--version"}, kPatience);
    if (!version.ok() || version->exit_status != 0) {
      findings.push_back({State::kFailed, "programs",
                          version.ok() ? absl::StrCat(path, ": ends with status ", version->exit_status)
                                       : std::string(version.status().message()),
                          "install all programs into one folder: cmake --install, or build all targets"});
    } else if (!absl::StrContains(version->out, kBuildCommit)) {
      findings.push_back({State::kFailed, "programs", absl::StrCat(path, ": is of another build than this ", commit),
                          "install all programs from one build: frontend and workers refuse each other else"});
    }
  }
  if (findings.empty()) findings.push_back({State::kOk, "programs", absl::StrCat(patient.folder, ", ", commit), ""});
  return findings;
}

Findings CheckConfiguration(const Patient& patient) {
  std::vector<std::string> flags = patient.flags;
  flags.emplace_back("--check-config");
  const auto checked = RunProgram(patient.folder + "/kinora-frontend", flags, kPatience);
  if (!checked.ok()) return {};  // CheckPrograms has said it
  const bool model = !GroupsOf(patient.config).empty();
  if (checked->exit_status == 0) {
    if (!model && OutsideGroupsOf(patient.config).empty()) {
      return {{State::kWarning, "configuration", "right, but no model is named: a server of it makes no clip",
               "give the model's folder or file: kinora doctor models/demo"}};
    }
    return {{State::kOk, "configuration", model ? "right, and the model's files are whole" : "right", ""}};
  }
  constexpr char kFix[] = "set what is named; `kinora-frontend --help` describes every field";
  Findings findings;
  absl::string_view said = absl::StripAsciiWhitespace(checked->err);
  absl::ConsumePrefix(&said, "kinora-frontend: ");
  for (absl::string_view problem : absl::StrSplit(said, "; ", absl::SkipWhitespace())) {
    findings.push_back({State::kFailed, "configuration", std::string(problem), kFix});
  }
  if (findings.empty()) findings.push_back({State::kFailed, "configuration", "kinora-frontend says nothing", kFix});
  return findings;
}

Findings CheckPorts(const Patient& patient) {
  const v1::FrontendConfig& config = patient.config;
  std::vector<std::pair<std::string, std::string>> ports = {{"address", config.address()},
                                                            {"admin_address", config.admin_address()},
                                                            {"http_address", config.http_address()},
                                                            {"join_address", config.join_address()}};
  for (const v1::GroupConfig& group : GroupsOf(config)) {
    v1::WorkerConfig worker = group.worker();
    for (int rank = 0; rank < group.processes(); ++rank) {
      worker.set_rank(rank);
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
    findings.push_back({State::kFailed, "port", std::string(bound.status().message()),
                        absl::StrCat("`ss -ltnp` shows who has it; a Kinora that runs already is one. Else set ", field,
                                     " to another")});
  }
  return findings;
}

Findings CheckDisk(const Patient& patient) {
  namespace fs = std::filesystem;
  const std::string& folder = patient.config.state_directory();
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  struct statvfs disk {};
  if (access(there.c_str(), W_OK | X_OK) != 0 || statvfs(there.c_str(), &disk) != 0) {
    return {{State::kFailed, "disk", absl::StrCat(there.string(), ": this user cannot write there"),
             "give state_directory a folder of this user's, or run as the user whose it is"}};
  }
  const int64_t free = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  const int64_t least = patient.config.min_free_bytes();
  const std::string what = absl::StrCat(HumanBytes(free), " free for state_directory ", folder);
  if (free < least) {
    return {{State::kFailed, "disk", absl::StrCat(what, "; jobs are refused below ", HumanBytes(least)),
             "make room, set state_directory to another disk, or lower min_free_bytes"}};
  }
  if (free < 10 * least) {
    return {{State::kWarning, "disk", absl::StrCat(what, "; jobs are refused below ", HumanBytes(least)),
             "make room, or keep clips for less time: --default-ttl-seconds 1d"}};
  }
  return {{State::kOk, "disk", what, ""}};
}

Findings CheckOpenFiles(const Patient& patient) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max == RLIM_INFINITY) return {};
  const int64_t most = static_cast<int64_t>(files.rlim_max), connections = patient.config.max_connections();
  // Two for a connection; the rest, some hundreds, is the database, other listeners and workers.
  const int64_t needed = 2 * connections + 512;
  const std::string what = absl::StrCat("up to ", most, " (ulimit -Hn)");
  if (most >= needed) return {{State::kOk, "open files", what, ""}};
  return {{State::kWarning, "open files",
           absl::StrCat(what, "; ", needed, " allow max_connections, ", connections, ", which is lowered at the start"),
           "raise it: LimitNOFILE= in systemd, --ulimit nofile= in a container"}};
}

Findings CheckCuda(const Patient& patient) {
  const bool wanted = WantsCuda(patient), device = access("/dev/nvidia0", F_OK) == 0;
  const std::string backends = kBuildBackends;
  if (absl::StrContains(backends, "simulated")) {
    return {{State::kWarning, "cuda", "this build simulates the device, for tests", "build with cmake --preset cuda"}};
  }
  if (!absl::StrContains(backends, "cuda")) {
    if (!wanted && !device) return {{State::kOk, "cuda", "not in this build, and no NVIDIA device here", ""}};
    return {{wanted ? State::kFailed : State::kWarning, "cuda",
             wanted ? "device is cuda, and this build has no CUDA" : "an NVIDIA device is here; this build has no CUDA",
             "build with nvcc: scripts/install-deps --cuda=nvcc, cmake --preset cuda (docs/cuda.md)"}};
  }
  Findings findings;
  const std::pair<const char*, const char*> libraries[] = {
      {"libcuda.so.1", "install NVIDIA's driver; in a container, start it with the device (--gpus all)"},
      {"libcublasLt.so.13",
       "install cuBLAS of CUDA 13 (or the wheel nvidia-cublas) and name its folder in LD_LIBRARY_PATH"},
      {"libcudnn.so.9",
       "install cuDNN 9 for CUDA 13 (or the wheel nvidia-cudnn-cu13) and name its folder in LD_LIBRARY_PATH"},
      {"libnccl.so.2", "several ranks on devices need it: libnccl2, or the wheel nvidia-nccl-cu13"}};
  for (const auto& [library, fix] : libraries) {
    const std::string why = CannotOpen(library);
    const bool optional = absl::StartsWith(library, "libnccl");
    findings.push_back(why.empty() ? Finding{State::kOk, "cuda", absl::StrCat(library, " opens"), ""}
                                   : Finding{wanted && !optional ? State::kFailed : State::kWarning, "cuda", why, fix});
  }
  return findings;
}

}  // namespace kinora
