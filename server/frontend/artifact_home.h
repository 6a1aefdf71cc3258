// Where a frontend keeps its artifacts and uploaded inputs: folders of its state directory, which it shares with the
// workers that it starts. The rest of the frontend knows only the two interfaces and their keys.
#ifndef KINORA_SERVER_FRONTEND_ARTIFACT_HOME_H_
#define KINORA_SERVER_FRONTEND_ARTIFACT_HOME_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/common/directory_artifact_store.h"
#include "server/frontend/inputs/input_parts.h"
#include "server/frontend/jobs/state_directory.h"
#include "server/frontend/jobs/state_watch.h"

namespace kinora {

class ArtifactHome {
 public:
  // Creates the folders if needed and removes what earlier processes have left unfinished. Call it before workers
  // start.
  static absl::StatusOr<std::unique_ptr<ArtifactHome>> Open(const StateDirectory& state);

  ArtifactStore& artifacts() { return *artifacts_; }
  InputParts& parts() { return *parts_; }

  // Adds what must stay in place as long as jobs refer to artifacts.
  absl::Status WatchIn(StateWatch& watch) const { return watch.Add(artifacts_->root()); }
  // Welcome.artifact_directory: tells a worker of this machine how to open the same artifacts.
  const std::string& ForWorkers() const { return artifacts_->root(); }
  // Returns a listener for GroupSupervisorOptions.on_process_end that removes what a worker has left unfinished. It
  // refers to this object; thread-safe.
  std::function<void(pid_t pid)> ProcessEndListener();

 private:
  ArtifactHome(std::unique_ptr<DirectoryArtifactStore> artifacts, std::unique_ptr<InputParts> parts)
      : artifacts_(std::move(artifacts)), parts_(std::move(parts)) {}

  const std::unique_ptr<DirectoryArtifactStore> artifacts_;
  const std::unique_ptr<InputParts> parts_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_ARTIFACT_HOME_H_
