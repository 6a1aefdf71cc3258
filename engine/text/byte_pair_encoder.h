// Byte-pair encoding like that of transformers' fast tokenizers (tokenizers models/bpe/word.rs), for two kinds of
// files.
//   tokenizer.model (transformers generate_merges): two neighbours may merge if both and their concatenation are
//   pieces. The pair whose result has the lowest id merges first; ties go to the shorter left part, then to the
//   leftmost pair. tokenizer.json: the pairs that may merge are listed; the first of the list merges first, ties go to
//   the leftmost.
#ifndef KINORA_ENGINE_TEXT_BYTE_PAIR_ENCODER_H_
#define KINORA_ENGINE_TEXT_BYTE_PAIR_ENCODER_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/tokenizer_json.h"
#include "engine/text/tokenizer_model.h"

namespace kinora {

class BytePairEncoder {
 public:
  // model.pieces must outlive the encoder and must not move.
  explicit BytePairEncoder(const TokenizerModel& model);
  // As above, of model.pieces.
  explicit BytePairEncoder(const TokenizerJson& model);

  // Appends the ids of `text`, which must be valid UTF-8 and normalised: U+2581 in place of spaces. A character that is
  // not a piece becomes its bytes. Takes O(n log n) time. Thread-safe.
  void Encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Symbol {  // a slice of the text
    const char* begin;
    int32_t size;            // bytes; 0: merged into the symbol before
    int32_t id;              // -1: not a piece
    int32_t previous, next;  // index, or -1
  };
  struct Merge {
    uint64_t rank = 0;  // the lowest merges first
    int32_t id = -1;    // of the result; -1: the two may not merge
  };
  struct Candidate {  // a possible merge of the symbol at `position` with the next one
    Merge merge;
    int32_t position;
    bool operator>(const Candidate& other) const;
  };
  int32_t Find(std::string_view piece) const;
  std::vector<Symbol> Split(std::string_view text) const;
  // Returns the merge of the symbol at `position` with the symbol behind it.
  Merge MergeAt(const std::vector<Symbol>& symbols, int32_t position) const;

  std::unordered_map<std::string_view, int32_t> ids_;
  const bool listed_;                           // merges are those of merges_
  std::unordered_map<uint64_t, Merge> merges_;  // key: the left id, then the right one
  const std::array<int32_t, 256> byte_ids_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TEXT_BYTE_PAIR_ENCODER_H_
