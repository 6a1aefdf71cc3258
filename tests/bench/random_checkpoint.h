// Writes checkpoints with random weights for all tensors that a dry run of the loading code requests: models of the
// released sizes without their files.
#ifndef KINORA_TESTS_BENCH_RANDOM_CHECKPOINT_H_
#define KINORA_TESTS_BENCH_RANDOM_CHECKPOINT_H_

#include <string>
#include <vector>

#include "engine/weights/weight_loader.h"

namespace kinora {

// Writes `tensors` as bf16 to `path`. Matrices and filters are scaled by their fan-in so that activations stay of order
// one (denormals and infinities would change timings); vectors are small.
absl::Status WriteRandomCheckpoint(const std::string& path, const std::vector<RecordedTensor>& tensors);

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_RANDOM_CHECKPOINT_H_
