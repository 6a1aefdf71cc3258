// The defaults of a frontend's configuration that depend on other fields.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/common/run_program.h"
#include "server/frontend/frontend.h"

namespace kinora {

v1::FrontendConfig WithDerivedDefaults(v1::FrontendConfig config) {
  namespace fs = std::filesystem;
  std::error_code error;  // without a state directory there is no default; CheckFrontendConfig reports it
  const fs::path state = fs::absolute(config.state_directory(), error).lexically_normal();
  if (config.admin_address().empty() && !config.state_directory().empty() && !error) {
    config.set_admin_address(absl::StrCat("unix:", (state / "admin.sock").string()));
  }
  if (config.worker_binary().empty()) config.set_worker_binary(FolderOfThisProgram() + "/kinora-worker");
  if (config.gateway_binary().empty()) config.set_gateway_binary(FolderOfThisProgram() + "/kinora-gateway");
  return config;
}

}  // namespace kinora
