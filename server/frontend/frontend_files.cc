// Checks the files that a frontend's configuration names.
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/clock.h"
#include "server/common/regular_file.h"
#include "server/common/status_details.h"
#include "server/config/config.h"
#include "server/frontend/api/token_file.h"
#include "server/frontend/artifacts/artifact_home.h"
#include "server/frontend/frontend.h"
#include "server/frontend/gateway_supervisor.h"
#include "server/frontend/jobs/state_directory.h"
#include "server/frontend/known_models.h"
#include "server/frontend/stores.h"
#include "server/net/tls_files.h"

namespace kinora {

absl::Status CheckFrontendFiles(const v1::FrontendConfig& config) {
  std::vector<FieldViolation> problems = Violations(LoadTlsFiles(config.tls(), Clock::Real().Now()).status());
  for (FieldViolation& problem :
       Violations(LoadTlsFiles(config.join_tls(), Clock::Real().Now(), "join_tls").status())) {
    problems.push_back(std::move(problem));
  }
  if (!config.peer_address().empty()) {
    for (FieldViolation& problem :
         Violations(LoadTlsFiles(config.peer_tls(), Clock::Real().Now(), "peer_tls").status())) {
      problems.push_back(std::move(problem));
    }
    const absl::Status authority =
        config.peer_ca_file().empty() ? absl::OkStatus() : ReadRegularFile(config.peer_ca_file()).status();
    if (!authority.ok()) problems.push_back({"peer_ca_file", std::string(authority.message())});
  }
  for (const auto& [field, path] :
       {std::pair{"token_file", config.token_file()}, std::pair{"admin_token_file", config.admin_token_file()},
        std::pair{"join_token_file", config.join_token_file()},
        std::pair{"peer_token_file", config.peer_token_file()}}) {
    const absl::Status loads = path.empty() ? absl::OkStatus() : TokenSet::Load(path).status();
    if (!loads.ok()) problems.push_back({field, std::string(loads.message())});
  }
  for (FieldViolation& problem : Violations(ReadModelDescriptions(config).status())) {
    problems.push_back(std::move(problem));
  }
  if (const absl::Status state = StateDirectory::Check(config.state_directory()); !state.ok()) {
    problems.push_back({"state_directory", std::string(absl::StripPrefix(state.message(), "state_directory: "))});
  }
  for (FieldViolation& problem : Violations(CheckStore(config))) problems.push_back(std::move(problem));
  for (FieldViolation& problem : Violations(CheckArtifactsField(config))) problems.push_back(std::move(problem));
  if (!GroupsOf(config).empty() && access(config.worker_binary().c_str(), X_OK) != 0) {
    problems.push_back({"worker_binary", absl::StrCat("cannot run ", config.worker_binary())});
  }
  for (FieldViolation& problem : Violations(CheckGatewayBinary(config))) problems.push_back(std::move(problem));
  return problems.empty() ? absl::OkStatus() : InvalidFields(problems);
}

}  // namespace kinora
