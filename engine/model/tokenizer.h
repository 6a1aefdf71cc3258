// Prompt -> token ids, as Gemma-3's fast tokenizer in transformers gives them, from Gemma's own tokenizer.model
// (SentencePiece BPE).
#ifndef KINORA_ENGINE_MODEL_TOKENIZER_H_
#define KINORA_ENGINE_MODEL_TOKENIZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kinora {

// `text` without the white space at its ends, as Python's str.strip sees it: what every pipeline does before it
// tokenizes.
std::string_view StripWhiteSpace(std::string_view text);

// Thread-safe after loading.
class Tokenizer {
 public:
  // `path`: a tokenizer.model. An added_tokens.json beside it ({"<image_soft_token>": 262144}) adds symbols that the
  // model does not list. NotFound, or InvalidArgument naming the file and what is wrong with it; what is accepted:
  // tokenizer_model.h.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);
  // The same from memory.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromModel(std::string_view serialized,
                                                              const std::map<std::string, int32_t>& added_tokens = {});
  ~Tokenizer();

  // <bos>, then the ids of `text`, max_tokens at most in all (ConnectorConfig::rows); no end token. An empty text is
  // <bos> alone. Control, unknown and user-defined symbols written out in the text become their one id, the longest
  // first, also within words. InvalidArgument, with the byte offset, if the text is not UTF-8.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, int64_t max_tokens) const;

  int64_t vocabulary() const;  // ids are below this

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_TOKENIZER_H_
