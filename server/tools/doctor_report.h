// What `kinora doctor` found, as text and as JSON.
#ifndef KINORA_SERVER_TOOLS_DOCTOR_REPORT_H_
#define KINORA_SERVER_TOOLS_DOCTOR_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kinora {

struct Finding {
  enum class State : uint8_t { kOk, kWarning, kFailed };
  State state = State::kOk;
  std::string check;  // "cpu", "programs", "configuration", "port", "disk", "memory", "clip", "open files", "cuda"
  std::string what;
  std::string fix;  // empty only if it is ok
};

bool AnyFailed(const std::vector<Finding>& findings);

// A line each, "ok  cpu  AVX2, 8 cores", what to do under it, and one that counts.
std::string DoctorText(const std::vector<Finding>& findings);
// One line: {"failed": N, "warnings": N, "checks": [{"check", "state", "what", "fix"}]}.
std::string DoctorJson(const std::vector<Finding>& findings);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_DOCTOR_REPORT_H_
