// Models of released shapes without their files: weights that are read from one small file of drawn values, through the
// ordinary loader.
#ifndef KINORA_TESTS_GPU_CHECK_SYNTHETIC_MODEL_H_
#define KINORA_TESTS_GPU_CHECK_SYNTHETIC_MODEL_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/config.h"
#include "engine/weights/weight_loader.h"
#include "tests/gpu_check/parts.h"

namespace kinora {

// family: "2.0" or "2.3". In small settings the same structure with a few narrow layers.
absl::StatusOr<ModelConfig> SyntheticConfig(const Settings& settings, const std::string& family);

class SyntheticWeights {
 public:
  // Writes the file into settings.work.
  static absl::StatusOr<SyntheticWeights> Make(const Settings& settings);

  // What `load` asks a dry loader for, every tensor somewhere in the file; tensors share values.
  absl::StatusOr<std::shared_ptr<const Checkpoint>> CheckpointFor(
      const std::function<absl::Status(const WeightLoader&)>& load) const;

 private:
  std::shared_ptr<const SafetensorsFile> file_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_SYNTHETIC_MODEL_H_
