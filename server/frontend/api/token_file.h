// Bearer tokens from a file, one per line. Empty lines and lines that begin with # are skipped.
#ifndef KINORA_SERVER_FRONTEND_API_TOKEN_FILE_H_
#define KINORA_SERVER_FRONTEND_API_TOKEN_FILE_H_

#include <string>
#include <string_view>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

class TokenSet {
 public:
  TokenSet() = default;  // no token file: anyone may call
  // FailedPrecondition: the file is readable by others than owner and group, or is not a regular file. InvalidArgument:
  // it has no token, or one of fewer than 16 characters. Otherwise fails as ReadRegularFile.
  static absl::StatusOr<TokenSet> Load(const std::string& path);

  // `authorization` is the value in the metadata, "Bearer TOKEN". Fails with Unauthenticated if it is not a known
  // token. Only digests are compared, so the time taken reveals nothing about the tokens.
  absl::Status Check(std::string_view authorization) const;

  // Identifies the holder of a token that Check accepted; "" if anyone may call.
  std::string Holder(std::string_view authorization) const;

 private:
  std::unordered_set<std::string> digests_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_TOKEN_FILE_H_
