// The transformer set up for one denoising stage on this rank. Holds all inputs that are the same in every step, and
// computes whole velocities from whole latents, dividing tokens and guidance passes among the ranks of the mesh.
#ifndef KINORA_ENGINE_PIPELINE_VELOCITY_MODEL_H_
#define KINORA_ENGINE_PIPELINE_VELOCITY_MODEL_H_

#include <vector>

#include "engine/base/per_modality.h"
#include "engine/diffusion/guidance.h"
#include "engine/diffusion/sampler.h"
#include "engine/model/text_encoder.h"
#include "engine/model/transformer.h"
#include "engine/pipeline/rope_tables.h"

namespace kinora {

// Inputs of one modality. A modality without positions is absent.
struct ModalityInputs {
  // Middles of the tokens' intervals. Video: [3][tokens] (seconds, pixels down, pixels across). Audio: [1][tokens]
  // (seconds).
  std::vector<std::vector<float>> positions;
  std::vector<float> sigmas;  // the modality's noise level per step; both modalities need as many, even if absent
  std::vector<float> mask;    // [tokens]: a token's noise level divided by sigma; empty: 1
  std::vector<int> perturbed_blocks;  // in the STG pass
  Tensor self_bias;                   // [tokens, tokens] f32 or undefined
  // Tokens at the beginning that get the keyframe marker, in models that have one: those of a clip's first latent
  // frame.
  int64_t marked_tokens = 0;
};

struct VelocityInputs {
  PerModality<ModalityInputs> of;
  PassList passes = {Pass::kCond};
  TextContext cond, uncond;     // uncond is read only if `passes` has kUncond
  RopeTables* ropes = nullptr;  // keeps rotation tables beyond the stage; null: nothing does
  // false: computes every block of the STG pass, also those in which it equals the conditional pass. The result is the
  // same; tests compare the two.
  bool share_blocks = true;
};

// Returns the mesh on which a stage with this many passes runs. With one pass, it is the folded mesh with the most
// token ranks that divide the heads evenly, if there is one; otherwise `mesh`.
const Mesh& MeshOfStage(const Mesh& mesh, const TransformerConfig& config, size_t passes);

class VelocityModel {
 public:
  // Everything except addresses that a captured graph of a forward pass depends on.
  struct Shape {
    PerModality<int64_t> tokens, mask_values;
    PerModality<bool> biased;
    PerModality<std::vector<int>> perturbed_blocks;
    int64_t marked_tokens = 0;
    PassList passes;  // of all ranks together
    bool share_blocks = true;
    bool operator==(const Shape&) const = default;
  };

  // Allocates from exec.arena; the result is valid until the caller's scope there ends. `transformer` must outlive it,
  // `inputs` need not. Reads the contexts during the call. Fails with FailedPrecondition if the ranks that share tokens
  // do not divide the heads evenly.
  static absl::StatusOr<VelocityModel> Prepare(Exec& exec, const Transformer& transformer,
                                               const VelocityInputs& inputs);

  PerModality<int64_t> tokens() const { return shape_.tokens; }
  PerModality<int64_t> rows() const { return rows_; }  // of z; video tokens are padded to whole key chunks
  int passes() const { return static_cast<int>(shape_.passes.size()); }
  const Shape& shape() const { return shape_; }
  // Returns the address of the rotation tables, or null if they lie in the arena, where `shape` decides their address.
  const void* kept_ropes() const { return kept_ropes_; }

  // Selects the step whose tables Forward reads. step: [1] i32 in device memory.
  void SelectStep(Exec& exec, const Tensor& step) const;
  // z: [rows, channels] f32, zeros past the tokens   v: [passes·tokens, channels] f32, not written for a modality that
  // is not updated; undefined: the modality's velocity is not wanted. z and v are equal on every rank.
  void Forward(Exec& exec, const PerModality<ModalityUse>& use, const PerModality<Tensor>& z,
               const PerModality<Tensor>& v) const;

 private:
  explicit VelocityModel(const Transformer& transformer) : transformer_(&transformer) {}
  void AssignPasses(const Exec& exec, const VelocityInputs& inputs);
  void PrepareTokens(Exec& exec, const ModalityInputs& inputs, bool split, int64_t& rows, BlockInputs& in) const;
  void PrepareRopes(Exec& exec, const VelocityInputs& inputs);
  void PrepareContexts(Exec& exec, const VelocityInputs& inputs);
  void PrepareTables(Exec& exec, const PerModality<ModalityInputs>& inputs);
  void Deliver(Exec& exec, int64_t rank, const Tensor& made, int64_t tokens, const Tensor& whole) const;

  const Transformer* transformer_;
  Passes local_;  // this rank's
  PassList local_list_;
  const char* traced_passes_ = nullptr;  // their names, for traces
  Shape shape_;
  PerModality<int64_t> rows_;
  PerModality<BlockInputs> in_;
  const void* kept_ropes_ = nullptr;
  Tensor tables_;   // [RoomForSteps, floats]
  Tensor current_;  // [1, floats]: a copy of the selected row of tables_
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_VELOCITY_MODEL_H_
