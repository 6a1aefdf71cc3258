// The transformer set up for one denoising stage on this rank: everything it reads that stays the same from step to
// step, and a forward pass from whole latents to whole velocities, sharing out tokens and guidance passes over the
// mesh.
#ifndef KINORA_ENGINE_PIPELINE_VELOCITY_MODEL_H_
#define KINORA_ENGINE_PIPELINE_VELOCITY_MODEL_H_

#include <vector>

#include "engine/base/per_modality.h"
#include "engine/diffusion/guidance.h"
#include "engine/diffusion/sampler.h"
#include "engine/model/text_encoder.h"
#include "engine/model/transformer.h"

namespace kinora {

// What differs between the modalities. Without positions a modality is absent.
struct ModalityInputs {
  // Middles of the tokens' intervals: of video [3][tokens] (seconds, pixels down, pixels across), of audio [1][tokens]
  // (seconds).
  std::vector<std::vector<float>> positions;
  std::vector<float> sigmas;          // one per step: the modality's noise level; as many in both, absent or not
  std::vector<float> mask;            // [tokens]: a token's timestep as a part of sigma; empty: 1
  std::vector<int> perturbed_blocks;  // in the STG pass
  Tensor self_bias;                   // [tokens, tokens] f32 or undefined
};

struct VelocityInputs {
  PerModality<ModalityInputs> of;
  PassList passes = {Pass::kCond};
  TextContext cond, uncond;  // uncond: read if passes has kUncond
};

// The mesh that a stage of so many passes runs on: `mesh`, or for one pass the folded one with the most token ranks
// among which the heads can be shared out.
const Mesh& MeshOfStage(const Mesh& mesh, const TransformerConfig& config, size_t passes);

class VelocityModel {
 public:
  // What a forward pass bakes into a captured graph besides addresses.
  struct Shape {
    PerModality<int64_t> tokens, mask_values;
    PerModality<bool> biased;
    PerModality<std::vector<int>> perturbed_blocks;
    PassList passes;  // of all ranks
    bool operator==(const Shape&) const = default;
  };

  // Allocates from exec.arena; valid until the caller's scope there ends. transformer must outlive it, `inputs` need
  // not. Contexts are read now. FailedPrecondition if the mesh cannot share the tokens out.
  static absl::StatusOr<VelocityModel> Prepare(Exec& exec, const Transformer& transformer,
                                               const VelocityInputs& inputs);

  PerModality<int64_t> tokens() const { return shape_.tokens; }
  PerModality<int64_t> rows() const { return rows_; }  // of z: video's tokens are padded to whole key chunks
  int passes() const { return static_cast<int>(shape_.passes.size()); }
  const Shape& shape() const { return shape_; }

  // The tables of the step in `step` [1] i32, device memory, become those that Forward reads.
  void SelectStep(Exec& exec, const Tensor& step) const;
  // z: [rows, channels] f32, zeros past the tokens   v: [passes·tokens, channels] f32, not written for a modality that
  // is not updated, undefined of one whose velocity nobody wants; both equal on every rank
  void Forward(Exec& exec, const PerModality<ModalityUse>& use, const PerModality<Tensor>& z,
               const PerModality<Tensor>& v) const;

 private:
  explicit VelocityModel(const Transformer& transformer) : transformer_(&transformer) {}
  void AssignPasses(const Exec& exec, const VelocityInputs& inputs);
  void PrepareTokens(Exec& exec, const ModalityInputs& inputs, const ModalityConfig& config, bool split, int64_t& rows,
                     StreamInputs& in) const;
  void PrepareContexts(Exec& exec, const VelocityInputs& inputs);
  void PrepareTables(Exec& exec, const PerModality<ModalityInputs>& inputs);
  void Deliver(Exec& exec, int64_t rank, const Tensor& made, int64_t tokens, const Tensor& whole) const;

  const Transformer* transformer_;
  Passes local_;  // this rank's
  PassList local_list_;
  const char* traced_passes_ = nullptr;  // their names, for traces
  Shape shape_;
  PerModality<int64_t> rows_;
  PerModality<StreamInputs> in_;
  Tensor tables_;   // [RoomForSteps, floats]
  Tensor current_;  // [floats]: one of its rows
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_VELOCITY_MODEL_H_
