// Models of the released shapes without their files: the ordinary loader reads the weights from one small file of
// random values.
#ifndef KINORA_TESTS_GPU_CHECK_SYNTHETIC_MODEL_H_
#define KINORA_TESTS_GPU_CHECK_SYNTHETIC_MODEL_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/config/model_config.h"
#include "engine/weights/weight_loader.h"
#include "tests/gpu_check/parts.h"

namespace kinora {

// `family` is "2.0" or "2.3". With small settings, the model has the same structure with a few narrow layers.
absl::StatusOr<ModelConfig> SyntheticConfig(const Settings& settings, const std::string& family);

class SyntheticWeights {
 public:
  // Writes the weight file into settings.work.
  static absl::StatusOr<SyntheticWeights> Make(const Settings& settings);

  // Returns a checkpoint with every tensor that `load` requests from a dry loader. Each lies somewhere in the file, and
  // tensors share values.
  absl::StatusOr<std::shared_ptr<const Checkpoint>> CheckpointFor(
      const std::function<absl::Status(const WeightLoader&)>& load) const;

 private:
  std::shared_ptr<const SafetensorsFile> file_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_SYNTHETIC_MODEL_H_
