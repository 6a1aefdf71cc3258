// The single looks of `kinora doctor`. Nothing is started, written or kept: ports are bound and given back.
#ifndef KINORA_SERVER_TOOLS_DOCTOR_CHECKS_H_
#define KINORA_SERVER_TOOLS_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kinora/v1/config.pb.h"
#include "server/tools/doctor_report.h"

namespace kinora {

inline constexpr absl::Duration kPatience = absl::Minutes(5);  // with each program that is asked

// What is looked at: a frontend's configuration, and the flags by which kinora-frontend reads the same.
struct Patient {
  v1::FrontendConfig config;
  std::vector<std::string> flags;
  std::string folder;  // of Kinora's programs
};

using Findings = std::vector<Finding>;

Findings CheckCpu();
// Those that belong together are there, and of one build.
Findings CheckPrograms(const Patient& patient);
// kinora-frontend --check-config: fields, certificates, and the model's files by way of kinora-worker.
Findings CheckConfiguration(const Patient& patient);
Findings CheckPorts(const Patient& patient);
Findings CheckDisk(const Patient& patient);
Findings CheckOpenFiles(const Patient& patient);
// Every group's model with its default clip in this machine's memory, and which usual clips would be refused, by
// kinora-render --plan.
Findings CheckMemory(const Patient& patient);
Findings CheckCuda(const Patient& patient);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_DOCTOR_CHECKS_H_
