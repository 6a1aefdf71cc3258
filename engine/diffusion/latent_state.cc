#include "engine/diffusion/latent_state.h"

#include <bit>
#include <map>

namespace kinora {

DistinctMask Distinguish(const std::vector<float>& mask) {
  DistinctMask d;
  if (mask.empty()) return {{1.0f}, {}};
  std::map<float, int32_t> seen;
  for (float m : mask) {
    const auto [it, added] = seen.try_emplace(m, static_cast<int32_t>(d.values.size()));
    if (added) d.values.push_back(m);
    d.row.push_back(it->second);
  }
  if (d.values.size() == 1) d.row.clear();
  d.values.resize(std::bit_ceil(d.values.size()), d.values.back());
  return d;
}

}  // namespace kinora
