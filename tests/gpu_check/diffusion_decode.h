// Measures the diffusion decoder of LTX-2.5 at the released widths, on a clip of one tile.
#ifndef KINORA_TESTS_GPU_CHECK_DIFFUSION_DECODE_H_
#define KINORA_TESTS_GPU_CHECK_DIFFUSION_DECODE_H_

#include "absl/status/status.h"
#include "engine/ops/backend.h"
#include "tests/gpu_check/parts.h"
#include "tests/gpu_check/synthetic_model.h"

namespace kinora {

// Adds rows for what is computed of the whole clip, for what is computed of a tile, and for one block's attention.
absl::Status DecodeByDiffusion(const Settings& settings, Backend& backend, const SyntheticWeights& weights,
                               Report& report);

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_DIFFUSION_DECODE_H_
