#include "engine/text/json_tokenizer.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace kinora {

JsonTokenizer::JsonTokenizer(TokenizerJson parsed)
    : parsed_(std::move(parsed)), encoder_(parsed_), vocabulary_(static_cast<int64_t>(parsed_.pieces.size())) {
  for (const TokenizerJson::Added& added : parsed_.added) {
    (added.normalized ? normalized_ : raw_).Add(added.text, added.id);
    vocabulary_ = std::max<int64_t>(vocabulary_, added.id + 1);
  }
  for (int32_t id : parsed_.prefix) vocabulary_ = std::max<int64_t>(vocabulary_, id + 1);
}

// Encodes each part that the pre-tokenizer makes: a match of its pattern ends a part, and of several matches in a row
// all but the first are parts of their own.
void JsonTokenizer::EncodePlain(std::string_view text, std::vector<int32_t>& ids) const {
  const std::string_view pattern = parsed_.split_after;
  while (!text.empty() && !pattern.empty()) {
    const size_t at = text.find(pattern);
    if (at == std::string_view::npos) break;
    encoder_.Encode(text.substr(0, at + pattern.size()), ids);
    text.remove_prefix(at + pattern.size());
  }
  encoder_.Encode(text, ids);
}

absl::StatusOr<std::vector<int32_t>> JsonTokenizer::Encode(std::string_view text, int64_t max_tokens) const {
  KINORA_CHECK(max_tokens >= 1) << max_tokens;
  KINORA_RETURN_IF_ERROR(CheckUtf8(text));
  std::vector<int32_t> ids = parsed_.prefix;
  const auto more = [&] { return static_cast<int64_t>(ids.size()) < max_tokens; };
  const auto on_symbol = [&](int32_t id) {
    ids.push_back(id);
    return more();
  };
  const auto on_normalized = [&](std::string_view part) {
    EncodePlain(part, ids);
    return more();
  };
  raw_.Split(
      text, [&](std::string_view part) { return normalized_.Split(parsed_.Normalize(part), on_normalized, on_symbol); },
      on_symbol);
  if (ids.empty() || ids.front() != parsed_.bos) ids.insert(ids.begin(), parsed_.bos);
  ids.resize(std::min<size_t>(ids.size(), max_tokens));
  return ids;
}

}  // namespace kinora
