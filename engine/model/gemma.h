// The text part of Gemma-3 (arXiv:2503.19786; transformers modeling_gemma3.py) or Gemma-4 (modeling_gemma4_unified.py)
// as prompt encoder. It computes only valid tokens: prompts are packed one after the other, and a prompt of n tokens
// has the positions rows - n … rows - 1, as in the reference's left-padded row. The rank with the first layer also
// holds the embeddings.
#ifndef KINORA_ENGINE_MODEL_GEMMA_H_
#define KINORA_ENGINE_MODEL_GEMMA_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "engine/config/model_config.h"
#include "engine/model/language_model.h"
#include "engine/parallel/layer_relay.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class Gemma : public LanguageModel {
 public:
  // Reads this rank's part of embed_tokens, layers.* and norm under `weights` (text_encoder). rows: length of the
  // padded row (ConnectorConfig::rows). residence: with kEvicted, Forward copies one layer's matrices at a time, and
  // the embeddings of the given tokens, from host memory to the arena. The results are the same bits; the copies take
  // time.
  static absl::StatusOr<Gemma> Load(WeightLoader weights, const GemmaConfig& config, int64_t rows,
                                    Residence residence = Residence::kResident);

  void Forward(Exec& exec, absl::Span<const int32_t> ids, absl::Span<const int64_t> lengths, const Tensor& made,
               StateSink on_state) const override;

  int64_t states() const override { return config_.layers + 1; }
  const LayerRun& held_states() const override { return relay_->held(); }
  int64_t evicted_bytes() const override;

 private:
  struct AttentionKind {  // of the layers with sliding attention, or of the others
    int64_t head_dim = 0, kv_heads = 0;
    int64_t window = 0;         // 0: all keys
    bool key_is_value = false;  // values are the keys before their norm and rotation
    Parameter cos, sin;         // [rows, head_dim / 2] f32, shared by all heads
    Parameter value_norm;       // [head_dim] f32, ones; undefined: values have no norm
    int64_t kv_width() const { return kv_heads * head_dim; }
  };
  struct Layer {
    bool sliding = false;
    float scalar = 1;  // factor of the layer's output, in Gemma-4
    Parameter input_norm, post_attention_norm, pre_feed_forward_norm, post_feed_forward_norm, q_norm, k_norm;
    Weight query, key_value, out, gate_up, down;
    std::array<const Weight*, 5> matrices() const { return {&query, &key_value, &out, &gate_up, &down}; }
  };

  // Parts of the relay: layer 0 with the embeddings, the other layers, and the final norm.
  static std::vector<int64_t> PartSizes(const GemmaConfig& config);
  static absl::StatusOr<Layer> LoadLayer(WeightLoader weights, const GemmaConfig& config, bool sliding);
  static absl::StatusOr<AttentionKind> LoadKind(WeightLoader& weights, const GemmaConfig& config, int64_t rows,
                                                bool sliding);
  absl::Status LoadEmbeddings(WeightLoader weights);
  void Embed(Exec& exec, absl::Span<const int32_t> ids, const Tensor& x) const;
  std::vector<Tensor> AllocLanding(ArenaScope& temp) const;
  void Attend(Exec& exec, int64_t index, absl::Span<const int64_t> lengths, Tensor x) const;
  void AttendPrompt(Exec& exec, const Layer& layer, const AttentionKind& kind, const Tensor& q, const Tensor& kv,
                    const Tensor& out) const;
  void FeedForward(Exec& exec, int64_t index, Tensor x) const;

  GemmaConfig config_;
  Residence residence_ = Residence::kResident;
  int64_t rows_ = 0;
  std::optional<LayerRelay> relay_;
  Parameter embeddings_, final_norm_;
  HostParameter host_embeddings_;  // replaces embeddings_ if evicted
  std::vector<Layer> layers_;      // layers of other ranks are empty
  AttentionKind global_, local_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_GEMMA_H_
