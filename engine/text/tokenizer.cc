#include "engine/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"
#include "engine/text/byte_pair_encoder.h"
#include "engine/text/tokenizer_model.h"
#include "nlohmann/json.hpp"

namespace kinora {
namespace {

// Non-ASCII characters that Python's str.strip removes: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029,
// U+202F, U+205F, U+3000.
constexpr std::string_view kWideSpaces[] = {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
                                            "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
                                            "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

bool IsAsciiSpace(char c) { return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f); }

// Symbols that are extracted from the text before byte-pair encoding.
class AddedTokens {
 public:
  void Add(std::string text, int32_t id) {
    lengths_[static_cast<uint8_t>(text.front())].insert(text.size());
    ids_.emplace(std::move(text), id);
  }

  struct Match {
    size_t length = 0;
    int32_t id = 0;
  };
  // Returns the longest symbol that `text` starts with.
  std::optional<Match> LongestPrefix(std::string_view text) const {
    for (size_t length : lengths_[static_cast<uint8_t>(text.front())]) {
      if (length > text.size()) continue;
      if (const auto found = ids_.find(std::string(text.substr(0, length))); found != ids_.end())
        return Match{length, found->second};
    }
    return std::nullopt;
  }

 private:
  std::unordered_map<std::string, int32_t> ids_;
  std::array<std::set<size_t, std::greater<>>, 256> lengths_;  // lengths of symbols, by their first byte
};

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

struct Tokenizer::Impl {
  explicit Impl(TokenizerModel parsed) : model(std::move(parsed)), encoder(model) {}

  // text: contains no added tokens.
  void EncodePlain(std::string_view text, std::vector<int32_t>& ids) const {
    std::string escaped;
    for (char c : text) c == ' ' ? escaped.append("\u2581") : escaped.append(1, c);
    encoder.Encode(escaped, ids);
  }

  const TokenizerModel model;
  const BytePairEncoder encoder;
  AddedTokens added;
  int64_t vocabulary = 0;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
int64_t Tokenizer::vocabulary() const { return impl_->vocabulary; }

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const std::string serialized, ReadFile(path));
  KINORA_ASSIGN_OR_RETURN(const auto added,
                          ReadAddedTokens((std::filesystem::path(path).parent_path() / "added_tokens.json").string()));
  auto tokenizer = FromModel(serialized, added);
  if (tokenizer.ok()) return tokenizer;
  return absl::Status(tokenizer.status().code(), absl::StrCat(path, ": ", tokenizer.status().message()));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromModel(std::string_view serialized,
                                                                const std::map<std::string, int32_t>& added_tokens) {
  KINORA_ASSIGN_OR_RETURN(TokenizerModel parsed, ParseTokenizerModel(serialized));
  auto impl = std::make_unique<Impl>(std::move(parsed));
  const std::vector<TokenizerPiece>& pieces = impl->model.pieces;
  impl->vocabulary = static_cast<int64_t>(pieces.size());
  for (size_t id = 0; id < pieces.size(); ++id) {
    using Kind = TokenizerPiece::Kind;
    const TokenizerPiece& piece = pieces[id];
    if (piece.kind == Kind::kControl || piece.kind == Kind::kUserDefined || piece.kind == Kind::kUnknown) {
      impl->added.Add(piece.text, static_cast<int32_t>(id));
    }
  }
  for (const auto& [text, id] : added_tokens) {
    impl->added.Add(text, id);
    impl->vocabulary = std::max<int64_t>(impl->vocabulary, id + 1);
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, int64_t max_tokens) const {
  KINORA_CHECK(max_tokens >= 1) << max_tokens;
  if (const int64_t offset = FindInvalidUtf8(text); offset >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the text is not valid UTF-8 at byte ", offset));
  }
  std::vector<int32_t> ids = {impl_->model.bos};
  size_t begin = 0;  // start of the text that is not yet encoded
  for (size_t i = 0; i < text.size() && static_cast<int64_t>(ids.size()) < max_tokens;) {
    const auto match = impl_->added.LongestPrefix(text.substr(i));
    if (!match) {
      ++i;
      continue;
    }
    impl_->EncodePlain(text.substr(begin, i - begin), ids);
    ids.push_back(match->id);
    begin = i += match->length;
  }
  if (static_cast<int64_t>(ids.size()) < max_tokens) impl_->EncodePlain(text.substr(begin), ids);
  ids.resize(std::min<size_t>(ids.size(), max_tokens));
  return ids;
}

}  // namespace kinora
