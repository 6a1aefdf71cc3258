#include "server/frontend/artifacts/artifact_home.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/config/config.h"
#include "server/frontend/artifacts/bucket_home.h"
#include "server/frontend/artifacts/directory_home.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<ArtifactHome>> OpenArtifactHome(const v1::FrontendConfig& config,
                                                               const StateDirectory& state, Clocks clocks,
                                                               FrontendMetrics& metrics) {
  KINORA_RETURN_IF_ERROR(CheckArtifactsField(config));
  if (IsBucketUrl(config.artifacts())) return BucketHome::Open(BucketOf(config), state, clocks, metrics);
  const std::string folder = config.artifacts().empty() ? state.File("artifacts") : FolderOfUrl(config.artifacts());
  return DirectoryHome::Open(folder, state);
}

absl::Status CheckArtifactsField(const v1::FrontendConfig& config) {
  if (IsBucketUrl(config.artifacts())) return LocateBucket(BucketOf(config)).status();
  if (config.artifacts().empty() || !FolderOfUrl(config.artifacts()).empty()) return absl::OkStatus();
  return InvalidField("artifacts",
                      absl::StrCat("\"", config.artifacts(), "\" is neither file:///FOLDER nor s3://BUCKET/PREFIX"));
}

}  // namespace kinora
