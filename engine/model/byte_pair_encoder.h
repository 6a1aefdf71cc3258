// Byte-pair encoding as the fast tokenizers of transformers do it for a SentencePiece vocabulary (transformers
// generate_merges, tokenizers models/bpe/word.rs). Two neighbours may merge if both and their concatenation are pieces;
// of all that may, the pair whose result has the lowest id goes first, then the shorter left part, then the leftmost.
#ifndef KINORA_ENGINE_MODEL_BYTE_PAIR_ENCODER_H_
#define KINORA_ENGINE_MODEL_BYTE_PAIR_ENCODER_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/model/tokenizer_model.h"

namespace kinora {

class BytePairEncoder {
 public:
  // model.pieces must outlive the encoder, unmoved.
  explicit BytePairEncoder(const TokenizerModel& model);

  // Appends the ids of `text`, well-formed UTF-8 in which spaces are U+2581 already. A character that is no piece
  // becomes its bytes. n log n in the length. Thread-safe.
  void Encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Symbol {  // a slice of the text
    const char* begin;
    int32_t size;            // bytes; 0: merged into the one before
    int32_t id;              // -1: no piece
    int32_t previous, next;  // index, or -1
  };
  struct Candidate {  // the symbol at `position` and the one after it
    int32_t id;       // of the result
    int32_t left_size;
    int32_t position;
    bool operator>(const Candidate& other) const;
  };
  int32_t Find(std::string_view piece) const;
  std::vector<Symbol> Split(std::string_view text) const;
  // Id of the symbol at `position` merged with the next one; -1 if they may not merge.
  int32_t Merged(const std::vector<Symbol>& symbols, int32_t position) const;

  std::unordered_map<std::string_view, int32_t> ids_;
  const std::array<int32_t, 256> byte_ids_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_BYTE_PAIR_ENCODER_H_
