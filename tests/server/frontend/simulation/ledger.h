// What has really happened, and what must always hold.
#ifndef KINORA_TESTS_SERVER_FRONTEND_SIMULATION_LEDGER_H_
#define KINORA_TESTS_SERVER_FRONTEND_SIMULATION_LEDGER_H_

#include <cstdint>
#include <functional>
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

struct FrontendHealth {
  absl::Time well_since = absl::InfiniteFuture();  // it has served with all that it needs; infinite future: it does not
  absl::Time awake_since = absl::InfinitePast();   // it was not stopped
  bool alone = true;                               // on its store
};

class Ledger {
 public:
  static inline const JobRules kRules = {.max_lost_groups = 2, .default_ttl = absl::Hours(24)};

  explicit Ledger(World& world) : world_(world) {}

  // What happens. Each checks what it must, and notes the first failure.
  void Stored(const v1::VideoEvent& event);                      // by the job store
  void Created(const std::string& request_id, const JobId& id);  // as a client was told
  // alone: so is its frontend, FrontendHealth::alone
  void RunStarted(const JobId& id, int attempt, const std::string& group, bool alone);
  void CancelHeard(const JobId& id, int attempt) { cancelled_steps_[{id, attempt}] = 0; }  // by the group
  void CancelStored(const JobId& id);                                                      // of a run
  // well_since: of its frontend, FrontendHealth::well_since
  void Leased(const JobId& id, int attempt, absl::Time expiry) { jobs_[id].leases[attempt] = expiry; }
  void Claimed(const JobId& id, const FrontendId& owner) { jobs_[id].owner = owner; }
  void PointStored(const JobId& id, int attempt);
  // awake_since: of its frontend, FrontendHealth::awake_since
  void StepStarts(const JobId& id, int attempt, absl::Time awake_since);
  void ClientLost(const JobId& id);
  void FrontendLost();  // which may have taken the clients that others have lost  // of a job that ends with it
  // A resume point that ends each worker that continues from it.
  void Poison(const std::string& key) { poisoned_.insert(key); }
  bool IsPoisoned(const std::string& key) const { return poisoned_.contains(key); }
  void DiedOf(const std::string& key, const FrontendHealth& frontend);
  void StepDone(const JobId& id, int attempt, absl::Time well_since);
  void ArtifactStored(const std::string& key, const std::string& sha256) { artifacts_[key] = sha256; }
  // The clip of a run that computed so many steps of the job's state, and how many are the whole.
  static std::string ClipOf(const JobId& id, int steps) { return id + " after step " + std::to_string(steps); }
  static int StepsOf(const JobId& id) {
    const size_t hash = std::hash<JobId>()(id);
    return 3 + static_cast<int>(hash % 8) + (hash / 8 % 6 == 0 ? 20 : 0);  // some run for longer than a lease
  }
  void Fail(const std::string& what);
  // Since when some frontend has been well.
  void SetWellSince(std::function<absl::Time()> some_well_since) { some_well_since_ = std::move(some_well_since); }

  // The jobs that have waited since then.
  std::vector<JobId> WaitingSince(absl::Time time) const;
  // Jobs that a frontend claimed before then and that run nowhere, and the frontend.
  std::map<JobId, FrontendId> NotStartedSince(absl::Time time) const;
  // The jobs whose run has had no lease since before then.
  std::vector<JobId> WithoutLeaseSince(absl::Time time) const;
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
    FrontendId owner;                               // of the last claim
    absl::Time claimed_time;
    int late_steps = 0;                // after its frontend must have heard of it
    std::set<int> started;             // attempts
    std::map<int, absl::Time> leases;  // their ends, by attempt
    absl::Time client_lost = absl::InfiniteFuture();
  };
  void CheckEnd(const v1::Video& video);

  World& world_;
  std::map<JobId, Job> jobs_;
  std::map<std::string, JobId> by_request_;
  std::map<std::string, std::string> artifacts_;  // digests, by key
  std::map<std::pair<JobId, int>, int> cancelled_steps_;
  std::set<std::string> poisoned_;                                               // keys
  std::map<std::string, std::pair<absl::Time, const FrontendHealth*>> died_of_;  // the last time, and where
  std::function<absl::Time()> some_well_since_;
  int64_t resumed_ = 0, interrupted_ = 0;
  std::string failure_;
};

}  // namespace kinora::simulation

#endif  // KINORA_TESTS_SERVER_FRONTEND_SIMULATION_LEDGER_H_
