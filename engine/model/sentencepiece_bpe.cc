#include "engine/model/sentencepiece_bpe.h"

#include <sentencepiece_processor.h>

namespace kinora {

struct SentencePieceBpe::Processor {
  sentencepiece::SentencePieceProcessor library;
};

SentencePieceBpe::SentencePieceBpe() : processor_(std::make_unique<Processor>()) {}
SentencePieceBpe::~SentencePieceBpe() = default;

std::optional<std::string> SentencePieceBpe::Load(std::string_view serialized) {
  const auto status = processor_->library.LoadFromSerializedProto(serialized);
  if (status.ok()) return std::nullopt;
  return status.ToString();
}

std::optional<std::string> SentencePieceBpe::Encode(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<int> found;
  const auto status = processor_->library.Encode(text, &found);
  if (!status.ok()) return status.ToString();
  ids.insert(ids.end(), found.begin(), found.end());
  return std::nullopt;
}

}  // namespace kinora
