// The parts of a Hugging Face `tokenizer.json` (tokenizers' own format) that determine how a text is tokenized:
// byte-pair encoding by ranked merges with byte fallback, as Gemma-4's file has.
#ifndef KINORA_ENGINE_TEXT_TOKENIZER_JSON_H_
#define KINORA_ENGINE_TEXT_TOKENIZER_JSON_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

struct TokenizerJson {
  struct Merge {  // ids of two neighbours and of their concatenation
    int32_t left = 0, right = 0, result = 0;
  };
  struct Added {
    std::string text;  // not empty
    int32_t id = 0;
    bool normalized = false;  // matched in the normalised text
  };
  std::vector<std::string> pieces;                                // by id; "": no piece has the id
  std::vector<Merge> merges;                                      // by rank: the first applies first
  std::array<int32_t, 256> byte_ids{};                            // ids of <0x00> to <0xFF>
  std::vector<Added> added;                                       // symbols
  std::vector<std::pair<std::string, std::string>> replacements;  // the normaliser: each text by another, in order
  std::string split_after;                                        // the pre-tokenizer: "": none
  std::vector<int32_t> prefix;                                    // ids that the post-processor puts in front
  int32_t bos = -1;                                               // id of <bos>

  std::string Normalize(std::string_view text) const;
};

// Accepts a model of type BPE with all 256 byte pieces and a <bos>; as normalizer none, Replace of a string or a
// Sequence of these; as pre_tokenizer none or Split of a string, MergedWithPrevious; as post_processor none or a
// TemplateProcessing that only puts symbols in front; any decoder for such a model. Fails with InvalidArgument, naming
// the field, on anything else and on a damaged file. Ignores truncation and padding, which the caller determines.
absl::StatusOr<TokenizerJson> ParseTokenizerJson(std::string_view json);

}  // namespace kinora

#endif  // KINORA_ENGINE_TEXT_TOKENIZER_JSON_H_
