#include "engine/text/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/text/tokenizer_model.h"
#include "nlohmann/json.hpp"

namespace kinora {
namespace {

using nlohmann::json;

// Limits of what is kept besides pieces and merges. Real files nest to 5 and have 7,000 added tokens of 7 values.
constexpr int kMaxDepth = 16;
constexpr int64_t kMaxValues = 1 << 20;
constexpr size_t kMaxReplacements = 4;   // each may make a text kMaxPatternBytes times as long
constexpr size_t kMaxPatternBytes = 8;   // U+2581 has 3
constexpr int64_t kMaxMerges = 1 << 21;  // Gemma-4's file has fewer than 600,000

absl::Status Damaged(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: ", what));
}

std::string Shown(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace).substr(0, 80);
}

absl::Status Unsupported(const std::string& field, const json& value) {
  return Damaged(absl::StrCat(field, ": ", Shown(value), " is not supported"));
}

// The value of `object`'s field; null if `object` is none or has no such field.
const json& Field(const json& object, const char* name) {
  static const json& null = *new json();
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

bool IsEmptyText(const json& value) { return value.is_string() && value.get_ref<const std::string&>().empty(); }

// The document as it is read: pieces and merges go to lists, so that no tree of them exists.
// NOLINTNEXTLINE(bugprone-exception-escape): only std::bad_alloc, which ends the process anyway
class Reader {
 public:
  absl::Status Read(std::string_view text) {
    const auto event = [this](int depth, json::parse_event_t what, json& value) { return On(depth, what, value); };
    rest = json::parse(text, event, /*allow_exceptions=*/false);
    if (!problem_.empty()) return Damaged(problem_);
    if (!rest.is_object()) return Damaged("not a JSON object");
    return absl::OkStatus();
  }

  json rest;  // without model.vocab, model.merges and fields that nothing reads
  std::vector<std::pair<std::string, int64_t>> pieces;
  std::vector<std::pair<std::string, std::string>> merges;

 private:
  bool Fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    return false;
  }

  bool On(int depth, json::parse_event_t event, json& value) {
    if (!problem_.empty()) return false;
    if (depth > kMaxDepth) return Fail("nested too deep");
    if (event == json::parse_event_t::key) return OnKey(depth, value.get<std::string>());
    const bool in_model = depth >= 3 && keys_.size() >= 2 && keys_[0] == "model";
    if (in_model && keys_[1] == "vocab") return OnPiece(depth, event, value);
    if (in_model && keys_[1] == "merges") return OnMerge(depth, event, value);
    const bool whole = event == json::parse_event_t::value || event == json::parse_event_t::object_end ||
                       event == json::parse_event_t::array_end;
    if (whole && ++values_ > kMaxValues) return Fail(absl::StrCat("more than ", kMaxValues, " values"));
    return true;
  }

  bool OnKey(int depth, std::string key) {
    keys_.resize(depth - 1);
    keys_.push_back(std::move(key));
    if (depth == 3 && keys_[0] == "model" && keys_[1] == "vocab") return false;  // its value is still reported
    if (depth > 1) return true;
    for (const char* known : {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"}) {
      if (keys_[0] == known) return true;
    }
    return false;
  }

  bool OnPiece(int depth, json::parse_event_t event, const json& value) {
    if (depth != 3 || event != json::parse_event_t::value || !value.is_number_unsigned() ||
        value.get<uint64_t>() >= static_cast<uint64_t>(kMaxTokenizerPieces)) {
      return Fail(absl::StrCat("model.vocab: ids must be numbers below ", kMaxTokenizerPieces));
    }
    pieces.emplace_back(keys_[2], value.get<int64_t>());
    if (static_cast<int64_t>(pieces.size()) > kMaxTokenizerPieces) return Fail("model.vocab: too many pieces");
    return false;
  }

  // A merge is ["left", "right"] or "left right".
  bool OnMerge(int depth, json::parse_event_t event, const json& value) {
    if (depth == 4) return event == json::parse_event_t::value || Fail("model.merges: a list where none belongs");
    if (event == json::parse_event_t::array_start || event == json::parse_event_t::object_start) return true;
    if (static_cast<int64_t>(merges.size()) >= kMaxMerges) return Fail("model.merges: too many");
    if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
      merges.emplace_back(value[0].get<std::string>(), value[1].get<std::string>());
      return false;
    }
    const std::string both = value.is_string() ? value.get<std::string>() : "";
    const size_t space = both.find(' ');
    if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos) {
      return Fail(absl::StrCat("model.merges: entry ", merges.size(), " is not a pair of pieces"));
    }
    merges.emplace_back(both.substr(0, space), both.substr(space + 1));
    return false;
  }

  std::vector<std::string> keys_;  // of the objects around the current value, from the root
  int64_t values_ = 0;
  std::string problem_;
};

