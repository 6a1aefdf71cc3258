#include "engine/text/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"
#include "engine/text/json_tokenizer.h"
#include "engine/text/sentencepiece_tokenizer.h"
#include "engine/text/tokenizer_model.h"
#include "engine/weights/checkpoint.h"
#include "nlohmann/json.hpp"

namespace kinora {
namespace {

// Non-ASCII characters that Python's str.strip removes: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029,
// U+202F, U+205F, U+3000.
constexpr std::string_view kWideSpaces[] = {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
                                            "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
                                            "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

constexpr char kTokenizerTensor[] = "text_encoder.tokenizer_json";

bool IsAsciiSpace(char c) { return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f); }

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened; it is part of the Gemma checkpoint"));
  const int64_t size = file.tellg();
  if (size < 0 || size > kMaxTokenizerBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a file of at most ", kMaxTokenizerBytes, " bytes"));
  }
  std::string data(size, '\0');
  if (!file.seekg(0).read(data.data(), size)) return absl::DataLossError(absl::StrCat(path, ": cannot be read"));
  return data;
}

absl::StatusOr<std::map<std::string, int32_t>> ReadAddedTokens(const std::string& path) {
  std::map<std::string, int32_t> added;
  if (!std::filesystem::exists(path)) return added;
  KINORA_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return wrong("must be an object of token ids");
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(kMaxTokenizerPieces)) {
      return wrong(absl::StrCat("the id of \"", token, "\" must be a number below ", kMaxTokenizerPieces));
    }
    if (token.empty() || static_cast<int64_t>(token.size()) > kMaxPieceBytes)
      return wrong("a token is empty or longer than 1024 bytes");
    added[token] = id.get<int32_t>();
  }
  return added;
}

// Returns `tokenizer`, or its error with the path in front.
absl::StatusOr<std::unique_ptr<Tokenizer>> WithPath(absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer,
                                                    const std::string& path) {
  if (tokenizer.ok()) return tokenizer;
  return absl::Status(tokenizer.status().code(), absl::StrCat(path, ": ", tokenizer.status().message()));
}

}  // namespace

std::string_view StripWhiteSpace(std::string_view text) {
  while (!text.empty()) {
    const size_t before = text.size();
    if (IsAsciiSpace(text.front())) text.remove_prefix(1);
    if (!text.empty() && IsAsciiSpace(text.back())) text.remove_suffix(1);
    for (std::string_view space : kWideSpaces) {
      if (text.starts_with(space)) text.remove_prefix(space.size());
      if (text.ends_with(space)) text.remove_suffix(space.size());
    }
    if (text.size() == before) break;
  }
  return text;
}

absl::Status CheckUtf8(std::string_view text) {
  const int64_t offset = FindInvalidUtf8(text);
  if (offset < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text is not valid UTF-8 at byte ", offset));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const std::string serialized, ReadFile(path));
  const std::filesystem::path file(path);
  if (file.extension() == ".json") return WithPath(FromJson(serialized), path);
  KINORA_ASSIGN_OR_RETURN(const auto added, ReadAddedTokens((file.parent_path() / "added_tokens.json").string()));
  return WithPath(FromModel(serialized, added), path);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(std::string_view json) {
  KINORA_ASSIGN_OR_RETURN(TokenizerJson parsed, ParseTokenizerJson(json));
  return std::make_unique<JsonTokenizer>(std::move(parsed));
}

bool Tokenizer::IsIn(const Checkpoint& checkpoint) {
  return checkpoint.Find(kTokenizerTensor) != nullptr || !checkpoint.tokenizer_model().empty();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::LoadFrom(const Checkpoint& checkpoint) {
  const Checkpoint::Entry* entry = checkpoint.Find(kTokenizerTensor);
  if (entry == nullptr && checkpoint.tokenizer_model().empty()) {
    return absl::NotFoundError("the text encoder has neither a tensor tokenizer_json nor a tokenizer.model");
  }
  if (entry == nullptr) return Load(checkpoint.tokenizer_model());
  const std::string name = checkpoint.Describe(kTokenizerTensor);
  if (entry->tensor->dtype != DType::kU8 || entry->tensor->bytes > kMaxTokenizerBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": must be U8 or I8 and have at most ", kMaxTokenizerBytes, " bytes"));
  }
  std::string json(entry->tensor->bytes, '\0');
  KINORA_RETURN_IF_ERROR(entry->file->Read(*entry->tensor, 0, entry->tensor->bytes, json.data()));
  return WithPath(FromJson(json), name);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromModel(std::string_view serialized,
                                                                const std::map<std::string, int32_t>& added_tokens) {
  KINORA_ASSIGN_OR_RETURN(TokenizerModel model, ParseTokenizerModel(serialized));
  return std::make_unique<SentencePieceTokenizer>(std::move(model), added_tokens);
}

}  // namespace kinora
