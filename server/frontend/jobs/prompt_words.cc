#include "server/frontend/jobs/prompt_words.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/common/status_details.h"

namespace kinora {

absl::StatusOr<std::vector<std::string>> SearchWords(std::string_view text) {
  if (text.size() > kMaxSearchBytes) {
    return InvalidField("text", absl::StrCat(text.size(), " bytes; at most ", kMaxSearchBytes));
  }
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  std::vector<std::string> words = absl::StrSplit(lower, absl::ByAnyChar(" \t\n\v\f\r"), absl::SkipEmpty());
  if (words.size() <= kMaxSearchWords) return words;
  return InvalidField("text", absl::StrCat(words.size(), " words; at most ", kMaxSearchWords));
}

bool HasWords(std::string_view prompt, const std::vector<std::string>& words) {
  if (words.empty()) return true;
  const std::string lower = absl::AsciiStrToLower(std::string(prompt));
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return absl::StrContains(lower, word); });
}

}  // namespace kinora
