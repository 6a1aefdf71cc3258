// Symbols that are extracted from a text before byte-pair encoding. Internal to engine/text.
#ifndef KINORA_ENGINE_TEXT_ADDED_TOKENS_H_
#define KINORA_ENGINE_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/functional/function_ref.h"

namespace kinora {

class AddedTokens {
 public:
  void Add(std::string text, int32_t id);  // text: not empty

  // Calls on_text for each run of `text` between symbols, which may be empty, and on_symbol for each symbol, in order:
  // the leftmost symbol first, and of those that begin there the longest. Stops when one of the calls returns false.
  // Returns whether none did.
  bool Split(std::string_view text, absl::FunctionRef<bool(std::string_view text)> on_text,
             absl::FunctionRef<bool(int32_t id)> on_symbol) const;

 private:
  struct Match {
    size_t length = 0;  // 0: none
    int32_t id = 0;
  };
  Match LongestPrefix(std::string_view text) const;

  std::unordered_map<std::string, int32_t> ids_;
  std::array<std::set<size_t, std::greater<>>, 256> lengths_;  // lengths of symbols, by their first byte
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TEXT_ADDED_TOKENS_H_
