#include "server/client/doctor_command.h"

#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/client/commands.h"
#include "server/common/run_program.h"
#include "server/config/config.h"
#include "server/doctor/doctor_checks.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

// Whether the file is a worker's configuration and not a frontend's.
bool IsWorkerConfig(const std::vector<std::string>& flags) {
  v1::FrontendConfig frontend;
  v1::WorkerConfig worker;
  return !ParseConfig(flags, frontend).ok() && ParseConfig(flags, worker).ok();
}

// Returns the configuration given by the operand and the flags.
absl::StatusOr<Patient> PatientOf(const CommandLine& line) {
  Patient patient{.config = DefaultFrontendConfig(), .flags = {}, .folder = FolderOfThisProgram()};
  std::vector<std::string> models = line.GetAll("model");
  if (!line.operands().empty()) {
    const std::string& path = line.operands()[0];
    std::error_code error;
    if (!fs::exists(path, error)) return absl::NotFoundError(path + ": no such file or folder");
    if (fs::is_directory(path, error) || absl::EndsWith(path, ".safetensors")) {
      models.insert(models.begin(), path);
    } else {
      patient.flags = {"--config", path};
    }
  }
  const bool file = !patient.flags.empty();
  patient.worker_alone = file && IsWorkerConfig(patient.flags);
  const std::string prefix = patient.worker_alone ? "--" : "--worker-";
  for (const std::string& model : models) patient.flags.push_back(absl::StrCat(prefix, "model=", model));
  if (const auto device = line.Get("device")) patient.flags.push_back(absl::StrCat(prefix, "device=", *device));
  google::protobuf::Message& config =
      patient.worker_alone ? static_cast<google::protobuf::Message&>(*patient.config.mutable_worker()) : patient.config;
  const absl::Status read = ParseConfig(patient.flags, config).status();
  if (!read.ok()) return read;
  return patient;
}

}  // namespace

std::vector<FlagSpec> DoctorFlags() {
  return {{"model", "PATH|NAME=VALUE", "another part of the model, such as text_encoder=FOLDER; repeatable"},
          {"device", "cpu|cuda", "device for the workers; default: the configuration's"}};
}

ExitStatus Doctor(const CommandLine& line) {
  const auto patient = PatientOf(line);
  if (!patient.ok()) return ReportLocalError(patient.status());
  Findings findings = CheckCpu();
  for (const auto check :
       {CheckPrograms, CheckConfiguration, CheckPorts, CheckDisk, CheckMemory, CheckOpenFiles, CheckCuda}) {
    if (check == CheckOpenFiles && patient->worker_alone) continue;  // only a frontend needs many, for its connections
    const Findings found = check(*patient);
    findings.insert(findings.end(), found.begin(), found.end());
  }
  std::fputs((line.Has("json") ? DoctorJson(findings) : DoctorText(findings)).c_str(), stdout);
  return AnyFailed(findings) ? kError : kSuccess;
}

}  // namespace kinora
