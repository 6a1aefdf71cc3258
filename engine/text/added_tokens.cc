#include "engine/text/added_tokens.h"

#include <utility>

namespace kinora {

void AddedTokens::Add(std::string text, int32_t id) {
  lengths_[static_cast<uint8_t>(text.front())].insert(text.size());
  ids_.emplace(std::move(text), id);
}

AddedTokens::Match AddedTokens::LongestPrefix(std::string_view text) const {
  for (size_t length : lengths_[static_cast<uint8_t>(text.front())]) {
    if (length > text.size()) continue;
    if (const auto found = ids_.find(std::string(text.substr(0, length))); found != ids_.end())
      return {length, found->second};
  }
  return {};
}

bool AddedTokens::Split(std::string_view text, absl::FunctionRef<bool(std::string_view)> on_text,
                        absl::FunctionRef<bool(int32_t)> on_symbol) const {
  size_t begin = 0;  // start of the run
  for (size_t i = 0; i < text.size();) {
    const Match match = LongestPrefix(text.substr(i));
    if (match.length == 0) {
      ++i;
      continue;
    }
    if (!on_text(text.substr(begin, i - begin)) || !on_symbol(match.id)) return false;
    begin = i += match.length;
  }
  return on_text(text.substr(begin));
}

}  // namespace kinora
