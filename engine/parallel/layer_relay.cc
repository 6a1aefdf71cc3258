#include "engine/parallel/layer_relay.h"

#include <algorithm>
#include <numeric>

namespace kinora {

LayerRelay::LayerRelay(const Mesh& mesh, absl::Span<const int64_t> sizes) {
  KINORA_CHECK(!sizes.empty()) << "a chain without layers";
  const int64_t ranks = mesh.world().size(), all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    KINORA_CHECK(size > 0) << "a layer of size " << size;
    owners_.push_back(static_cast<int>(begin * ranks / all));
    begin += size;
  }
  const auto [first, last] = std::equal_range(owners_.begin(), owners_.end(), mesh.world().rank());
  held_ = {first - owners_.begin(), last - owners_.begin()};
}

void LayerRelay::Run(Exec& exec, absl::Span<const Tensor> carried,
                     absl::FunctionRef<void(Exec& alone, int64_t layer)> layer) const {
  Exec alone{exec.backend, exec.arena, exec.host, *alone_, exec.dtype, exec.taps, exec.ops};
  const auto layers = static_cast<int64_t>(owners_.size());
  for (int64_t i = 0; i < layers; ++i) {
    if (held_.holds(i)) layer(alone, i);
    const bool passed_on = i + 1 == layers || owners_[i + 1] != owners_[i];
    for (const Tensor& tensor : carried) {
      if (passed_on) exec.mesh.world().Broadcast(owners_[i], tensor, exec.ops.stream());
    }
  }
}

}  // namespace kinora
