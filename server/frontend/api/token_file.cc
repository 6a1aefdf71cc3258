#include "server/frontend/api/token_file.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "server/common/regular_file.h"
#include "server/common/sha256.h"
#include "server/common/token_text.h"

namespace kinora {

namespace {

// Returns the digest of TOKEN in "Bearer TOKEN", or "" for another form. The scheme's case is insignificant (RFC 9110
// section 11.1); spaces may separate the two (11.4).
std::string Digest(std::string_view authorization) {
  constexpr absl::string_view kScheme = "Bearer ";
  absl::string_view token(authorization.data(), authorization.size());
  if (!absl::StartsWithIgnoreCase(token, kScheme)) return "";
  token = absl::StripLeadingAsciiWhitespace(token.substr(kScheme.size()));
  return Sha256Hex(std::string_view(token.data(), token.size()));
}

}  // namespace

absl::StatusOr<TokenSet> TokenSet::Load(const std::string& path) {
  constexpr size_t kShortest = 16;
  KINORA_ASSIGN_OR_RETURN(const RegularFile file, ReadRegularFile(path));
  if ((file.mode & 0007) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": every user of this machine can read the tokens; run chmod o= on it"));
  }
  const auto parsed = ParseTokens(file.bytes);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(parsed.status().message())));
  }
  TokenSet tokens;
  for (const std::string& token : *parsed) {
    if (token.size() < kShortest) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a token has fewer than ", kShortest, " characters"));
    }
    tokens.digests_.insert(Sha256Hex(token));
  }
  if (tokens.digests_.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": contains no token"));
  return tokens;
}

absl::Status TokenSet::Check(std::string_view authorization) const {
  if (digests_.empty()) return absl::OkStatus();
  const std::string digest = Digest(authorization);
  if (digest.empty()) return absl::UnauthenticatedError("authorization: send \"Bearer TOKEN\" in the metadata");
  if (digests_.contains(digest)) return absl::OkStatus();
  return absl::UnauthenticatedError("authorization: the token is not valid");
}

std::string TokenSet::Holder(std::string_view authorization) const {
  return digests_.empty() ? "" : Digest(authorization);
}

}  // namespace kinora
