#include "engine/text/tokenizer_model.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"

namespace kinora {
namespace {

constexpr int64_t kBpe = 2;  // TrainerSpec.ModelType

absl::Status Damaged(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer.model: ", what, "; copy the file again from the Gemma checkpoint"));
}

absl::Status NotGemma(const std::string& field, const char* wanted) {
  return absl::InvalidArgumentError(absl::StrCat("tokenizer.model: ", field, " must be ", wanted,
                                                 " as in Gemma's tokenizer; use the tokenizer.model of Gemma-3"));
}

struct Field {
  int number = 0;
  std::optional<uint64_t> integer;  // varint
  std::string_view bytes;           // length-delimited
};

// Reads one message of the protobuf wire format field by field.
class WireReader {
 public:
  explicit WireReader(std::string_view data) : data_(data) {}
  bool AtEnd() const { return position_ == data_.size(); }

  absl::StatusOr<Field> Next() {
    KINORA_ASSIGN_OR_RETURN(const uint64_t tag, Varint());
    Field field;
    field.number = static_cast<int>(tag >> 3);
    switch (tag & 7) {
      case 0: {
        KINORA_ASSIGN_OR_RETURN(field.integer, Varint());
        return field;
      }
      case 1:
        return Skip(8, field);
      case 2: {
        KINORA_ASSIGN_OR_RETURN(const uint64_t size, Varint());
        return Skip(size, field);
      }
      case 5:
        return Skip(4, field);
      default:
        return Damaged(absl::StrCat("unknown wire type at byte ", position_));
    }
  }

 private:
  absl::StatusOr<Field> Skip(uint64_t size, Field field) {
    if (size > data_.size() - position_) return Damaged(absl::StrCat("cut off at byte ", data_.size()));
    field.bytes = data_.substr(position_, size);
    position_ += size;
    return field;
  }

