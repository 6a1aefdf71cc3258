#include "engine/model/adaln.h"

#include "engine/base/status_macros.h"

namespace kinora {

constexpr int64_t kTimestepChannels = 256;

absl::StatusOr<AdaLn> AdaLn::Load(WeightLoader weights, int64_t width, int64_t slots) {
  AdaLn adaln;
  KINORA_ASSIGN_OR_RETURN(
      adaln.in_, weights.LoadWeight({"emb.timestep_embedder.linear_1"}, {.out = width, .in = kTimestepChannels}));
  KINORA_ASSIGN_OR_RETURN(adaln.hidden_,
                          weights.LoadWeight({"emb.timestep_embedder.linear_2"}, {.out = width, .in = width}));
  KINORA_ASSIGN_OR_RETURN(adaln.out_, weights.LoadWeight({"linear"}, {.out = slots * width, .in = width}));
  return adaln;
}

void AdaLn::Forward(Exec& exec, const Tensor& timesteps, Tensor params, Tensor embedded) const {
  ArenaScope temp(exec.arena);
  const int64_t rows = timesteps.elements();
  Tensor waves = temp.Alloc(DType::kF32, {rows, kTimestepChannels});
  Tensor hidden = temp.Alloc(DType::kF32, {rows, in_.out()});
  Tensor embedding = embedded.defined() ? embedded : temp.Alloc(DType::kF32, {rows, hidden_.out()});
  exec.ops.TimestepEmbedding(timesteps, waves);
  exec.ops.Matmul(waves, in_, {.activation = Activation::kSilu}, hidden);
  exec.ops.Matmul(hidden, hidden_, {}, embedding);
  exec.ops.Activate(embedding, Activation::kSilu, hidden);
  exec.ops.Matmul(hidden, out_, {}, params);
}

}  // namespace kinora
