// The XML bodies of S3 and of AWS's Security Token Service (STS). They are foreign bytes: anything unexpected is an
// Unavailable error or an empty field. No I/O.
#ifndef KINORA_SERVER_S3_S3_ANSWERS_H_
#define KINORA_SERVER_S3_S3_ANSWERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/s3/sigv4.h"

namespace kinora {

struct S3Error {
  std::string code, message;  // "NoSuchKey"; empty: the body is no error
};
S3Error ParseS3Error(const std::string& body);

bool HasRoot(const std::string& body, const std::string& name);  // well-formed, with this root element

struct S3Listing {  // of ListObjectsV2
  struct Object {
    std::string key;
    int64_t bytes = 0;
    absl::Time modified;
  };
  std::vector<Object> objects;
  std::vector<std::string> prefixes;  // common prefixes, with the delimiter at their ends
  std::string next;                   // continuation-token of the next page; empty: the last one
};
absl::StatusOr<S3Listing> ParseListing(const std::string& body);

absl::StatusOr<std::string> ParseUploadId(const std::string& body);  // of CreateMultipartUpload
// The body of CompleteMultipartUpload. etags: of parts 1, 2, …
std::string CompletionBody(const std::vector<std::string>& etags);

absl::StatusOr<AwsKeys> ParseAssumedRole(const std::string& body);  // of AssumeRoleWithWebIdentity

}  // namespace kinora

#endif  // KINORA_SERVER_S3_S3_ANSWERS_H_