  absl::StatusOr<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (AtEnd()) return Damaged(absl::StrCat("cut off at byte ", data_.size()));
      const auto byte = static_cast<uint8_t>(data_[position_++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Damaged(absl::StrCat("a number does not end before byte ", position_));
  }

  std::string_view data_;
  size_t position_ = 0;
};

absl::StatusOr<TokenizerPiece> ParsePiece(std::string_view message, size_t id) {
  TokenizerPiece piece;
  for (WireReader reader(message); !reader.AtEnd();) {
    KINORA_ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == 1) piece.text = std::string(field.bytes);
    if (field.number == 3) {
      const uint64_t kind = field.integer.value_or(0);
      if (kind < 1 || kind > 6) return Damaged(absl::StrCat("piece ", id, " has the unknown type ", kind));
      piece.kind = static_cast<TokenizerPiece::Kind>(kind);
    }
  }
  const auto size = static_cast<int64_t>(piece.text.size());
  if (size == 0 || size > kMaxPieceBytes) return Damaged(absl::StrCat("piece ", id, " has ", size, " bytes"));
  if (FindInvalidUtf8(piece.text) >= 0 || piece.text.find('\0') != std::string::npos) {
    return Damaged(absl::StrCat("piece ", id, " is not UTF-8 text"));
  }
  return piece;
}

absl::Status CheckTrainer(std::string_view message, TokenizerModel& model) {
  int64_t kind = 1;  // defaults of the proto: unigram, no byte fallback
  bool byte_fallback = false, suffix = false;
  for (WireReader reader(message); !reader.AtEnd();) {
    KINORA_ASSIGN_OR_RETURN(const Field field, reader.Next());
    const auto value = static_cast<int64_t>(field.integer.value_or(0));
    if (field.number == 3) kind = value;
    if (field.number == 24) suffix = value != 0;
    if (field.number == 35) byte_fallback = value != 0;
    if (field.number == 40) model.unknown = static_cast<int32_t>(value);
    if (field.number == 41) model.bos = static_cast<int32_t>(value);
    if (field.number == 43) model.pad = static_cast<int32_t>(value);
  }
  if (kind != kBpe) return NotGemma("trainer_spec.model_type", "BPE");
  if (!byte_fallback) return NotGemma("trainer_spec.byte_fallback", "true");
  if (suffix) return NotGemma("trainer_spec.treat_whitespace_as_suffix", "false");
  return absl::OkStatus();
}

absl::Status CheckNormalizer(std::string_view message) {
  bool rules = false, dummy_prefix = true, drop_spaces = true, escape = true;  // defaults of the proto
  for (WireReader reader(message); !reader.AtEnd();) {
    KINORA_ASSIGN_OR_RETURN(const Field field, reader.Next());
    const bool value = field.integer.value_or(0) != 0;
    if (field.number == 2) rules = !field.bytes.empty();
    if (field.number == 3) dummy_prefix = value;
    if (field.number == 4) drop_spaces = value;
    if (field.number == 5) escape = value;
  }
  if (rules) return NotGemma("normalizer_spec.precompiled_charsmap", "empty");
  if (dummy_prefix) return NotGemma("normalizer_spec.add_dummy_prefix", "false");
  if (drop_spaces) return NotGemma("normalizer_spec.remove_extra_whitespaces", "false");
  if (!escape) return NotGemma("normalizer_spec.escape_whitespaces", "true");
  return absl::OkStatus();
}

// Also fills byte_ids.
absl::Status CheckPieces(TokenizerModel& model) {
  std::unordered_set<std::string_view> seen;
  model.byte_ids.fill(-1);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const TokenizerPiece& piece = model.pieces[id];
    if (!seen.insert(piece.text).second) return Damaged(absl::StrCat("piece ", id, " repeats an earlier one"));
    const bool unknown = piece.kind == TokenizerPiece::Kind::kUnknown;
    if (unknown != (static_cast<int64_t>(id) == model.unknown))
      return NotGemma(absl::StrCat("piece ", id), "of another type");
    if (piece.kind != TokenizerPiece::Kind::kByte) continue;
    unsigned value = 0;
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const bool shaped = piece.text.size() == 6 && piece.text.starts_with("<0x") && piece.text[5] == '>';
    for (int i = 3; shaped && i < 5; ++i) value = value * 16 + std::min<unsigned>(kDigits.find(piece.text[i]), 256);
    if (!shaped || value > 255) return Damaged(absl::StrCat("byte piece ", id, " is not <0x00> to <0xFF>"));
    model.byte_ids[value] = static_cast<int32_t>(id);
  }
  if (std::count(model.byte_ids.begin(), model.byte_ids.end(), -1) > 0)
    return NotGemma("pieces", "complete: all of <0x00> to <0xFF>");
  const auto control = [&](int32_t id) {
    return id >= 0 && id < static_cast<int64_t>(model.pieces.size()) &&
           model.pieces[id].kind == TokenizerPiece::Kind::kControl;
  };
  if (!control(model.bos)) return NotGemma("trainer_spec.bos_id", "a control piece");
  if (!control(model.pad)) return NotGemma("trainer_spec.pad_id", "a control piece");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerModel> ParseTokenizerModel(std::string_view serialized) {
  if (static_cast<int64_t>(serialized.size()) > kMaxTokenizerBytes) {
    return Damaged(absl::StrCat(serialized.size(), " bytes are more than ", kMaxTokenizerBytes));
  }
  // Defaults of the proto; every Gemma file states them.
  TokenizerModel model = {.bos = 1, .pad = -1, .unknown = 0};
  std::optional<std::string_view> trainer, normalizer;
  for (WireReader reader(serialized); !reader.AtEnd();) {
    KINORA_ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == 1) {
      KINORA_ASSIGN_OR_RETURN(TokenizerPiece piece, ParsePiece(field.bytes, model.pieces.size()));
      model.pieces.push_back(std::move(piece));
      if (static_cast<int64_t>(model.pieces.size()) > kMaxTokenizerPieces) return Damaged("more than 2^20 pieces");
    }
    // Protobuf would merge a message that is given twice. No writer does that, and checking only the last would be
    // unsafe.
    if ((field.number == 2 && trainer) || (field.number == 3 && normalizer))
      return Damaged("a specification is given twice");
    if (field.number == 2) trainer = field.bytes;
    if (field.number == 3) normalizer = field.bytes;
  }
  if (!trainer || !normalizer) return Damaged("trainer_spec or normalizer_spec is missing");
  KINORA_RETURN_IF_ERROR(CheckTrainer(*trainer, model));
  KINORA_RETURN_IF_ERROR(CheckNormalizer(*normalizer));
  KINORA_RETURN_IF_ERROR(CheckPieces(model));
  return model;
}

}  // namespace kinora
