#include "engine/config/upsampler_config.h"

#include <string>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/config/config_fields.h"
#include "engine/weights/json_text.h"

namespace kinora {
namespace {

constexpr std::string_view kDiffusersClass = "LTX2LatentUpsamplerModel";

// Accepts the scales for which the reference has a fraction (spatial_rational_resampler.py).
void ReadScale(const ConfigFields& f, std::string_view key, UpsamplerConfig* c) {
  double scale = 2.0;
  f.Read(key, &scale, Range{0.1, 10.0});
  if (!c->rational) {
    if (scale != 2.0) f.Problem(key, "is not 2, which needs the rational resampler");
    return;
  }
  constexpr struct {
    double scale;
    int up, down;
  } kFractions[] = {{0.75, 3, 4}, {1.5, 3, 2}, {2.0, 2, 1}, {4.0, 4, 1}};
  for (const auto& [known, up, down] : kFractions) {
    if (scale != known) continue;
    c->space_up = up;
    c->space_down = down;
    return;
  }
  f.Problem(key, "must be 0.75, 1.5, 2 or 4");
}

UpsamplerConfig ReadFields(const ConfigFields& f) {
  UpsamplerConfig c;
  const bool diffusers = f.Choose("_class_name", {"LatentUpsampler", kDiffusersClass}, 0) == 1;
  if (diffusers) {  // different defaults
    c.mid_channels = 1024;
    c.rational = true;
  }
  f.Read("in_channels", &c.latent_channels, kMaxWidth);
  f.Read("mid_channels", &c.mid_channels, kMaxWidth);
  f.Read("num_blocks_per_stage", &c.blocks, kMaxLayers);
  int64_t dims = 3;
  f.Read("dims", &dims, 3);
  if (dims == 1) f.Problem("dims", "must be 2 or 3");
  c.over_time = dims == 3;
  f.Read(diffusers ? "use_rational_resampler" : "rational_resampler", &c.rational);
  const bool space = f.Get("spatial_upsample", true), time = f.Get("temporal_upsample", false);
  if (!space && !time) f.Problem("spatial_upsample", "and temporal_upsample are both false");
  if (time && !c.over_time) f.Problem("dims", "must be 3 where temporal_upsample is true");
  c.time_up = time ? 2 : 1;
  c.space_up = space ? 2 : 1;
  c.rational = c.rational && space && !time;  // the reference uses fractions only for spatial upsampling
  if (space && !time) ReadScale(f, diffusers ? "rational_spatial_scale" : "spatial_scale", &c);
  if (c.mid_channels % UpsamplerConfig::kGroups != 0) {
    f.Problem("mid_channels", Cat("must be a multiple of ", UpsamplerConfig::kGroups));
  }
  if (c.mid_channels * c.parts() > kMaxWidth) {
    f.Problem("mid_channels", Cat("times ", c.parts(), " is more than ", kMaxWidth, " channels"));
  }
  return c;
}

// Returns the cells of a side before the upsampling. A multiple of the numerator comes from whole cells.
absl::StatusOr<int64_t> SideBefore(std::string_view name, int64_t wanted, const UpsamplerConfig& c) {
  if (wanted > 0 && wanted % c.space_up == 0) return wanted / c.space_up * c.space_down;
  return absl::InvalidArgumentError(Cat(
      name, ": ", wanted, " latent cells do not come out of this upsampler: must be a ", "multiple of ", c.space_up));
}

}  // namespace

Shape UpsamplerConfig::OutputShape(const Shape& latent) const {
  const auto side = [this](int64_t cells) { return (cells * space_up + space_down - 1) / space_down; };
  return {time_up * (latent[0] - 1) + 1, side(latent[1]), side(latent[2]), latent_channels};
}

absl::StatusOr<Shape> UpsamplerConfig::InputShape(const Shape& wanted) const {
  if (wanted[0] < 1 || (wanted[0] - 1) % time_up != 0) {
    return absl::InvalidArgumentError(
        Cat("num_frames: ", wanted[0], " latent frames do not come out of this upsampler: ", "must be a multiple of ",
            time_up, ", plus 1"));
  }
  KINORA_ASSIGN_OR_RETURN(const int64_t height, SideBefore("height", wanted[1], *this));
  KINORA_ASSIGN_OR_RETURN(const int64_t width, SideBefore("width", wanted[2], *this));
  return Shape{(wanted[0] - 1) / time_up + 1, height, width, latent_channels};
}

absl::StatusOr<UpsamplerConfig> ParseUpsamplerConfig(std::string_view json, std::string_view what) {
  KINORA_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseJsonText(json, what));
  ConfigProblems problems;
  const UpsamplerConfig config = ReadFields(ConfigFields(&parsed, std::string(what), &problems));
  KINORA_RETURN_IF_ERROR(problems.status());
  return config;
}

absl::StatusOr<UpsamplerConfig> ReadUpsamplerConfig(const Checkpoint& checkpoint, std::string_view component) {
  const auto found = checkpoint.upsampler_configs().find(component);
  if (found == checkpoint.upsampler_configs().end()) {
    return absl::NotFoundError(Cat("the model was given no ", component));
  }
  return ParseUpsamplerConfig(found->second, component);
}

}  // namespace kinora