using Ids = std::unordered_map<std::string_view, int32_t>;

absl::Status CheckModel(const json& model) {
  if (Field(model, "type") != "BPE") return Unsupported("model.type", Field(model, "type"));
  if (Field(model, "byte_fallback") != true) return Unsupported("model.byte_fallback", Field(model, "byte_fallback"));
  for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"}) {
    const json& value = Field(model, name);
    if (!value.is_null() && !IsEmptyText(value) && value != false && value != 0.0) {
      return Unsupported(absl::StrCat("model.", name), value);
    }
  }
  return absl::OkStatus();
}

absl::Status TakePieces(const std::vector<std::pair<std::string, int64_t>>& listed, TokenizerJson& out) {
  for (const auto& [text, id] : listed) {
    if (text.empty() || static_cast<int64_t>(text.size()) > kMaxPieceBytes) {
      return Damaged(absl::StrCat("model.vocab: the piece of id ", id, " has ", text.size(), " bytes"));
    }
    if (static_cast<size_t>(id) >= out.pieces.size()) out.pieces.resize(id + 1);
    if (!out.pieces[id].empty()) return Damaged(absl::StrCat("model.vocab: two pieces have the id ", id));
    out.pieces[id] = text;
  }
  return absl::OkStatus();
}

absl::Status TakeBytes(const Ids& ids, TokenizerJson& out) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string piece = {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
    const auto found = ids.find(piece);
    if (found == ids.end()) return Damaged(absl::StrCat("model.vocab: ", piece, " is missing"));
    out.byte_ids[byte] = found->second;
  }
  return absl::OkStatus();
}

absl::Status TakeMerges(const std::vector<std::pair<std::string, std::string>>& listed, const Ids& ids,
                        TokenizerJson& out) {
  for (const auto& [left, right] : listed) {
    const auto a = ids.find(left), b = ids.find(right), both = ids.find(left + right);
    if (a == ids.end() || b == ids.end() || both == ids.end()) {
      return Damaged(absl::StrCat("model.merges: entry ", out.merges.size(), " is not of pieces"));
    }
    out.merges.push_back({a->second, b->second, both->second});
  }
  return absl::OkStatus();
}

absl::Status TakeAdded(const json& listed, const Ids& ids, TokenizerJson& out) {
  if (!listed.is_null() && !listed.is_array()) return Damaged("added_tokens: must be a list");
  for (const json& entry : listed) {
    const json &content = Field(entry, "content"), &id = Field(entry, "id");
    if (!content.is_string() || !id.is_number_unsigned() ||
        id.get<uint64_t>() >= static_cast<uint64_t>(kMaxTokenizerPieces)) {
      return Damaged(absl::StrCat("added_tokens: ", Shown(entry), " has no content or no id"));
    }
    for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
      const json& value = Field(entry, flag);
      if (!value.is_null() && value != false) return Unsupported(absl::StrCat("added_tokens.", flag), entry);
    }
    TokenizerJson::Added added{
        .text = content.get<std::string>(), .id = id.get<int32_t>(), .normalized = Field(entry, "normalized") == true};
    if (added.text.empty() || static_cast<int64_t>(added.text.size()) > kMaxPieceBytes) {
      return Damaged("added_tokens: a token is empty or longer than 1024 bytes");
    }
    const auto known = ids.find(added.text);
    if (known != ids.end() && known->second != added.id) {
      return Damaged(absl::StrCat("added_tokens: ", Shown(content), " has another id in model.vocab"));
    }
    if (added.text == "<bos>") out.bos = added.id;
    if (added.normalized) added.text = out.Normalize(added.text);
    if (!added.text.empty()) out.added.push_back(std::move(added));
  }
  if (const auto bos = ids.find("<bos>"); bos != ids.end()) out.bos = bos->second;
  return out.bos < 0 ? Damaged("neither model.vocab nor added_tokens has <bos>") : absl::OkStatus();
}

absl::Status TakeNormalizer(const json& normalizer, TokenizerJson& out) {
  if (normalizer.is_null()) return absl::OkStatus();
  const json& type = Field(normalizer, "type");
  if (type == "Sequence" && Field(normalizer, "normalizers").is_array()) {
    for (const json& part : Field(normalizer, "normalizers")) {
      if (Field(part, "type") == "Sequence") return Unsupported("normalizer", part);
      KINORA_RETURN_IF_ERROR(TakeNormalizer(part, out));
    }
    return absl::OkStatus();
  }
  const json &from = Field(Field(normalizer, "pattern"), "String"), &to = Field(normalizer, "content");
  if (type != "Replace" || !from.is_string() || IsEmptyText(from) || !to.is_string()) {
    return Unsupported("normalizer", normalizer);
  }
  if (from.get_ref<const std::string&>().size() > kMaxPatternBytes ||
      to.get_ref<const std::string&>().size() > kMaxPatternBytes || out.replacements.size() >= kMaxReplacements) {
    return Unsupported("normalizer", normalizer);
  }
  out.replacements.emplace_back(from.get<std::string>(), to.get<std::string>());
  return absl::OkStatus();
}

