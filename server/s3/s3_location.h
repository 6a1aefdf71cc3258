// Where a bucket is, from a URL and the options beside it.
#ifndef KINORA_SERVER_S3_S3_LOCATION_H_
#define KINORA_SERVER_S3_S3_LOCATION_H_

#include <string>

#include "absl/status/statusor.h"

namespace kinora {

struct S3Options {
  std::string url;          // "s3://BUCKET" or "s3://BUCKET/PREFIX"
  std::string endpoint;     // "https://HOST" or "http://HOST:PORT"; empty: AWS's of the region
  std::string region;       // empty: "us-east-1", which servers other than AWS's expect
  bool path_style = false;  // https://HOST/BUCKET instead of https://BUCKET.HOST
};

struct S3Location {
  std::string bucket, prefix;  // prefix: empty, or without a slash at its ends
  std::string region;
  std::string scheme;  // "https" or "http"
  std::string host;    // of the field Host, with the bucket unless path_style
  bool path_style = false;

  // "/PREFIX/KEY", with the bucket first if path_style; `key` "": the path of the bucket.
  std::string Path(const std::string& key) const;
  std::string InBucket(const std::string& key) const;  // "PREFIX/KEY"
};

// InvalidArgument names the option and what it must be.
absl::StatusOr<S3Location> LocateBucket(const S3Options& options);

}  // namespace kinora

#endif  // KINORA_SERVER_S3_S3_LOCATION_H_
