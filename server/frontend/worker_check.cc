#include "server/frontend/worker_check.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/common/config.h"
#include "server/common/run_program.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

// What a program says on its standard error before it ends, unless it ends with status 0: then "".
std::string Complaint(const std::string& binary, const std::vector<std::string>& arguments, absl::Duration patience) {
  const auto run = RunProgram(binary, arguments, patience);
  if (!run.ok()) return std::string(run.status().message());
  if (run->ended && run->exit_status == 0) return "";
  const absl::string_view said = absl::StripAsciiWhitespace(run->err);
  if (!run->ended) {
    return absl::StrCat(binary, " --check-config has not ended within ", absl::FormatDuration(patience),
                        said.empty() ? "; are its files on a disk that answers?" : absl::StrCat("; it said: ", said));
  }
  if (said.empty()) return absl::StrCat("it ended with status ", run->exit_status, " and said nothing");
  return std::string(absl::StripPrefix(said, "kinora-worker: "));
}

std::string FieldOf(const v1::FrontendConfig& config, const std::string& group) {
  for (int i = 0; i < config.groups_size(); ++i) {
    if (config.groups(i).id() == group) return absl::StrCat("groups[", i, "].worker");
  }
  return "worker";
}

}  // namespace

absl::Status CheckWorkers(const v1::FrontendConfig& config, absl::Duration patience) {
  std::vector<FieldViolation> problems;
  for (const v1::GroupConfig& group : GroupsOf(config)) {
    v1::WorkerConfig worker = group.worker();
    worker.set_frontend(absl::StrCat("unix:", config.state_directory(), "/worker.sock"));
    worker.set_world_size(group.processes());
    std::vector<std::string> arguments = ToFlags(worker);
    arguments.emplace_back("--check-config");
    const std::string why = Complaint(config.worker_binary(), arguments, patience);
    if (!why.empty()) problems.push_back({FieldOf(config, group.id()), why});
  }
  return problems.empty() ? absl::OkStatus() : InvalidFields(problems);
}

}  // namespace kinora
