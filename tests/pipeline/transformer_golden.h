// Runs a golden's transformer as the denoiser runs it. Shared by the tests of whole velocities.
#ifndef KINORA_TESTS_PIPELINE_TRANSFORMER_GOLDEN_H_
#define KINORA_TESTS_PIPELINE_TRANSFORMER_GOLDEN_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/pipeline/velocity_model.h"
#include "tests/testing/model_rig.h"

namespace kinora {

struct Velocity {
  std::vector<float> video, audio;
  CollectiveCounts tokens, tensor;
  int64_t allocations = 0;  // during the step
  bool operator==(const Velocity& other) const { return video == other.video && audio == other.audio; }
};

// Inputs of one forward pass of a golden.
struct ForwardCase {
  Golden& golden;
  PassList passes = {Pass::kCond};
  std::vector<int> context_rows = {0, 0};  // rows of the golden's contexts: uncond, cond
  std::vector<int> video_stg = {}, audio_stg = {};
  DType dtype = DType::kF32;
  float audio_sigma = -1;  // negative: the video's
  std::vector<float> audio_mask = {};
  int64_t marked_tokens = -1;  // negative: those of the golden, if it has any
  bool capture = false;
  PerModality<ModalityUse> use = {};
  bool share_blocks = true;
  TestedBackend on = Cpu();
  Taps* taps = nullptr;
};

class TransformerGolden {
 public:
  explicit TransformerGolden(Golden& weights) : TransformerGolden(weights, weights.WriteCheckpoint()) {}
  // `checkpoint` is a file with these weights; the golden's metadata has `config` and `model_version`.
  TransformerGolden(const Golden& golden, const std::string& checkpoint);

  absl::StatusOr<Velocity> Run(const Mesh& mesh, const ForwardCase& c) const;
  Velocity Single(const ForwardCase& c) const;  // on one rank; fails the test on an error
  const TransformerConfig& config() const { return config_; }

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
  TransformerConfig config_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_PIPELINE_TRANSFORMER_GOLDEN_H_
