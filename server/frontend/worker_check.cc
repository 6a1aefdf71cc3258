#include "server/frontend/worker_check.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/common/run_program.h"
#include "server/common/status_details.h"
#include "server/config/config.h"

namespace kinora {
namespace {

// Returns the problems that a worker prints to standard error, one per line; none if it exits with status 0.
std::vector<std::string> ProblemsOf(const std::string& binary, const std::vector<std::string>& arguments,
                                    absl::Duration patience) {
  const auto run = RunProgram(binary, arguments, patience);
  if (!run.ok()) return {std::string(run.status().message())};
  if (run->ended && run->exit_status == 0) return {};
  const absl::string_view said = absl::StripAsciiWhitespace(run->err);
  if (!run->ended) {
    return {absl::StrCat(
        binary, " --check-config did not finish within ", absl::FormatDuration(patience),
        said.empty() ? "; check that the disk with its files responds" : absl::StrCat("; it printed: ", said))};
  }
  if (said.empty()) return {absl::StrCat("it exited with status ", run->exit_status, " and printed nothing")};
  std::vector<std::string> problems;
  for (const absl::string_view line : absl::StrSplit(said, '\n', absl::SkipWhitespace())) {
    problems.emplace_back(absl::StripPrefix(line, "kinora-worker: "));
  }
  return problems;
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
    for (std::string& problem : ProblemsOf(config.worker_binary(), arguments, patience)) {
      problems.push_back({FieldOf(config, group.id()), std::move(problem)});
    }
  }
  return problems.empty() ? absl::OkStatus() : InvalidFields(problems);
}

}  // namespace kinora
