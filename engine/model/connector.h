// A connector: a transformer over the rows of one prompt, between the text features and a modality's prompt attention
// (docs/model.md "Connectors"; ltx_core/text_encoders/gemma/embeddings_connector.py). Tokens come first; learnable
// registers, chosen by absolute position, fill the rest. Every row of the result is therefore valid, and prompt
// attention needs no mask. Each rank holds whole blocks.
#ifndef KINORA_ENGINE_MODEL_CONNECTOR_H_
#define KINORA_ENGINE_MODEL_CONNECTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "engine/config/model_config.h"
#include "engine/model/attention.h"
#include "engine/model/feed_forward.h"
#include "engine/parallel/layer_relay.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class Connector {
 public:
  // Reads this rank's part of learnable_registers and transformer_1d_blocks.* under `weights`
  // (connectors.video_embeddings_connector or audio_…). stream: config.video or config.audio. rows: length of a
  // context. name: prefix of the taps.
  static absl::StatusOr<Connector> Load(WeightLoader weights, const ConnectorConfig& config,
                                        const ConnectorStreamConfig& stream, int64_t rows, std::string_view name);

  // features: [tokens, width], the tokens of at most kMaxBatch packed prompts; read only on rank 0. lengths: as in
  // LanguageModel::Forward. out: [prompts · rows, width] exec.dtype, equal on all ranks.
  void Forward(Exec& exec, const Tensor& features, absl::Span<const int64_t> lengths, Tensor out) const;

  int64_t width() const { return width_; }

 private:
  struct Block {
    Attention attention;
    FeedForward feed_forward;
  };
  absl::Status MakeRope(WeightLoader& weights, const ConnectorConfig& config);
  void FillRows(Exec& exec, const Tensor& features, absl::Span<const int64_t> lengths, Tensor x) const;

  std::string name_;
  int64_t rows_ = 0, width_ = 0;
  Parameter registers_;  // [registers, width] f32
  Parameter cos_, sin_;  // [rows, width / 2] f32
  std::optional<LayerRelay> relay_;
  std::vector<Block> blocks_;  // blocks of other ranks are empty
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_CONNECTOR_H_
