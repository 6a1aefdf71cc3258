// The diffusion decoder in the metadata: `vae` with _class_name "CausalDiffusionVAE" and the section `decoder`
// (ltx_core/model/video_vae/model_configurator.py). The reference has defaults for the lists of stages, but no file has
// such stages, so an absent list is an error.
#include <algorithm>

#include "engine/config/config_sections.h"

namespace kinora {
namespace {

using Stage = DiffusionDecoderConfig::Stage;
using Extents = DiffusionDecoderConfig::Extents;

constexpr size_t kStages = 5;  // with the denoiser
constexpr int64_t kMaxWindow = 31;
constexpr int64_t kMaxDecoderWidth = kMaxWidth / 8;  // the gate and the other half of the MLP are side by side
constexpr int64_t kHeadMultiple = 8, kMinDecoderHead = 16, kMaxDecoderHead = 128;  // each axis needs pairs to turn

bool ReadExtents(const nlohmann::json& from, int64_t max, Extents* to) {
  if (!from.is_array() || from.size() != to->size()) return false;
  for (size_t i = 0; i < to->size(); ++i) {
    if (!from[i].is_number_integer() || from[i] < 1 || from[i] > max) return false;
    (*to)[i] = from[i];
  }
  return true;
}

bool IsWindow(const Extents& window) {
  return std::all_of(window.begin(), window.end(), [](int64_t extent) { return extent % 2 == 1; });
}

// Returns the list of `count` entries, or null after noting a problem.
const nlohmann::json* ListOf(const ConfigFields& f, std::string_view key, size_t count) {
  const nlohmann::json* const list = f.Find(key);
  if (list != nullptr && list->is_array() && list->size() == count) return list;
  f.Problem(key, Cat("must be a list of ", count, " entries"));
  return nullptr;
}

void ReadWindows(const ConfigFields& f, std::vector<Stage>& stages) {
  const nlohmann::json* const windows = ListOf(f, "stage_kernels", stages.size());
  for (size_t i = 0; windows != nullptr && i < stages.size(); ++i) {
    if (!ReadExtents((*windows)[i], kMaxWindow, &stages[i].window) || !IsWindow(stages[i].window)) {
      f.Problem("stage_kernels", Cat(ShortText((*windows)[i]), " is not three odd numbers up to ", kMaxWindow));
    }
  }
  if (!f.Has("stage5_kernel")) return f.Problem("stage5_kernel", "is missing");
  if (!ReadExtents(*f.Find("stage5_kernel"), kMaxWindow, &stages.back().window) || !IsWindow(stages.back().window)) {
    f.Problem("stage5_kernel", Cat("must be three odd numbers up to ", kMaxWindow));
  }
  if (stages.front().window[0] == 1) f.Problem("stage_kernels", "the first stage needs a window over time");
}

// Reads [[stride, reduction], …] and checks that each upsampling gives the next stage's width. Returns the width of the
// last one's result.
int64_t ReadUpsamples(const ConfigFields& f, std::vector<Stage>& stages) {
  const nlohmann::json* const list = ListOf(f, "upsamples", stages.size() - 1);
  int64_t width = 0;
  for (size_t i = 0; list != nullptr && i + 1 < stages.size(); ++i) {
    const nlohmann::json& entry = (*list)[i];
    const bool is_pair = entry.is_array() && entry.size() == 2 && entry[1].is_number_integer() && entry[1] >= 1;
    if (!is_pair || !ReadExtents(entry[0], 2, &stages[i].stride)) {
      f.Problem("upsamples", Cat(ShortText(entry), " is not [[1 or 2, three times], reduction]"));
      return 0;
    }
    const int64_t reduction = entry[1];
    width = stages[i].width / reduction;
    if (stages[i].width % reduction != 0 || width != stages[i + 1].width) {
      f.Problem("upsamples", Cat(stages[i].width, " channels divided by ", reduction, " are not the ",
                                 stages[i + 1].width, " of the next stage"));
      return 0;
    }
  }
  return width;
}

std::vector<Stage> ReadWidthsAndDepths(const ConfigFields& f) {
  std::vector<int64_t> widths, depths;
  f.Read("stage_channels", &widths, kMaxDecoderWidth);
  f.Read("stage_depths", &depths, kMaxLayers);
  for (const auto& [key, list] : {std::pair("stage_channels", &widths), {"stage_depths", &depths}}) {
    if (list->size() != kStages) f.Problem(key, Cat("must be a list of ", kStages, " numbers"));
  }
  std::vector<Stage> stages(kStages);
  if (!f.problems().ok()) return stages;
  for (size_t i = 0; i < kStages; ++i) {
    stages[i].width = widths[i];
    stages[i].blocks = depths[i];
  }
  return stages;
}

// Pictures grow by the same factor in height and width.
void CheckSides(const ConfigFields& f, const std::vector<Stage>& stages) {
  int64_t height = 1, width = 1;
  for (const Stage& stage : stages) {
    height *= stage.stride[1];
    width *= stage.stride[2];
  }
  if (height != width) f.Problem("upsamples", Cat("heights grow by ", height, " and widths by ", width));
}

}  // namespace

DiffusionDecoderConfig ReadDiffusionDecoder(const ConfigFields& vae, VideoDecoderConfig* common) {
  const ConfigFields f = vae.Has("decoder") ? vae.Object("decoder") : vae;
  DiffusionDecoderConfig d;
  vae.Read("latent_channels", &common->latent_channels, kMaxWidth);
  f.Read("in_channels", &common->latent_channels, kMaxWidth);
  f.Read("out_channels", &common->out_channels, 64);
  f.Read("patch_size", &common->patch_size, 64);
  f.Require("resampler_kind", "linear");
  f.Read(f.Has("head_dim") ? "head_dim" : "na_head_dim", &d.head_width, kMaxDecoderHead);
  if (d.head_width % kHeadMultiple != 0 || d.head_width < kMinDecoderHead) {
    f.Problem("head_dim", Cat(d.head_width, " is not a multiple of 8 from 16 on"));
  }
  std::vector<Stage> stages = ReadWidthsAndDepths(f);
  if (!f.problems().ok()) return d;
  ReadWindows(f, stages);
  d.context_width = ReadUpsamples(f, stages);
  f.Read("stage5_channels", &stages.back().width, kMaxDecoderWidth);
  for (const Stage& stage : stages) {
    if (stage.width % d.head_width != 0) {
      f.Problem("stage_channels", Cat(stage.width, " is not a multiple of head_dim ", d.head_width));
    }
  }
  CheckSides(f, stages);
  d.denoiser = stages.back();
  stages.pop_back();
  d.stages = std::move(stages);
  f.Read("t_emb_dim", &d.timestep_width, kMaxWidth);
  f.Read("timestep_scale_multiplier", &d.timestep_scale, kTimestepScale);
  f.Read("default_num_inference_steps", &d.steps, kMaxSteps);
  d.predicts_velocity = vae.Choose("model_output_type", {"v", "x0"}, 0) == 0;
  return d;
}

}  // namespace kinora
