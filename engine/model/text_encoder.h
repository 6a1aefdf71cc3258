// Prompts -> what the transformer's prompt attention reads: tokenizer, Gemma, feature extractor and the two connectors,
// with a cache of encoded prompts. All prompts of a request go through in one batch.
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
#include "engine/model/gemma.h"
#include "engine/model/tokenizer.h"

namespace kinora {

// One prompt as the transformer gets it: [ConnectorConfig::rows, width of the modality's connector] in the activations'
// dtype. Video undefined: of sound alone.
using TextContext = PerModality<Tensor>;

// Its layers are spread over all ranks of a mesh, which encode together: one after the other computes, and all get the
// same contexts, the bits of one rank. Not thread-safe: one per rank. Ranks that are given the same prompts in the same
// order have the same hits.
class TextEncoder {
 public:
  struct Options {
    int64_t cache_bytes = 256 << 20;  // of encoded prompts kept; 0: none
    Residence gemma = Residence::kResident;
    Streams streams = Streams::kBoth;  // kSound: every context's video is undefined
  };
  // weights: the root; of text_encoder, text_projection and connectors this rank's layers are held. InvalidArgument if
  // the tokenizer has ids beyond the encoder's vocabulary or the projection does not fit the encoder. tokenizer: null
  // in a dry run, where only EncodeTokens is called.
  static absl::StatusOr<std::unique_ptr<TextEncoder>> Load(const WeightLoader& weights, const GemmaConfig& gemma,
                                                           const ConnectorConfig& connector,
                                                           std::unique_ptr<const Tokenizer> tokenizer,
                                                           const Options& options);

  // The ids of a prompt: white space stripped, <bos> first, at most rows(); no padding. InvalidArgument if it is not
  // UTF-8.
  absl::StatusOr<std::vector<int32_t>> Tokenize(std::string_view prompt) const;

  // Fills out[i] with the context of prompts[i]. Prompts seen before (or twice) with the same weights are copied. Waits
  // for the device. At most kMaxBatch prompts may be new at once. weights: what this encoder's bear beside those of the
  // checkpoint, as a text of its own; "": nothing.
  absl::Status Encode(Exec& exec, absl::Span<const std::string> prompts, absl::Span<const TextContext> out,
                      std::string_view weights = "");
  // The same from ids, without the cache: what a dry run calls with the longest prompts to learn cost and memory.
  absl::Status EncodeTokens(Exec& exec, absl::Span<const std::vector<int32_t>> prompts,
                            absl::Span<const TextContext> out) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }  // not in a dry run
  TextContext AllocContext(Arena& arena, DType dtype, Streams streams = Streams::kBoth) const;
  const ContextCache& cache() const { return cache_; }
  int64_t evicted_bytes() const { return gemma_.evicted_bytes(); }
  int64_t rows() const { return rows_; }  // of a context; tokens beyond it are cut off

 private:
  TextEncoder(int64_t rows, const Options& options) : rows_(rows), cache_(options.cache_bytes) {}

  const int64_t rows_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  Gemma gemma_;
  FeatureExtractor extractor_;
  Connector video_, audio_;
  ContextCache cache_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_TEXT_ENCODER_H_
