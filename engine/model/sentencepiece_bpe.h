// SentencePiece behind standard types. Its header declares absl::string_view as std::string_view, Debian's Abseil as a class of its
// own, so no file can include both: this pair is the only one that knows the library.
#ifndef KINORA_ENGINE_MODEL_SENTENCEPIECE_BPE_H_
#define KINORA_ENGINE_MODEL_SENTENCEPIECE_BPE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinora {

class SentencePieceBpe {
 public:
  SentencePieceBpe();
  ~SentencePieceBpe();
  // `serialized`: checked by ParseTokenizerModel. Returns the library's message if it refuses the model.
  std::optional<std::string> Load(std::string_view serialized);
  // Appends the ids of `text` (UTF-8) as it is: nothing stripped, nothing added. Thread-safe. Returns the library's message on failure.
  std::optional<std::string> Encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_SENTENCEPIECE_BPE_H_
