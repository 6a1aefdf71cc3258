#include "server/doctor/doctor_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kinora {
namespace {

const char* StateName(Finding::State state) {
  switch (state) {
    case Finding::State::kOk:
      return "ok";
    case Finding::State::kWarning:
      return "warning";
    case Finding::State::kFailed:
      break;
  }
  return "failed";
}

int64_t Count(const std::vector<Finding>& findings, Finding::State state) {
  return std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.state == state; });
}

}  // namespace

bool AnyFailed(const std::vector<Finding>& findings) { return Count(findings, Finding::State::kFailed) > 0; }

std::string DoctorText(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&out, "%-8s %-14s %s\n", StateName(finding.state), finding.check, finding.what);
    if (!finding.fix.empty()) absl::StrAppendFormat(&out, "%-8s %-14s %s\n", "", "", finding.fix);
  }
  const int64_t failed = Count(findings, Finding::State::kFailed), warned = Count(findings, Finding::State::kWarning);
  absl::StrAppend(&out, failed, " failed, ", warned, warned == 1 ? " warning, " : " warnings, ",
                  findings.size() - failed - warned, " ok\n");
  return out;
}

std::string DoctorJson(const std::vector<Finding>& findings) {
  nlohmann::ordered_json json = {{"failed", Count(findings, Finding::State::kFailed)},
                                 {"warnings", Count(findings, Finding::State::kWarning)},
                                 {"checks", nlohmann::ordered_json::array()}};
  for (const Finding& finding : findings) {
    json["checks"].push_back(
        {{"check", finding.check}, {"state", StateName(finding.state)}, {"what", finding.what}, {"fix", finding.fix}});
  }
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kinora
