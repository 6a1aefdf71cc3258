// Stores a file as an object: in one request, or in parts that are sent side by side.
#ifndef KINORA_SERVER_S3_S3_UPLOAD_H_
#define KINORA_SERVER_S3_S3_UPLOAD_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/s3/s3_calls.h"

namespace kinora {

struct S3PartRules {
  int64_t multipart_from = int64_t{64} << 20;  // bytes; smaller files take one request
  int64_t part = int64_t{16} << 20;            // at least 5 MiB (S3); longer if there were more than 10,000 parts
  int parallel = 4;
};

struct S3File {
  std::string key;
  int file = -1;  // a descriptor, not owned
  int64_t bytes = 0;
  std::string sha256;  // of the whole file, lower-case hex; stored as the object's metadata "sha256"
};

class S3Uploads {
 public:
  explicit S3Uploads(S3Calls& calls, S3PartRules rules = {}) : calls_(calls), rules_(rules) {}  // calls: not owned

  // OK: the object has these bytes. It is not overwritten: if it has others already, fails with AlreadyExists. An
  // object whose request was carried out but not answered is recognized by its digest. Thread-safe; errors: as S3Calls.
  absl::Status Put(const S3File& file);

 private:
  struct Part {
    int index = 0;      // from 0
    int64_t bytes = 0;  // of each but the last
    absl::Time until;
  };
  absl::Status PutWhole(const S3File& file, absl::Time until);
  absl::Status PutParts(const S3File& file, absl::Time until);
  absl::StatusOr<std::vector<std::string>> SendParts(const S3File& file, const std::string& upload_id,
                                                     absl::Time until);
  absl::StatusOr<std::string> SendPart(const S3File& file, const std::string& upload_id, const Part& part);
  absl::Status Complete(const S3File& file, const std::string& upload_id, const std::vector<std::string>& etags,
                        absl::Time until);
  // Makes a call that creates the object, unless there is one; if the server does not know that condition, without it.
  absl::Status Create(const S3Call& call);
  absl::Status Confirm(const S3File& file, absl::Time until);  // OK: the object has the file's bytes
  absl::StatusOr<std::string> DigestOfObject(const S3File& file, absl::Time until);

  S3Calls& calls_;
  const S3PartRules rules_;
  std::atomic<bool> conditional_ = true;  // the server knows If-None-Match
};

struct S3ObjectInfo {
  int64_t bytes = 0;
  std::string sha256;  // of the metadata; "": it has none
};
// Errors: as S3Calls. until: S3Call.patient_until.
absl::StatusOr<S3ObjectInfo> AskForObject(S3Calls& calls, const std::string& key,
                                          absl::Time until = absl::InfinitePast());

// The whole object's size in "bytes 0-99/1234"; -1: there is none.
int64_t SizeInRange(const std::string& content_range);

}  // namespace kinora

#endif  // KINORA_SERVER_S3_S3_UPLOAD_H_
