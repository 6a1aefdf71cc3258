// Cleans up jobs: deletes the artifacts and records of expired and deleted jobs and the unused files of others
// (job_files.h), and cancels jobs whose client disconnected. Files are looked for and deleted on a thread of their own,
// which may wait for a network.
#ifndef KINORA_SERVER_FRONTEND_JOBS_HOUSEKEEPER_H_
#define KINORA_SERVER_FRONTEND_JOBS_HOUSEKEEPER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/common/artifact_store.h"
#include "server/frontend/jobs/event_hub.h"
#include "server/frontend/jobs/job_store.h"
#include "server/net/executor.h"

namespace kinora {

struct HousekeeperOptions {
  absl::Duration sweep_interval = absl::Minutes(1);
  absl::Duration disconnect_grace = absl::Seconds(30);
  int64_t most_tidied = std::numeric_limits<int64_t>::max();  // ended jobs that Tidy looks at, the newest first
};

class Housekeeper {
 public:
  // `cancel`: cancels a job. None is owned; the store must outlive the housekeeper's last call (Flush it). loop: for
  // everything, with the time of `clock`; null: an EventLoop.
  Housekeeper(JobStore& store, ArtifactStore& artifacts, EventHub& hub, Clock& clock,
              std::function<void(const JobId&)> cancel, const HousekeeperOptions& options,
              std::unique_ptr<Executor> loop = nullptr);
  ~Housekeeper() { Stop(); }
  void Stop() {
    loop_->Stop();
    files_->Stop();
  }

  // Deletes the artifacts of a hidden job, then its record. After an error the next sweep retries.
  void Remove(const JobId& id, Finished done);
  // Call for every terminal event: removes a job that was deleted as it ended (JobStore::CancelAndDelete), and the
  // unused files of another, such as its resume point. Any thread.
  void JobEnded(const v1::Video& video);
  // Deletes the unused files of jobs, which a crash may have left. Call once, when no job of an earlier frontend
  // counts as running any more.
  void Tidy();
  // Cancels the job after disconnect_grace unless it is being watched then.
  void ClientLeft(const JobId& id);

 private:
  void Sweep();
  void TidyEnded(const std::string& page_token, int64_t most);
  void TidyOne(const v1::Video& video, const std::optional<v1::ResumeMark>& resume);
  absl::Status DeleteUnused(const v1::Video& video, const std::optional<v1::ResumeMark>& resume);
  void RemoveAndLog(const JobId& id);

  JobStore& store_;
  ArtifactStore& artifacts_;
  EventHub& hub_;
  const std::function<void(const JobId&)> cancel_;
  const HousekeeperOptions options_;
  bool tidies_ = true;                         // until an error; only on files_
  const std::unique_ptr<Executor> own_files_;  // null: loop_ has its tasks too
  const std::unique_ptr<Executor> loop_;
  Executor* const files_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_HOUSEKEEPER_H_
