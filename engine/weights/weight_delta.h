// What is added to a tensor of a checkpoint whenever it is read: a LoRA.
#ifndef KINORA_ENGINE_WEIGHTS_WEIGHT_DELTA_H_
#define KINORA_ENGINE_WEIGHTS_WEIGHT_DELTA_H_

#include "engine/tensor/tensor.h"
#include "engine/weights/tensor_source.h"

namespace kinora {

class WeightDelta {
 public:
  virtual ~WeightDelta() = default;
  // Of the whole delta: those of the tensor, whose dimensions but the first are columns.
  virtual int64_t rows() const = 0;
  virtual int64_t columns() const = 0;
  // values [block.rows, block.columns] f32 += this block of the delta. Called from several threads at once.
  virtual void AddTo(const Block& block, float* values) const = 0;
};

// strength · up · down for a tensor [out, in]; summed in float32 in the order of the rank, then added.
class LowRankDelta : public WeightDelta {
 public:
  // up [out, rank], down [rank, in] f32, in host memory that outlives this.
  LowRankDelta(const Tensor& up, const Tensor& down, float strength);
  int64_t rows() const override { return up_.dim(0); }
  int64_t columns() const override { return down_.dim(1); }
  void AddTo(const Block& block, float* values) const override;

 private:
  const Tensor up_, down_;
  const float strength_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_WEIGHT_DELTA_H_
