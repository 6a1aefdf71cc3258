#include "engine/model/latent_normalizer.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace kinora {

absl::StatusOr<LatentNormalizer> LatentNormalizer::Load(WeightLoader& statistics, int64_t channels) {
  KINORA_ASSIGN_OR_RETURN(HostParameter std, statistics.LoadOnHost("std-of-means", {channels}));
  KINORA_ASSIGN_OR_RETURN(HostParameter mean, statistics.LoadOnHost("mean-of-means", {channels}));
  if (std.has_values()) {  // false in a dry run and after an error of the loader
    const float* sigma = std.tensor().data<float>();
    mean.Transform([&sigma](float m) { return -m / *sigma++; });
    std.Transform([](float s) { return 1 / s; });
  }
  LatentNormalizer normalizer;
  KINORA_ASSIGN_OR_RETURN(normalizer.scale_, statistics.Upload(std::move(std)));
  KINORA_ASSIGN_OR_RETURN(normalizer.shift_, statistics.Upload(std::move(mean)));
  return normalizer;
}

}  // namespace kinora
