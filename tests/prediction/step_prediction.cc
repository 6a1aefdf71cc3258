#include "tests/prediction/step_prediction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/config/released_models.h"
#include "engine/pipeline/denoiser.h"

namespace kinora {
namespace {

Tensor Shaped(DType dtype, int64_t rows, int64_t width) { return Tensor(dtype, {rows, width}, nullptr); }

VelocityInputs InputsOf(const TransformerConfig& config, const StepSize& size, const std::vector<float>& sigmas) {
  VelocityInputs inputs;
  inputs.of.video.positions.assign(3, std::vector<float>(size.video_tokens, 0.5f));
  inputs.of.audio.positions.assign(1, std::vector<float>(size.audio_tokens, 0.5f));
  inputs.of.video.perturbed_blocks = inputs.of.audio.perturbed_blocks = size.perturbed_blocks;
  inputs.of.video.sigmas = inputs.of.audio.sigmas = sigmas;
  inputs.passes = size.passes;
  const auto context = [&](const ModalityConfig& modality) {
    const int64_t width = config.caption_projection ? config.caption_channels : modality.context_width;
    return Shaped(DType::kBF16, size.prompt_rows, width);
  };
  inputs.cond = inputs.uncond = {context(config.video), context(config.audio)};
  return inputs;
}

LatentState StateOf(const ModalityConfig& modality, int64_t tokens, int64_t rows) {
  return {.layout = {.grid = tokens, .padded = rows}, .z = Shaped(DType::kF32, rows, modality.in_channels)};
}

int64_t Up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Counts whole waves of tiles, which are narrow for products with few columns.
double SecondsOfProduct(const Launch& product, const GpuRates& rates) {
  constexpr int64_t kTileRows = 128, kTileColumns = 256, kNarrow = 64;
  const int64_t columns = product.n <= kNarrow ? kNarrow : kTileColumns;
  const int64_t tiles = Up(product.m, kTileRows) * Up(product.n, columns);
  const int64_t computed = Up(tiles, rates.multiprocessors) * rates.multiprocessors * kTileRows * columns;
  return 2.0 * static_cast<double>(computed) * static_cast<double>(product.k) / rates.product_flops;
}

double SecondsOf(const Launch& launch, const GpuRates& rates) {
  const double moved = static_cast<double>(launch.bytes) / rates.bytes;
  if (launch.kernel == "product") return std::max(moved, SecondsOfProduct(launch, rates));
  if (launch.kernel == "split_attention") return std::max(moved, launch.flop / rates.split_attention_flops);
  if (launch.kernel != "attention") return moved;
  return std::max(moved, launch.flop / (launch.to_itself ? rates.self_attention_flops : rates.other_attention_flops));
}

StepPart PartOf(const Launch& launch) {
  constexpr int64_t kMostHeads = 64;
  static const std::map<std::string_view, StepPart> parts = {{"split_attention", StepPart::kSplitAttention},
                                                             {"row_norm", StepPart::kNorms},
                                                             {"qk_norm_rope", StepPart::kNorms},
                                                             {"elementwise", StepPart::kGates},
                                                             {"join_heads", StepPart::kGates},
                                                             {"merge_splits", StepPart::kGates}};
  if (launch.kernel == "product") return launch.n <= kMostHeads ? StepPart::kGateLogits : StepPart::kProducts;
  if (launch.kernel == "attention") return launch.to_itself ? StepPart::kSelfAttention : StepPart::kOtherAttention;
  const auto found = parts.find(launch.kernel);
  return found == parts.end() ? StepPart::kOther : found->second;
}

}  // namespace

// Products: less than the 798 TFLOP/s of a cold 8,192³ (cuBLASLt), since the board cannot sustain its clock at 700 W.
// Self-attention: cuDNN reaches 613 to 675 TFLOP/s (flash-attention, issue 1075). The rest is assumed.
const std::array<GpuRates, 3> kH100Rates = {{{.product_flops = 780e12,
                                              .self_attention_flops = 660e12,
                                              .other_attention_flops = 520e12,
                                              .split_attention_flops = 26e12,
                                              .bytes = 2.55e12,
                                              .launch_seconds = 1.0e-6},
                                             {.product_flops = 720e12,
                                              .self_attention_flops = 620e12,
                                              .other_attention_flops = 480e12,
                                              .split_attention_flops = 20e12,
                                              .bytes = 2.25e12,
                                              .launch_seconds = 1.5e-6},
                                             {.product_flops = 660e12,
                                              .self_attention_flops = 570e12,
                                              .other_attention_flops = 420e12,
                                              .split_attention_flops = 15e12,
                                              .bytes = 1.95e12,
                                              .launch_seconds = 2.0e-6}}};

std::string_view StepPartName(StepPart part) {
  constexpr std::array<std::string_view, kStepParts> kNames = {"products",
                                                               "gate logits",
                                                               "self-attention",
                                                               "attention to prompts and to sound",
                                                               "attention of sound to video",
                                                               "norms, rotations, residuals",
                                                               "head gates",
                                                               "copies, lookups, sampling",
                                                               "sound, beyond the video beside it",
                                                               "gaps between launches"};
  return kNames[static_cast<size_t>(part)];
}

double StepPrediction::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

absl::StatusOr<std::vector<Launch>> LaunchesOfStep(const TransformerConfig& config, const StepSize& size) {
  LaunchBackend backend;
  Arena arena = Arena::Dry(), host = Arena::Dry();
  const auto mesh = Mesh::Single();
  Exec exec{.backend = backend, .arena = arena, .host = host, .mesh = *mesh, .dtype = DType::kBF16};
  const WeightLoader weights = WeightLoader::Dry(*mesh, backend, DType::kBF16);
  KINORA_ASSIGN_OR_RETURN(const auto transformer, Transformer::Load(weights.Under("transformer"), config));
  const std::vector<float> sigmas = {1.0f, 0.5f};
  KINORA_ASSIGN_OR_RETURN(const VelocityModel model,
                          VelocityModel::Prepare(exec, *transformer, InputsOf(config, size, sigmas)));
  PerModality<LatentState> state{StateOf(config.video, size.video_tokens, model.rows().video),
                                 StateOf(config.audio, size.audio_tokens, model.rows().audio)};
  const bool guided = size.passes.size() > 1, fully = size.passes.size() > 2;
  const GuidanceScales scales{
      .cfg = guided ? 3.0 : 1.0, .stg = fully ? 1.0 : 0.0, .modality = fully ? 3.0 : 1.0, .rescale = guided ? 0.7 : 0};
  StepGraphs graphs;
  backend.Clear();
  KINORA_RETURN_IF_ERROR(Denoise(exec, model,
                                 {.passes = size.passes, .guidance = {scales, scales}, .sigmas = {1.0f, 0.5f, 0.0f}},
                                 graphs, state, [](int64_t) { return absl::OkStatus(); }));
  // A step ends by incrementing the index of the next one.
  const auto ends = [](const Launch& launch) { return launch.kernel == "increment"; };
  const std::vector<Launch>& all = backend.launches();
  const auto first = std::find_if(all.begin(), all.end(), ends);
  if (first == all.end()) return absl::InternalError("the loop has no step");
  const auto second = std::find_if(first + 1, all.end(), ends);
  if (second == all.end()) return absl::InternalError("the loop has one step only");
  return std::vector<Launch>(first + 1, second + 1);
}

StepPrediction PredictStep(absl::Span<const Launch> launches, const GpuRates& rates) {
  StepPrediction prediction;
  const auto at = [&](StepPart part) -> double& { return prediction.seconds[static_cast<size_t>(part)]; };
  for (size_t i = 0; i < launches.size();) {
    double beside = 0, along = 0;  // seconds of the section's branch and of the rest, without split attention
    int on_branch = 0, others = 0;
    for (const int section = launches[i].section; i < launches.size() && launches[i].section == section; ++i) {
      const Launch& launch = launches[i];
      const double seconds = SecondsOf(launch, rates);
      prediction.flop += launch.flop;
      ++prediction.launches;
      const bool fills = PartOf(launch) == StepPart::kSplitAttention;
      if (fills || !launch.on_branch) at(PartOf(launch)) += seconds;
      if (!fills) (launch.on_branch ? beside : along) += seconds;
      ++(launch.on_branch ? on_branch : others);
    }
    at(StepPart::kSound) += std::max(0.0, beside - along);
    at(StepPart::kGaps) += std::max(on_branch, others) * rates.launch_seconds;
  }
  return prediction;
}

absl::StatusOr<std::string> PredictionTables() {
  const PassList two = {Pass::kUncond, Pass::kCond};
  const PassList four = {Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated};
  KINORA_ASSIGN_OR_RETURN(const ModelConfig config, ReleasedModelConfig("ltx-2.3-22b"));
  std::string header = "| part, ms |", line = "|---|";
  std::array<std::string, kStepParts> rows;
  std::string sums = "| **sum** |", range = "| best to worst case |", rate = "| TFLOP/s |", count = "| launches |";
  for (const int64_t tokens : {6144, 15360}) {
    for (const PassList& passes : {two, four}) {
      KINORA_ASSIGN_OR_RETURN(
          const std::vector<Launch> launches,
          LaunchesOfStep(config.transformer,
                         {.video_tokens = tokens, .audio_tokens = 126, .passes = passes, .perturbed_blocks = {28}}));
      const StepPrediction likely = PredictStep(launches, kH100Rates[1]);
      const auto ms = [](double seconds) { return absl::StrFormat("%.0f", seconds * 1e3); };
      absl::StrAppendFormat(&header, " %d tokens, %d passes |", tokens, passes.size());
      line += "---:|";
      for (int i = 0; i < kStepParts; ++i) absl::StrAppendFormat(&rows[i], " %.1f |", likely.seconds[i] * 1e3);
      absl::StrAppend(&sums, " **", ms(likely.total()), "** |");
      absl::StrAppend(&range, " ", ms(PredictStep(launches, kH100Rates[0]).total()), " to ",
                      ms(PredictStep(launches, kH100Rates[2]).total()), " |");
      absl::StrAppend(&rate, " ", absl::StrFormat("%.0f", likely.flop / likely.total() / 1e12), " |");
      absl::StrAppend(&count, " ", likely.launches, " |");
    }
  }
  std::string table = absl::StrCat(header, "\n", line, "\n");
  for (int i = 0; i < kStepParts; ++i) {
    absl::StrAppend(&table, "| ", std::string(StepPartName(static_cast<StepPart>(i))), " |", rows[i], "\n");
  }
  for (const std::string& row : {sums, range, rate, count}) absl::StrAppend(&table, row, "\n");
  return table;
}

}  // namespace kinora
