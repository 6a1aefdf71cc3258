// Artifacts that come over Join streams, from workers that share no directory with this frontend. Pieces go, in order,
// into a file of their own in the artifact directory; it gets its key once it is whole, has the digest that the worker
// sent, and is on the disk. Whose pieces may come is the dispatcher's to know.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_ARTIFACT_INTAKE_H_
#define KINORA_SERVER_FRONTEND_GROUPS_ARTIFACT_INTAKE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/directory_artifact_store.h"
#include "server/common/event_loop.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

class ArtifactIntake {
 public:
  ArtifactIntake(DirectoryArtifactStore& store, Clock& steady);  // neither is owned
  ~ArtifactIntake();                                             // removes what is not whole

  // A file: it was the last piece, and the artifact is durable under "<key>/<name>". None: the piece is taken. An
  // error, as clients may see it, ends the artifact and removes what there was of it: RESOURCE_EXHAUSTED (DISK_FULL),
  // DATA_LOSS (a piece is missing, or the digest is another), INVALID_ARGUMENT (a name that is no key). Any thread;
  // never blocks; `done` runs on a thread of the intake's.
  void Take(const std::string& key, v1::UploadChunk chunk, Done<std::optional<StoredFile>> done);
  // The run of `key` has ended: removes what has come of artifacts that are not whole. Any thread; never blocks.
  void Drop(const std::string& key);

 private:
  class Part;
  absl::StatusOr<std::optional<StoredFile>> Write(const std::string& key, const v1::UploadChunk& chunk);

  DirectoryArtifactStore& store_;
  std::map<std::string, std::map<std::string, std::unique_ptr<Part>>> parts_;  // by key and name; of the loop's thread
  EventLoop loop_;  // last: its thread ends before anything else goes
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_ARTIFACT_INTAKE_H_
