// A language model as prompt encoder: it has no output head and returns all hidden states. Each rank holds whole
// layers and computes their states.
#ifndef KINORA_ENGINE_MODEL_LANGUAGE_MODEL_H_
#define KINORA_ENGINE_MODEL_LANGUAGE_MODEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/parallel/layer_relay.h"

namespace kinora {

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // Called for each state in ascending order, on the rank that holds it (held_states). index: 0 for the scaled
  // embeddings, 1 … layers - 1 for the outputs of all layers but the last, `layers` for the final norm of the last
  // layer's output. hidden: [tokens, width], valid during the call.
  using StateSink = absl::FunctionRef<void(int64_t index, const Tensor& hidden)>;
  // ids: of all tokens, below the vocabulary, read during the call. lengths: of the prompts in order, each at least 1
  // and at most the rows of a prompt; their sum is the number of tokens. made: on_state's result, contiguous, of the
  // same shape on all ranks. It is passed from rank to rank, and on return it is equal on all.
  virtual void Forward(Exec& exec, absl::Span<const int32_t> ids, absl::Span<const int64_t> lengths, const Tensor& made,
                       StateSink on_state) const = 0;

  virtual int64_t states() const = 0;               // layers + 1
  virtual const LayerRun& held_states() const = 0;  // states for which this rank calls on_state
  virtual int64_t evicted_bytes() const = 0;        // in this rank's host memory; 0: resident
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_LANGUAGE_MODEL_H_
