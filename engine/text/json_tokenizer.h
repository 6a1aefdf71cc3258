// Gemma-4's tokenizer, from its tokenizer.json.
#ifndef KINORA_ENGINE_TEXT_JSON_TOKENIZER_H_
#define KINORA_ENGINE_TEXT_JSON_TOKENIZER_H_

#include <vector>

#include "engine/text/added_tokens.h"
#include "engine/text/byte_pair_encoder.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_json.h"

namespace kinora {

class JsonTokenizer : public Tokenizer {
 public:
  explicit JsonTokenizer(TokenizerJson parsed);

  // Added tokens that are spelled out in the text become their own id: first those matched in the text as given, then
  // in what is between them those matched in the normalised text. Like Lightricks' tokenizer, puts <bos> in front
  // unless the first id is <bos> already, and then cuts the ids again.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, int64_t max_tokens) const override;
  int64_t vocabulary() const override { return vocabulary_; }

 private:
  void EncodePlain(std::string_view normalized, std::vector<int32_t>& ids) const;

  const TokenizerJson parsed_;
  const BytePairEncoder encoder_;
  AddedTokens raw_, normalized_;
  int64_t vocabulary_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TEXT_JSON_TOKENIZER_H_
