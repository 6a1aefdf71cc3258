// Gemma-3's tokenizer, from its tokenizer.model (SentencePiece BPE).
#ifndef KINORA_ENGINE_TEXT_SENTENCEPIECE_TOKENIZER_H_
#define KINORA_ENGINE_TEXT_SENTENCEPIECE_TOKENIZER_H_

#include <map>
#include <string>
#include <vector>

#include "engine/text/added_tokens.h"
#include "engine/text/byte_pair_encoder.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_model.h"

namespace kinora {

class SentencePieceTokenizer : public Tokenizer {
 public:
  // added: symbols that the model does not list, with their ids.
  SentencePieceTokenizer(TokenizerModel model, const std::map<std::string, int32_t>& added);

  // Control, unknown and user-defined symbols that are spelled out in the text become their own id, the longest match
  // first, even within words.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, int64_t max_tokens) const override;
  int64_t vocabulary() const override { return vocabulary_; }

 private:
  const TokenizerModel model_;
  const BytePairEncoder encoder_;
  AddedTokens added_;
  int64_t vocabulary_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TEXT_SENTENCEPIECE_TOKENIZER_H_
