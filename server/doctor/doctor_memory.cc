// Checks whether models and clips fit this machine, by the estimate that kinora-render --plan computes from the models'
// headers.
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/memory.h"
#include "server/common/human_text.h"
#include "server/common/run_program.h"
#include "server/config/config.h"
#include "server/doctor/doctor_checks.h"

namespace kinora {
namespace {

using State = Finding::State;

struct Row {
  std::string clip;   // "768x512, 121 frames"
  int64_t bytes = 0;  // of all processes
};

// Returns the default clip first, then common ones. Empty if the plan failed; CheckConfiguration reports why.
std::vector<Row> PlanOf(const Patient& patient, const v1::GroupConfig& group) {
  const v1::WorkerConfig& worker = group.worker();
  std::vector<std::string> flags = {"--plan", "--json", "--precision", worker.precision()};
  for (const std::string& model : worker.model()) flags.insert(flags.end(), {"--model", model});
  if (!worker.device().empty()) flags.insert(flags.end(), {"--device", worker.device()});
  if (!worker.ranks().empty()) flags.insert(flags.end(), {"--ranks", worker.ranks()});
  if (worker.untiled_decode()) flags.emplace_back("--untiled-decode");
  if (!worker.decoder_border().empty()) flags.insert(flags.end(), {"--decoder-border", worker.decoder_border()});
  const auto planned = RunProgram(patient.folder + "/kinora-render", flags, kPatience);
  if (!planned.ok() || planned->exit_status != 0) return {};
  const auto json = nlohmann::json::parse(planned->out, nullptr, /*allow_exceptions=*/false);
  std::vector<Row> rows;
  for (const auto& row : json) {
    int64_t bytes = 0;
    if (!absl::SimpleAtoi(row.value("device_bytes", ""), &bytes)) return {};
    rows.push_back(
        {absl::StrCat(row.value("width", 0), "x", row.value("height", 0), ", ", row.value("num_frames", 0), " frames"),
         bytes * group.processes()});
  }
  return rows;
}

Findings OfGroup(const v1::GroupConfig& group, const std::vector<Row>& rows, const MemoryLimit& limit) {
  const int64_t share = static_cast<int64_t>(static_cast<double>(limit.bytes) * group.worker().memory_share());
  const std::string has =
      absl::StrCat(limit.by, " leaves ", HumanBytes(share),
                   group.worker().memory_share() < 1 ? absl::StrCat(" for group ", group.id()) : "");
  if (rows[0].bytes > share) {
    return {{State::kFailed, "memory",
             absl::StrCat("the model and its default clip, ", rows[0].clip, ", need ", HumanBytes(rows[0].bytes), "; ",
                          has),
             limit.by == "this machine" ? "add memory, or use a group of several machines; smaller clips may still fit"
                                        : absl::StrCat("raise the limit (", limit.by, ")")}};
  }
  Findings findings = {
      {State::kOk, "memory",
       absl::StrCat("the model and its default clip, ", rows[0].clip, ", need ", HumanBytes(rows[0].bytes), "; ", has),
       ""}};
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].bytes <= share) continue;
    findings.push_back({State::kWarning, "clip",
                        absl::StrCat(rows[i].clip, ": needs ", HumanBytes(rows[i].bytes),
                                     ", more than there is; such requests are rejected"),
                        "add memory; `kinora estimate` prints the nearest size that fits"});
  }
  return findings;
}

}  // namespace

Findings CheckMemory(const Patient& patient) {
  const MemoryLimit limit = UsableMemory();
  Findings findings;
  for (const v1::GroupConfig& group : GroupsOf(patient.config)) {
    const std::vector<Row> rows = PlanOf(patient, group);
    if (rows.empty()) continue;
    if (group.worker().device() != "cuda") {
      const Findings own = OfGroup(group, rows, limit);
      findings.insert(findings.end(), own.begin(), own.end());
      continue;
    }
    findings.push_back({State::kOk, "memory",
                        absl::StrCat("the model and its default clip, ", rows[0].clip, ", need ",
                                     HumanBytes(rows[0].bytes / group.processes()), " on each device"),
                        ""});
  }
  if (findings.empty()) {
    findings.push_back({State::kOk, "memory", absl::StrCat(limit.by, " leaves ", HumanBytes(limit.bytes)), ""});
  }
  return findings;
}

}  // namespace kinora
