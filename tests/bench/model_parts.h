// Parts of a model for benchmarks: loaded from a checkpoint, with inputs from a file, and run repeatedly.
#ifndef KINORA_TESTS_BENCH_MODEL_PARTS_H_
#define KINORA_TESTS_BENCH_MODEL_PARTS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/config/model_config.h"
#include "engine/ops/backend.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/exec.h"
#include "engine/weights/checkpoint.h"

namespace kinora {

// All tensors of a safetensors file, in memory. F32 and I64 stay as they are; other dtypes are rejected by name.
class InputFile {
 public:
  static absl::StatusOr<InputFile> Open(const std::string& path);
  const Tensor& Get(const std::string& name) const;  // CHECK-fails if absent

 private:
  std::map<std::string, std::pair<Buffer, Tensor>> tensors_;
};

struct PartOptions {
  ModelFiles files;
  std::string inputs;  // a safetensors file, see the parts below
  DType precision = DType::kBF16;
  int threads = 1;
};

class ModelPart {
 public:
  virtual ~ModelPart() = default;
  virtual void Run() = 0;  // returns when the outputs are complete
  virtual double flops() const = 0;
  virtual int64_t arena_bytes() const = 0;
  virtual std::vector<std::pair<std::string, Tensor>> outputs() const = 0;
};

// Loads a part. Inputs and outputs:
// "transformer": one forward pass of one guidance pass, captured and replayed as in the denoising loop.
//   in: video [tokens, channels], audio [tokens, channels], video_context, audio_context [rows, width], video_positions
//   [3, tokens], audio_positions [1, tokens] (midpoints), sigma [1], all f32   out: video, audio
// "video_decoder": in: latent [frames, height, width, channels] f32   out: frames [frames, height, width, 3]
// "diffusion_decoder": in: latent as above, noise [3, frames, height, width] f32   out: frames
// "video_encoder": in: pixels [frames, height, width, 3] f32   out: latent
// "upsampler": in: latent, as for the decoder   out: upsampled, with twice the height and width
// "gemma": in: input_ids [prompts, tokens] i64, all valid   out: hidden [prompts·tokens, width], the last state
absl::StatusOr<std::unique_ptr<ModelPart>> LoadPart(const std::string& part, const PartOptions& options);

// Runs one forward pass of the transformer on dry ops. Calls `prepared` after the one-time preparation and before the
// pass.
absl::Status DryTransformer(const ModelConfig& config, const InputFile& inputs, DType precision, DryOps& ops,
                            absl::FunctionRef<void()> prepared);

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_MODEL_PARTS_H_
