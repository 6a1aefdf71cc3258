// The checks of `kinora doctor`. They start no server and write nothing; ports are bound and released.
#ifndef KINORA_SERVER_DOCTOR_DOCTOR_CHECKS_H_
#define KINORA_SERVER_DOCTOR_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kinora/v1/config.pb.h"
#include "server/doctor/doctor_report.h"

namespace kinora {

inline constexpr absl::Duration kPatience = absl::Minutes(5);  // limit for each program that is run

// The configuration to check, and the flags that make its program read the same configuration.
struct Patient {
  v1::FrontendConfig config;
  std::vector<std::string> flags;
  std::string folder;         // with Kinora's programs
  bool worker_alone = false;  // a worker's configuration: only config.worker is set
};

using Findings = std::vector<Finding>;

Findings CheckCpu();
// Whether the programs are there and of the same build.
Findings CheckPrograms(const Patient& patient);
// Runs --check-config of kinora-frontend (fields, certificates, and the model's files by means of kinora-worker) or of
// kinora-worker.
Findings CheckConfiguration(const Patient& patient);
Findings CheckPorts(const Patient& patient);
// Checks state_directory, or a worker's scratch_directory.
Findings CheckDisk(const Patient& patient);
Findings CheckOpenFiles(const Patient& patient);
// Whether each group's model with its default clip fits this machine's memory, and which common clips would be
// rejected, according to kinora-render --plan.
Findings CheckMemory(const Patient& patient);
Findings CheckCuda(const Patient& patient);
// Returns why the CUDA backend cannot use a shared library, as dlopen finds it, or "" if it can: it does not load, or
// it is a cuDNN that is too old.
std::string WhyUnusable(const std::string& library);

}  // namespace kinora

#endif  // KINORA_SERVER_DOCTOR_DOCTOR_CHECKS_H_
