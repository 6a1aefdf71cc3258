// Byte-pair encoding like that of transformers' fast tokenizers for a SentencePiece vocabulary (transformers
// generate_merges, tokenizers models/bpe/word.rs). Two neighbours may merge if both and their concatenation are pieces.
// The pair whose result has the lowest id merges first; ties go to the shorter left part, then to the leftmost pair.
#ifndef KINORA_ENGINE_TEXT_BYTE_PAIR_ENCODER_H_
#define KINORA_ENGINE_TEXT_BYTE_PAIR_ENCODER_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/tokenizer_model.h"

namespace kinora {

class BytePairEncoder {
 public:
  // model.pieces must outlive the encoder and must not move.
  explicit BytePairEncoder(const TokenizerModel& model);

  // Appends the ids of `text`, which must be valid UTF-8 with U+2581 in place of spaces. A character that is not a
  // piece becomes its bytes. Takes O(n log n) time. Thread-safe.
  void Encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Symbol {  // a slice of the text
    const char* begin;
    int32_t size;            // bytes; 0: merged into the symbol before
    int32_t id;              // -1: not a piece
    int32_t previous, next;  // index, or -1
  };
  struct Candidate {  // a possible merge of the symbol at `position` with the next one
    int32_t id;       // of the result
    int32_t left_size;
    int32_t position;
    bool operator>(const Candidate& other) const;
  };
  int32_t Find(std::string_view piece) const;
  std::vector<Symbol> Split(std::string_view text) const;
  // Returns the id of the symbol at `position` merged with the next one, or -1 if they may not merge.
  int32_t Merged(const std::vector<Symbol>& symbols, int32_t position) const;

  std::unordered_map<std::string_view, int32_t> ids_;
  const std::array<int32_t, 256> byte_ids_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TEXT_BYTE_PAIR_ENCODER_H_
