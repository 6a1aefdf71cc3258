// Where a frontend keeps its artifacts and uploaded inputs: in folders that it shares with the workers that it starts,
// or in a bucket. The rest of the frontend knows only the interfaces and their keys.
#ifndef KINORA_SERVER_FRONTEND_ARTIFACTS_ARTIFACT_HOME_H_
#define KINORA_SERVER_FRONTEND_ARTIFACTS_ARTIFACT_HOME_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "kinora/v1/config.pb.h"
#include "server/common/artifact_store.h"
#include "server/common/metrics.h"
#include "server/frontend/inputs/input_parts.h"
#include "server/frontend/jobs/state_directory.h"
#include "server/frontend/jobs/state_watch.h"

namespace kinora {

class ArtifactHome {
 public:
  virtual ~ArtifactHome() = default;

  virtual ArtifactStore& artifacts() = 0;
  virtual InputParts& parts() = 0;
  // Calls go over a network, so that looking at every artifact would take long.
  virtual bool is_remote() const = 0;

  // Adds what must stay in place as long as jobs refer to artifacts.
  virtual absl::Status WatchIn(StateWatch& watch) const = 0;
  // Welcome.artifact_directory: tells a worker of this machine how to open the same artifacts. "": it cannot, and sends
  // them as a worker of another machine does.
  virtual std::string ForWorkers() const = 0;
  // Returns a listener for GroupSupervisorOptions.on_process_end that removes what a worker has left unfinished. It
  // refers to this object; thread-safe.
  virtual std::function<void(pid_t pid)> ProcessEndListener() = 0;
  virtual void Stop() = 0;  // ends calls over a network that are under way; any thread
};

// Opens what the configuration says, and removes what earlier processes have left unfinished. Call it before workers
// start. The message of an error names the field.
absl::StatusOr<std::unique_ptr<ArtifactHome>> OpenArtifactHome(const v1::FrontendConfig& config,
                                                               const StateDirectory& state, Clocks clocks,
                                                               FrontendMetrics& metrics);

// Checks, without connecting, that OpenArtifactHome can understand this configuration. InvalidArgument, with the field.
absl::Status CheckArtifactsField(const v1::FrontendConfig& config);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_ARTIFACTS_ARTIFACT_HOME_H_
