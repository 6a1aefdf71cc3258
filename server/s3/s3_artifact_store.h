// Artifacts as objects of an S3 bucket: <prefix>/<key>. A file on its way is spooled in a folder of this host, as a
// file without a name, and sent when it is complete, so that a request can be repeated. An object's metadata has its
// SHA-256.
//
// Errors are those of ArtifactStore, and Cancelled after S3Calls::Stop.
#ifndef KINORA_SERVER_S3_S3_ARTIFACT_STORE_H_
#define KINORA_SERVER_S3_S3_ARTIFACT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/common/artifact_store.h"
#include "server/s3/s3_calls.h"
#include "server/s3/s3_upload.h"

namespace kinora {

class S3ArtifactStore : public ArtifactStore {
 public:
  // calls: not owned. spool: a folder that exists.
  S3ArtifactStore(S3Calls& calls, std::string spool, S3PartRules rules = {})
      : calls_(calls), spool_(std::move(spool)), uploads_(calls, rules) {}

  // Checks by a small object under a key of its own that this process may write, read, list and delete here. The
  // message names the bucket and the operation that failed.
  absl::Status Check();
  // Stores the file at `path`, as StagedArtifact::Commit, if it has this SHA-256. Returns its own. The file stays.
  absl::StatusOr<StoredFile> Upload(std::string_view key, const std::string& path, const std::string& sha256);
  // As Keys, with the time at which each file was stored.
  struct DatedKey {
    std::string key;
    absl::Time stored;
  };
  absl::StatusOr<std::vector<DatedKey>> DatedKeys(std::string_view prefix);

  absl::StatusOr<std::unique_ptr<StagedArtifact>> Begin(std::string_view key) override;
  absl::StatusOr<int64_t> Size(std::string_view key) override;
  absl::StatusOr<ArtifactPiece> Read(std::string_view key, int64_t offset, int64_t limit) override;
  int64_t piece_bytes() const override { return 1 << 20; }
  int lanes() const override { return 8; }
  absl::StatusOr<ArtifactLink> Link(std::string_view key, const LinkRequest& request) override;
  absl::StatusOr<std::vector<std::string>> Keys(std::string_view prefix) override;
  absl::Status Delete(std::string_view prefix) override;
  absl::StatusOr<std::vector<std::string>> FirstParts() override;
  absl::Status CheckRoom(int64_t bytes) override;  // of the spool: a bucket has no limit

 private:
  // Calls `page` with each page of the keys of the bucket that begin with `beginning`, up to `delimiter`.
  absl::Status List(const std::string& beginning, const std::string& delimiter,
                    const std::function<void(const S3Listing& page)>& page);
  std::string KeyOf(const std::string& in_bucket) const;  // without the prefix

  S3Calls& calls_;
  const std::string spool_;
  S3Uploads uploads_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_S3_S3_ARTIFACT_STORE_H_
