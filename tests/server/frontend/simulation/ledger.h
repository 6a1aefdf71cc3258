// What has really happened, and what must always hold.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_LEDGER_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_LEDGER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/jobs/job_record.h"
#include "tests/server/frontend/simulation/world.h"

namespace kinora::simulation {

constexpr absl::Duration kPoll = absl::Seconds(2);   // of frontends that are not alone
constexpr absl::Duration kHears = absl::Seconds(5);  // a poll, what the store, the news and the messages take, and more

class Ledger {
 public:
  static inline const JobRules kRules = {.max_lost_groups = 2, .default_ttl = absl::Hours(24)};

  explicit Ledger(World& world) : world_(world) {}

  // What happens. Each checks what it must, and notes the first failure.
  void Stored(const v1::VideoEvent& event);                      // by the job store
  void Created(const std::string& request_id, const JobId& id);  // as a client was told
  void RunStarted(const JobId& id, int attempt, const std::string& group);
  void CancelHeard(const JobId& id, int attempt) { cancelled_steps_[{id, attempt}] = 0; }  // by the group
  void CancelStored(const JobId& id);                                                      // of a run
  // well_since: of its frontend, SimFrontend::well_since
  void StepDone(const JobId& id, int attempt, absl::Time well_since);
  void ArtifactStored(const std::string& key, const std::string& sha256) { artifacts_[key] = sha256; }
  // The clip of a run that computed so many steps of the job's state, and how many are the whole.
  static std::string ClipOf(const JobId& id, int steps) { return id + " after step " + std::to_string(steps); }
  static int StepsOf(const JobId& id) { return 3 + static_cast<int>(std::hash<JobId>()(id) % 8); }
  void Fail(const std::string& what);

  // The jobs that have waited since then.
  std::vector<JobId> WaitingSince(absl::Time time) const;
  bool AllEnded() const;  // all jobs that the store has created
  std::string Waiting() const;
  const std::vector<v1::VideoEvent>& EventsOf(const JobId& id) const { return jobs_.at(id).events; }
  int64_t jobs() const { return static_cast<int64_t>(jobs_.size()); }
  int64_t resumed() const { return resumed_; }          // runs
  int64_t interrupted() const { return interrupted_; }  // runs, for others of a higher priority
  const std::string& failure() const { return failure_; }

 private:
  struct Job {
    std::vector<v1::VideoEvent> events;
    v1::Video::State state = v1::Video::STATE_UNSPECIFIED;
    int attempt = 0, resumed = 0;  // resumed: the last attempt that did
    int preemptions = 0;
    absl::Time queued_since;                        // while QUEUED
    absl::Time cancelled = absl::InfiniteFuture();  // while it ran
    int late_steps = 0;                             // after its frontend must have heard of it
    std::set<int> started;                          // attempts
  };
  void CheckEnd(const v1::Video& video);

  World& world_;
  std::map<JobId, Job> jobs_;
  std::map<std::string, JobId> by_request_;
  std::map<std::string, std::string> artifacts_;  // digests, by key
  std::map<std::pair<JobId, int>, int> cancelled_steps_;
  int64_t resumed_ = 0, interrupted_ = 0;
  std::string failure_;
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_LEDGER_H_
