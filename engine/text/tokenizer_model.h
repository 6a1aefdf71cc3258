// The parts of a SentencePiece `tokenizer.model` (a protobuf, sentencepiece_model.proto) that determine how Gemma's
// text is tokenized.
#ifndef KINORA_ENGINE_TEXT_TOKENIZER_MODEL_H_
#define KINORA_ENGINE_TEXT_TOKENIZER_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

struct TokenizerPiece {
  enum class Kind : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  std::string text;  // UTF-8, not empty; a space is U+2581
  Kind kind = Kind::kNormal;
};

struct TokenizerModel {
  std::vector<TokenizerPiece> pieces;   // by id
  std::array<int32_t, 256> byte_ids{};  // ids of <0x00> to <0xFF>
  int32_t bos = -1;                     // ids; -1: none
  int32_t pad = -1;
  int32_t unknown = -1;
};

inline constexpr int64_t kMaxTokenizerBytes = 64 << 20;  // Gemma-3's file has 4.7 MB
inline constexpr int64_t kMaxTokenizerPieces = 1 << 20;  // Gemma-3's has 262,144
inline constexpr int64_t kMaxPieceBytes = 1024;

// Parses a model with the properties that Gemma's converter to a fast tokenizer assumes: BPE with all 256 byte pieces,
// identity normalisation without a dummy prefix, spaces kept and written as U+2581, and a <bos>, a <pad> and an unknown
// piece. Fails with InvalidArgument, naming the field or piece, on any other model and on a damaged file.
absl::StatusOr<TokenizerModel> ParseTokenizerModel(std::string_view serialized);

}  // namespace kinora

#endif  // KINORA_ENGINE_TEXT_TOKENIZER_MODEL_H_
