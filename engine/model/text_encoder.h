// Turns prompts into the contexts that the transformer's prompt attention reads: tokenizer, language model, feature
// extractor and two connectors, with a cache of encoded prompts. Encodes all prompts of a request in one batch.
#ifndef KINORA_ENGINE_MODEL_TEXT_ENCODER_H_
#define KINORA_ENGINE_MODEL_TEXT_ENCODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/per_modality.h"
#include "engine/model/connector.h"
#include "engine/model/context_cache.h"
#include "engine/model/feature_extractor.h"
#include "engine/model/language_model.h"
#include "engine/text/tokenizer.h"

namespace kinora {

// One encoded prompt: [ConnectorConfig::rows, width of the modality's connector] in the activations' dtype. Video is
// undefined in runs for sound only.
using TextContext = PerModality<Tensor>;

// All ranks of a mesh encode together. Each holds some of the layers; they compute one after the other, and all get the
// same contexts, bit for bit those of a single rank. Every rank must encode the same prompts in the same order, so that
// all have the same cache hits. Not thread-safe: one per rank.
class TextEncoder {
 public:
  struct Options {
    int64_t cache_bytes = 256 << 20;  // capacity of the cache of encoded prompts; 0: no cache
    Residence gemma = Residence::kResident;
    Modalities modalities = Modalities::kBoth;  // kSound: contexts have no video
  };
  // weights: at the root; this rank's layers of text_encoder, text_projection and connectors are loaded. tokenizer:
  // null in a dry run, where only EncodeTokens may be called. Fails with InvalidArgument if the tokenizer has ids
  // beyond the encoder's vocabulary or the projection does not fit the encoder.
  static absl::StatusOr<std::unique_ptr<TextEncoder>> Load(const WeightLoader& weights, const GemmaConfig& gemma,
                                                           const ConnectorConfig& connector,
                                                           std::unique_ptr<const Tokenizer> tokenizer,
                                                           const Options& options);

  // Returns the ids of a prompt: white space stripped, <bos> first, at most rows() ids, no padding. Fails with
  // InvalidArgument if the prompt is not UTF-8.
  absl::StatusOr<std::vector<int32_t>> Tokenize(std::string_view prompt) const;

  // Fills out[i] with the context of prompts[i]. Copies the contexts of cached or repeated prompts. At most kMaxBatch
  // prompts of a call may be new. Waits for the device. weights: identifies the LoRAs in this encoder's weights, as
  // part of the cache key; "": none.
  absl::Status Encode(Exec& exec, absl::Span<const std::string> prompts, absl::Span<const TextContext> out,
                      std::string_view weights = "");
  // Like Encode, from ids and without the cache. A dry run calls it to compute cost and memory.
  absl::Status EncodeTokens(Exec& exec, absl::Span<const std::vector<int32_t>> prompts,
                            absl::Span<const TextContext> out) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }  // not in a dry run
  TextContext AllocContext(Arena& arena, DType dtype, Modalities modalities = Modalities::kBoth) const;
  const ContextCache& cache() const { return cache_; }
  int64_t evicted_bytes() const { return language_model_->evicted_bytes(); }
  int64_t rows() const { return rows_; }  // rows of a context; longer prompts are truncated

 private:
  TextEncoder(int64_t rows, const Options& options) : rows_(rows), cache_(options.cache_bytes) {}

  const int64_t rows_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const LanguageModel> language_model_;
  FeatureExtractor extractor_;
  Connector video_, audio_;
  ContextCache cache_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_TEXT_ENCODER_H_
