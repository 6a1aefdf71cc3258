// Turns prompts into token ids, like Gemma-3's fast tokenizer in transformers, from Gemma's own tokenizer.model
// (SentencePiece BPE).
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

// Thread-safe after loading.
class Tokenizer {
 public:
  // path: of a tokenizer.model; tokenizer_model.h describes the accepted ones. An added_tokens.json in the same folder
  // ({"<image_soft_token>": 262144}) adds symbols that the model does not list. Fails with NotFound, or with
  // InvalidArgument naming the file and the problem.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);
  // Like Load, from memory.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromModel(std::string_view serialized,
                                                              const std::map<std::string, int32_t>& added_tokens = {});
  ~Tokenizer();

  // Returns <bos> and the ids of `text`, at most max_tokens ids in total (ConnectorConfig::rows), and no end token.
  // Control, unknown and user-defined symbols that are spelled out in the text become their own id, the longest match
  // first, even within words. Fails with InvalidArgument, with the byte offset, if the text is not UTF-8.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, int64_t max_tokens) const;

  int64_t vocabulary() const;  // upper bound of ids, exclusive

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TEXT_TOKENIZER_H_
