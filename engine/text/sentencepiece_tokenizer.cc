#include "engine/text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace kinora {

SentencePieceTokenizer::SentencePieceTokenizer(TokenizerModel model, const std::map<std::string, int32_t>& added)
    : model_(std::move(model)), encoder_(model_), vocabulary_(static_cast<int64_t>(model_.pieces.size())) {
  for (size_t id = 0; id < model_.pieces.size(); ++id) {
    using Kind = TokenizerPiece::Kind;
    const TokenizerPiece& piece = model_.pieces[id];
    if (piece.kind == Kind::kControl || piece.kind == Kind::kUserDefined || piece.kind == Kind::kUnknown) {
      added_.Add(piece.text, static_cast<int32_t>(id));
    }
  }
  for (const auto& [text, id] : added) {
    added_.Add(text, id);
    vocabulary_ = std::max<int64_t>(vocabulary_, id + 1);
  }
}

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::Encode(std::string_view text, int64_t max_tokens) const {
  KINORA_CHECK(max_tokens >= 1) << max_tokens;
  KINORA_RETURN_IF_ERROR(CheckUtf8(text));
  std::vector<int32_t> ids = {model_.bos};
  const auto more = [&] { return static_cast<int64_t>(ids.size()) < max_tokens; };
  const auto on_text = [&](std::string_view plain) {
    std::string escaped;
    for (char c : plain) c == ' ' ? escaped.append("\u2581") : escaped.append(1, c);
    encoder_.Encode(escaped, ids);
    return more();
  };
  const auto on_symbol = [&](int32_t id) {
    ids.push_back(id);
    return more();
  };
  if (more()) added_.Split(text, on_text, on_symbol);
  ids.resize(std::min<size_t>(ids.size(), max_tokens));
  return ids;
}

}  // namespace kinora
