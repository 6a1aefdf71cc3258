// The findings of `kinora doctor`, as text and as JSON.
#ifndef KINORA_SERVER_DOCTOR_DOCTOR_REPORT_H_
#define KINORA_SERVER_DOCTOR_DOCTOR_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kinora {

struct Finding {
  enum class State : uint8_t { kOk, kWarning, kFailed };
  State state = State::kOk;
  std::string check;  // "cpu", "programs", "configuration", "port", "disk", "memory", "clip", "open files", "cuda"
  std::string what;
  std::string fix;  // empty only if state is kOk
};

bool AnyFailed(const std::vector<Finding>& findings);

// Returns a line per finding, "ok  cpu  AVX2, 8 threads", with the fix below it, and a line with the counts.
std::string DoctorText(const std::vector<Finding>& findings);
// Returns one line: {"failed": N, "warnings": N, "checks": [{"check", "state", "what", "fix"}]}.
std::string DoctorJson(const std::vector<Finding>& findings);

}  // namespace kinora

#endif  // KINORA_SERVER_DOCTOR_DOCTOR_REPORT_H_
