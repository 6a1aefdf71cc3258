// Turns prompts into token ids, like the fast tokenizers of transformers, from the file that comes with the language
// model.
#ifndef KINORA_ENGINE_TEXT_TOKENIZER_H_
#define KINORA_ENGINE_TEXT_TOKENIZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

// Returns `text` without white space at its ends, like Python's str.strip, which every pipeline calls before it
// tokenizes.
std::string_view StripWhiteSpace(std::string_view text);

// Fails with InvalidArgument, with the byte offset, if the text is not UTF-8.
absl::Status CheckUtf8(std::string_view text);

class Checkpoint;

// Thread-safe.
class Tokenizer {
 public:
  // path: of a tokenizer.json (by its extension) or a tokenizer.model; tokenizer_json.h and tokenizer_model.h describe
  // the accepted ones. An added_tokens.json in the same folder ({"<image_soft_token>": 262144}) adds symbols that a
  // tokenizer.model does not list. Fails with NotFound, or with
  // InvalidArgument naming the file and the problem.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);
  // Like Load, from memory.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromModel(std::string_view serialized,
                                                              const std::map<std::string, int32_t>& added_tokens = {});
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(std::string_view json);
  // Loads the tokenizer of a checkpoint's text encoder: the tensor `tokenizer_json`, which is the bytes of a
  // tokenizer.json, or else the file tokenizer_model(). Fails with NotFound if the checkpoint has neither.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> LoadFrom(const Checkpoint& checkpoint);
  static bool IsIn(const Checkpoint& checkpoint);
  virtual ~Tokenizer() = default;

  // Returns <bos> and the ids of `text`, at most max_tokens ids in total (ConnectorConfig::rows), and no end token.
  // Symbols that are spelled out in the text become their own id. Fails as CheckUtf8.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, int64_t max_tokens) const = 0;

  virtual int64_t vocabulary() const = 0;  // upper bound of ids, exclusive
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TEXT_TOKENIZER_H_
