#include "server/common/artifact_store.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kinora {

absl::Status CheckArtifactKey(std::string_view key) {
  constexpr size_t kMaxParts = 8, kMaxPart = 200;
  const std::vector<absl::string_view> parts = absl::StrSplit(absl::string_view(key.data(), key.size()), '/');
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("artifact key: ", std::string(why)));
  };
  if (parts.size() > kMaxParts) return refuse("more than 8 parts");
  for (absl::string_view part : parts) {
    if (part.empty() || part.size() > kMaxPart) return refuse("a part must have 1 to 200 characters");
    if (part[0] == '.') return refuse("a part must not begin with a dot");
    for (const char c : part) {
      if (!absl::ascii_isalnum(c) && c != '.' && c != '_' && c != '-')
        return refuse("only A-Z a-z 0-9 . _ - and / are allowed");
    }
  }
  return absl::OkStatus();
}

}  // namespace kinora
