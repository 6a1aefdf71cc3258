// Computes how long a denoising step of the transformer takes on one GPU, by parts, from the list of its launches and
// stated rates. docs/performance.md, "Predicted step times".
#ifndef KINORA_TESTS_PREDICTION_STEP_PREDICTION_H_
#define KINORA_TESTS_PREDICTION_STEP_PREDICTION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/config/model_config.h"
#include "engine/diffusion/guidance.h"
#include "tests/prediction/launch_list.h"

namespace kinora {

struct StepSize {
  int64_t video_tokens = 0, audio_tokens = 0, prompt_rows = 1024;
  PassList passes = {Pass::kCond};
  std::vector<int> perturbed_blocks = {};  // of both modalities, in the perturbed pass
};

// Returns the launches of one step of the denoising loop with the Euler sampler, bfloat16, on one device: those that
// the loop captures into its graph.
absl::StatusOr<std::vector<Launch>> LaunchesOfStep(const TransformerConfig& config, const StepSize& size);

// Rates of a GPU while it is busy with one kind of work, and its size.
struct GpuRates {
  double product_flops = 0;          // bf16 products with full waves of tiles, per second
  double self_attention_flops = 0;   // attention with as many queries as keys
  double other_attention_flops = 0;  // attention to a prompt or to the other modality
  double split_attention_flops = 0;  // our own float32 kernel for few queries
  double bytes = 0;                  // per second, of our own kernels
  double launch_seconds = 0;         // between two dependent launches in a graph
  int multiprocessors = 132;
};
// Assumed for an H100 SXM, without a measurement of our own: the best, likely and worst case.
extern const std::array<GpuRates, 3> kH100Rates;

enum class StepPart : uint8_t {
  kProducts,
  kGateLogits,  // products with few columns, bound by memory
  kSelfAttention,
  kOtherAttention,
  kSplitAttention,
  kNorms,  // norms, rotations, residuals
  kGates,  // of attention heads, and other elementwise work
  kOther,  // copies, lookups, sampling
  kSound,  // what the sound's branch takes longer than the video beside it
  kGaps,   // between launches
};
inline constexpr int kStepParts = 10;
std::string_view StepPartName(StepPart part);

struct StepPrediction {
  std::array<double, kStepParts> seconds{};
  double flop = 0;  // of all launches
  int launches = 0;
  double total() const;
};

// A launch takes the longer of its arithmetic and its bytes. A product's arithmetic is counted in whole waves of its
// 128 x 256 tiles over the multiprocessors (128 x 64 for at most 64 columns). In each section of the graph, launches
// of the branch run beside the others and count only as far as they take longer; split attention fills the device, so
// it is added wherever it runs.
StepPrediction PredictStep(absl::Span<const Launch> launches, const GpuRates& rates);

// Returns the Markdown tables of docs/performance.md for LTX-2.3: 6,144 and 15,360 tokens, two and four passes.
absl::StatusOr<std::string> PredictionTables();

}  // namespace kinora

#endif  // KINORA_TESTS_PREDICTION_STEP_PREDICTION_H_
