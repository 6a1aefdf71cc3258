// The text part of Gemma-3 (arXiv:2503.19786; transformers modeling_gemma3.py) as the encoder of prompts: no output
// head, all hidden states wanted. Only valid tokens are computed: several prompts are packed one after the other, and a
// prompt of n tokens has the positions rows - n … rows - 1 that it has in the left-padded row of the reference. Whole
// layers are spread over all ranks, the embeddings with the first.
#ifndef KINORA_ENGINE_MODEL_GEMMA_H_
#define KINORA_ENGINE_MODEL_GEMMA_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/model/config.h"
#include "engine/parallel/layer_relay.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class Gemma {
 public:
  // Reads of embed_tokens, layers.* and norm under `weights` (text_encoder) what this rank holds. rows: length of the
  // padded row (ConnectorConfig::rows). Evicted, the matrices of one layer at a time and the embeddings of the tokens
  // at hand come to the device, into memory of the arena: the same bits, as long as the copies take.
  static absl::StatusOr<Gemma> Load(WeightLoader weights, const GemmaConfig& config, int64_t rows,
                                    Residence residence = Residence::kResident);

  // hidden: [tokens, width], valid until the callback returns; index 0: scaled embeddings; 1 … layers - 1: outputs of
  // the layers before the last; layers: the final norm of the last layer's output. So layers + 1 calls, in this order,
  // each on the rank that holds the state (held_states).
  using StateSink = absl::FunctionRef<void(int64_t index, const Tensor& hidden)>;
  // ids: of the tokens, below config().vocabulary, read before the return; lengths: of the prompts in their order, each
  // 1 … rows, of sum `tokens`. made: what on_state makes of the states, contiguous, of one shape on all ranks; it goes
  // from rank to rank with them, and is equal on all in the end.
  void Forward(Exec& exec, absl::Span<const int32_t> ids, absl::Span<const int64_t> lengths, const Tensor& made,
               StateSink on_state) const;

  const GemmaConfig& config() const { return config_; }
  int64_t states() const { return config_.layers + 1; }
  const LayerRun& held_states() const { return relay_->held(); }  // of which this rank computes what follows
  int64_t evicted_bytes() const;                                  // in host memory of this rank; 0: resident

 private:
  struct RopeTables {    // of one frequency base
    Parameter cos, sin;  // [rows, head_dim / 2] f32, shared by all heads
  };
  struct Layer {
    bool sliding = false;
    Parameter input_norm, post_attention_norm, pre_feed_forward_norm, post_feed_forward_norm, q_norm, k_norm;
    Weight query, key_value, out, gate_up, down;
    std::array<const Weight*, 5> matrices() const { return {&query, &key_value, &out, &gate_up, &down}; }
  };

  // Parts of the relay: layer 0 with the embeddings, the other layers, and the final norm.
  static std::vector<int64_t> PartSizes(const GemmaConfig& config);
  static absl::StatusOr<Layer> LoadLayer(WeightLoader weights, const GemmaConfig& config);
  static absl::StatusOr<RopeTables> LoadRope(WeightLoader& weights, const GemmaConfig& config, int64_t rows,
                                             double theta, double factor);
  absl::Status LoadEmbeddings(WeightLoader weights);
  void Embed(Exec& exec, absl::Span<const int32_t> ids, const Tensor& x) const;
  void Attend(Exec& exec, int64_t index, absl::Span<const int64_t> lengths, Tensor x) const;
  void FeedForward(Exec& exec, int64_t index, Tensor x) const;

  GemmaConfig config_;
  Residence residence_ = Residence::kResident;
  int64_t rows_ = 0;
  std::optional<LayerRelay> relay_;
  Parameter embeddings_, final_norm_;
  HostParameter host_embeddings_;  // in their place if they are evicted
  std::vector<Layer> layers_;      // empty ones of other ranks
  RopeTables global_, local_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_GEMMA_H_