absl::Status TakePreTokenizer(const json& splitter, TokenizerJson& out) {
  if (splitter.is_null()) return absl::OkStatus();
  const json& pattern = Field(Field(splitter, "pattern"), "String");
  if (Field(splitter, "type") != "Split" || Field(splitter, "behavior") != "MergedWithPrevious" ||
      Field(splitter, "invert") == true || !pattern.is_string() || IsEmptyText(pattern)) {
    return Unsupported("pre_tokenizer", splitter);
  }
  out.split_after = pattern.get<std::string>();
  return absl::OkStatus();
}

absl::Status TakePostProcessor(const json& processor, TokenizerJson& out) {
  if (processor.is_null()) return absl::OkStatus();
  const json& single = Field(processor, "single");
  if (Field(processor, "type") != "TemplateProcessing" || !single.is_array() || single.empty() || single.size() > 16 ||
      Field(Field(single.back(), "Sequence"), "id") != "A") {
    return Unsupported("post_processor", processor);
  }
  for (size_t i = 0; i + 1 < single.size(); ++i) {
    const json& name = Field(Field(single[i], "SpecialToken"), "id");
    const json& ids = name.is_string()
                          ? Field(Field(Field(processor, "special_tokens"), name.get<std::string>().c_str()), "ids")
                          : name;
    if (!ids.is_array() || ids.size() > 16) return Unsupported("post_processor", single[i]);
    for (const json& id : ids) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(kMaxTokenizerPieces)) {
        return Unsupported("post_processor", single[i]);
      }
      out.prefix.push_back(id.get<int32_t>());
    }
  }
  return absl::OkStatus();
}

// Encoding does not use the decoder, but one of another kind shows that the pieces are not UTF-8 text.
absl::Status CheckDecoder(const json& decoder) {
  if (decoder.is_null()) return absl::OkStatus();
  const json& parts = Field(decoder, "decoders");
  const bool sequence = Field(decoder, "type") == "Sequence" && parts.is_array();
  for (const json& part : sequence ? parts : json::array({decoder})) {
    const json& type = Field(part, "type");
    if (type != "Replace" && type != "ByteFallback" && type != "Fuse" && type != "Strip") {
      return Unsupported("decoder", part);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string TokenizerJson::Normalize(std::string_view text) const {
  std::string normalized(text);
  for (const auto& [from, to] : replacements) {
    std::string next;
    size_t begin = 0;
    for (size_t at; (at = normalized.find(from, begin)) != std::string::npos; begin = at + from.size()) {
      next.append(normalized, begin, at - begin).append(to);
    }
    normalized = next.append(normalized, begin);
  }
  return normalized;
}

absl::StatusOr<TokenizerJson> ParseTokenizerJson(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > kMaxTokenizerBytes) {
    return Damaged(absl::StrCat(text.size(), " bytes are more than ", kMaxTokenizerBytes));
  }
  Reader reader;
  KINORA_RETURN_IF_ERROR(reader.Read(text));
  KINORA_RETURN_IF_ERROR(CheckModel(Field(reader.rest, "model")));
  TokenizerJson out;
  KINORA_RETURN_IF_ERROR(TakePieces(reader.pieces, out));
  Ids ids;
  ids.reserve(out.pieces.size());
  for (size_t id = 0; id < out.pieces.size(); ++id) {
    if (out.pieces[id].empty()) continue;
    if (!ids.emplace(out.pieces[id], static_cast<int32_t>(id)).second) {
      return Damaged(absl::StrCat("model.vocab: the piece of id ", id, " is listed twice"));
    }
  }
  KINORA_RETURN_IF_ERROR(TakeBytes(ids, out));
  KINORA_RETURN_IF_ERROR(TakeMerges(reader.merges, ids, out));
  KINORA_RETURN_IF_ERROR(TakeNormalizer(Field(reader.rest, "normalizer"), out));
  KINORA_RETURN_IF_ERROR(TakeAdded(Field(reader.rest, "added_tokens"), ids, out));
  KINORA_RETURN_IF_ERROR(TakePreTokenizer(Field(reader.rest, "pre_tokenizer"), out));
  KINORA_RETURN_IF_ERROR(TakePostProcessor(Field(reader.rest, "post_processor"), out));
  KINORA_RETURN_IF_ERROR(CheckDecoder(Field(reader.rest, "decoder")));
  return out;
}

}  // namespace kinora
