// InputParts as files of a folder, which are uploaded to a bucket once they are complete.
#ifndef KINORA_SERVER_FRONTEND_ARTIFACTS_BUCKET_PARTS_H_
#define KINORA_SERVER_FRONTEND_ARTIFACTS_BUCKET_PARTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "server/frontend/inputs/part_folder.h"
#include "server/net/event_loop.h"
#include "server/s3/s3_artifact_store.h"

namespace kinora {

class BucketParts : public PartFolder {
 public:
  // Creates the folder if needed. Neither store nor date is owned.
  static absl::StatusOr<std::unique_ptr<InputParts>> Open(std::string path, S3ArtifactStore& store, Clock& date);

  // The part stays until it is removed: its record is not complete yet.
  absl::StatusOr<StoredFile> Commit(const std::string& sha256, const std::string& key) override;
  // Removes parts at once. Inputs without a record are removed from the bucket in the background, once they are an hour
  // old: until then another frontend may be about to record them. Returns the number of parts.
  int64_t Reconcile(const std::vector<InputRecord>& records) override;

 private:
  void RemoveOrphans(const std::vector<std::string>& known);
  BucketParts(std::string path, S3ArtifactStore& store, Clock& date)
      : PartFolder(std::move(path)), store_(store), date_(date), loop_(date) {}

  S3ArtifactStore& store_;
  Clock& date_;
  EventLoop loop_;  // last: its thread ends before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_ARTIFACTS_BUCKET_PARTS_H_
