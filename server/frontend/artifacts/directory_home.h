// Artifacts in a folder, which workers of this machine open too.
#ifndef KINORA_SERVER_FRONTEND_ARTIFACTS_DIRECTORY_HOME_H_
#define KINORA_SERVER_FRONTEND_ARTIFACTS_DIRECTORY_HOME_H_

#include <memory>
#include <string>
#include <utility>

#include "engine/base/file_descriptor.h"
#include "server/common/directory_artifact_store.h"
#include "server/frontend/artifacts/artifact_home.h"

namespace kinora {

class DirectoryHome : public ArtifactHome {
 public:
  // folder: of the artifacts; created if needed, and locked: FailedPrecondition if another frontend has it. Parts of
  // uploads are in the state directory.
  static absl::StatusOr<std::unique_ptr<ArtifactHome>> Open(const std::string& folder, const StateDirectory& state);

  ArtifactStore& artifacts() override { return *artifacts_; }
  InputParts& parts() override { return *parts_; }
  bool is_remote() const override { return false; }
  absl::Status WatchIn(StateWatch& watch) const override { return watch.Add(artifacts_->root()); }
  std::string ForWorkers() const override { return artifacts_->root(); }
  std::function<void(pid_t pid)> ProcessEndListener() override;
  void Stop() override {}

 private:
  DirectoryHome(FileDescriptor lock, std::unique_ptr<DirectoryArtifactStore> artifacts,
                std::unique_ptr<InputParts> parts)
      : lock_(std::move(lock)), artifacts_(std::move(artifacts)), parts_(std::move(parts)) {}

  const FileDescriptor lock_;  // of the folder
  const std::unique_ptr<DirectoryArtifactStore> artifacts_;
  const std::unique_ptr<InputParts> parts_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_ARTIFACTS_DIRECTORY_HOME_H_
