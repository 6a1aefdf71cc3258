// Receives artifacts over Join streams, from workers that share no directory with this frontend. Pieces are appended,
// in order, to a staged artifact. It gets its key once it is complete, its digest equals the worker's, and the store
// has it durably. The dispatcher decides which pieces are accepted.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_ARTIFACT_INTAKE_H_
#define KINORA_SERVER_FRONTEND_GROUPS_ARTIFACT_INTAKE_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/artifact_store.h"
#include "server/frontend/jobs/job_store.h"
#include "server/net/event_lanes.h"

namespace kinora {

class ArtifactIntake {
 public:
  ArtifactIntake(ArtifactStore& store, Clock& steady);  // neither is owned
  ~ArtifactIntake();                                    // removes incomplete artifacts

  // Accepts one piece. `done` gets a file if it was the last piece and the artifact is durable under "<key>/<name>", or
  // nothing if more must follow. These errors, worded for clients, end the artifact and remove its data:
  // RESOURCE_EXHAUSTED (DISK_FULL), DATA_LOSS (a piece is missing, or the digest differs), INVALID_ARGUMENT (the name
  // is not a valid key). FAILED_PRECONDITION changes nothing: another artifact of `key` is incomplete, and this is not
  // the first piece of one, for which that one would be given up; or `key` has kMostNames already. Any thread; never
  // blocks; `done` runs on a thread of the intake.
  void Take(const std::string& key, v1::UploadChunk chunk, Done<std::optional<StoredFile>> done);
  // The artifact no longer counts against kMostNames: it is a resume point, and the dispatcher sees to it that it
  // replaces another one or is deleted.
  void Release(const std::string& key, const std::string& name);
  // The run of `key` has ended: removes its incomplete artifact, and one that is just being stored. Any thread; never
  // blocks.
  void Drop(const std::string& key);

  // Per key: a clip, its thumbnail, its trace, and a resume point.
  static constexpr size_t kMostNames = 4;

 private:
  class Part;
  struct Artifacts {              // of one run
    std::set<std::string> names;  // begun so far, but for those that failed
    std::string name;             // of the artifact in `part`
    std::unique_ptr<Part> part;   // the incomplete artifact, or null
  };
  using Runs = std::map<std::string, Artifacts>;  // by key
  absl::StatusOr<std::optional<StoredFile>> Write(Runs& runs, const std::string& key, const v1::UploadChunk& chunk);
  absl::Status Begin(const std::string& key, const std::string& name, Artifacts& run);
  void Post(const std::string& key, absl::AnyInvocable<void(Runs& runs)> task);  // to the key's lane

  bool IsDropped(const std::string& key) ABSL_LOCKS_EXCLUDED(mu_);

  ArtifactStore& store_;
  absl::Mutex mu_;
  std::map<std::string, int> dropped_ ABSL_GUARDED_BY(mu_);  // keys whose Drop waits on its lane
  std::vector<Runs> runs_;                                   // of each lane, used only there
  EventLanes lanes_;                                         // last: its threads end before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_ARTIFACT_INTAKE_H_
