// What happens to jobs after everybody has turned away: expired and deleted ones lose their artifacts, those whose
// client went away are cancelled. One thread of its own, on which artifacts are deleted.
#ifndef KINORA_SERVER_FRONTEND_JOBS_HOUSEKEEPER_H_
#define KINORA_SERVER_FRONTEND_JOBS_HOUSEKEEPER_H_

#include <functional>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/common/artifact_store.h"
#include "server/common/event_loop.h"
#include "server/frontend/jobs/event_hub.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

struct HousekeeperOptions {
  absl::Duration sweep_interval = absl::Minutes(1);
  absl::Duration disconnect_grace = absl::Seconds(30);
};

class Housekeeper {
 public:
  // `cancel`: as VideoService's. None is owned; the store must outlive the housekeeper's last call (Flush it).
  Housekeeper(JobStore& store, ArtifactStore& artifacts, EventHub& hub, Clock& clock,
              std::function<void(const JobId&)> cancel, const HousekeeperOptions& options);
  ~Housekeeper() { Stop(); }
  void Stop() { loop_.Stop(); }

  // Deletes the artifacts of a job that the store hides, then its record. After an error the next sweep tries again.
  void Remove(const JobId& id, Finished done);
  // Cancels the job after the grace unless somebody watches it then.
  void ClientLeft(const JobId& id);

 private:
  void Sweep();

  JobStore& store_;
  ArtifactStore& artifacts_;
  EventHub& hub_;
  const std::function<void(const JobId&)> cancel_;
  const HousekeeperOptions options_;
  EventLoop loop_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_HOUSEKEEPER_H_
