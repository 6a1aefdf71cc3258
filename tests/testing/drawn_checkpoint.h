// Weights for goldens that do not store them: drawn from the golden's seed, bit for bit as tests/golden/golden/drawn.py
// drew them for the reference. All other components come from the single file that the golden names.
#ifndef KINORA_TESTS_TESTING_DRAWN_CHECKPOINT_H_
#define KINORA_TESTS_TESTING_DRAWN_CHECKPOINT_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/tensor.h"
#include "tests/testing/golden.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {

// Draws all tensors from one random sequence, in the order of their full names. A value is centre + width · (2u − 1)
// in float32, rounded to bfloat16. u is drawn as torch.rand draws it on the CPU: the low 24 bits of mt19937, which are
// identical on every platform (normal deviates are not).
class WeightSource {
 public:
  explicit WeightSource(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}
  // name and shape are the tensor's full key and shape in the single file; they determine centre and width.
  std::vector<bf16> Draw(std::string_view name, const Shape& shape);
  uint64_t checksum() const { return checksum_; }  // of all values so far: Σ bits · (position mod 1021 + 1)

 private:
  std::mt19937 engine_;
  uint64_t position_ = 0, checksum_ = 0;
};

// A single file with metadata `config` and `model_version`, in a temporary directory that the object owns. Ends the
// program with a message if the checksum differs from the reference's.
class DrawnCheckpoint {
 public:
  explicit DrawnCheckpoint(const Golden& golden);  // with metadata "drawn"
  const std::string& path() const { return path_; }

 private:
  TemporaryDirectory folder_;
  std::string path_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_DRAWN_CHECKPOINT_H_
