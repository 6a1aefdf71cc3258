// A golden's transformer, run as the denoiser runs it: what the tests of whole velocities share.
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
  int64_t allocations = 0;  // of the step
  bool operator==(const Velocity& other) const { return video == other.video && audio == other.audio; }
};

// What one run of a golden's forward pass is given.
struct ForwardCase {
  Golden& golden;
  PassList passes = {Pass::kCond};
  std::vector<int> context_rows = {0, 0};  // of the golden's contexts: uncond, cond
  std::vector<int> video_stg = {}, audio_stg = {};
  DType dtype = DType::kF32;
  float audio_sigma = -1;  // below 0: as the video's
  std::vector<float> audio_mask = {};
  bool capture = false;
  PerModality<ModalityUse> use = {};
  TestedBackend on = Cpu();
  Taps* taps = nullptr;
};

class TransformerGolden {
 public:
  explicit TransformerGolden(Golden& weights) : TransformerGolden(weights, weights.WriteCheckpoint()) {}
  // checkpoint: a file of these weights; the golden has `config` and `model_version`.
  TransformerGolden(const Golden& golden, const std::string& checkpoint);

  absl::StatusOr<Velocity> Run(const Mesh& mesh, const ForwardCase& c) const;
  Velocity Single(const ForwardCase& c) const;  // without other ranks; an error fails the test
  const TransformerConfig& config() const { return config_; }

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
  TransformerConfig config_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_PIPELINE_TRANSFORMER_GOLDEN_H_
