// A weight as the CPU backend stores it. Internal to the CPU backend.
#ifndef KINORA_ENGINE_OPS_CPU_WEIGHT_H_
#define KINORA_ENGINE_OPS_CPU_WEIGHT_H_

#include "engine/ops/weight.h"
#include "engine/tensor/buffer.h"

namespace kinora {

struct CpuWeight : WeightStorage {
  Buffer panels;  // laid out as in PackedLayout
  Buffer bias;    // [out] f32, or empty

  static const CpuWeight& Of(const Weight& w) { return static_cast<const CpuWeight&>(*w.storage()); }
  const float* bias_at(int64_t column) const {
    return bias.data() == nullptr ? nullptr : static_cast<const float*>(bias.data()) + column;
  }
  int64_t bytes() const override { return panels.bytes() + bias.bytes(); }
};

// f32 and bf16, as this machine's kernels pack them.
const WeightLayout& CpuWeightLayout();

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CPU_WEIGHT_H_
