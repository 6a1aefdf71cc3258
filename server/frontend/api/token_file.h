// Bearer tokens of a file, one per line; empty lines and lines that begin with # are skipped.
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
  TokenSet() = default;  // no file: everybody may call
  // FailedPrecondition: others than owner and group can read the file, or it is no regular file. InvalidArgument: no
  // token in it, or one of fewer than 16 characters. As ReadRegularFile otherwise.
  static absl::StatusOr<TokenSet> Load(const std::string& path);

  // `authorization` is the metadata's value, "Bearer TOKEN". Unauthenticated otherwise; the time it takes says nothing
  // about the tokens, since only digests are compared.
  absl::Status Check(std::string_view authorization) const;

  // What tells the holder of a token that Check let in from the others; "" where everybody may call.
  std::string Holder(std::string_view authorization) const;

 private:
  std::unordered_set<std::string> digests_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_API_TOKEN_FILE_H_
