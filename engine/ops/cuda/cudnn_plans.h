// A cache of cuDNN's plans by shape, bounded by the memory that they take.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDNN_PLANS_H_
#define KINORA_ENGINE_OPS_CUDA_CUDNN_PLANS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <variant>

#include "absl/status/statusor.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/thread_pool.h"

namespace kinora {

// Used by one thread at a time.
class CudnnPlans {
 public:
  using Plan = std::shared_ptr<const CudnnPlan>;
  using Shape = std::variant<CudnnAttention, CudnnConvolution>;

  // Keeps plans of up to `most_bytes`, and beyond that those which others hold.
  CudnnPlans(std::unique_ptr<Cudnn> cudnn, int64_t most_bytes) : cudnn_(std::move(cudnn)), most_bytes_(most_bytes) {}

  // Returns the plan; builds it when the shape first occurs, also in a capture, and then drops the least recently used
  // plans beyond the limit that nobody else holds. Who runs the plan holds it until its work is done
  // (CudaStream::Keep). Fails with Unimplemented, every time, if cuDNN has no engine for the shape; the caller must
  // compute it differently.
  absl::StatusOr<Plan> For(const Shape& shape);

  // Builds the plans of these shapes that are missing, on all threads; then as after For. What fails, fails again in
  // For. Not in a capture.
  void Build(const std::set<Shape>& shapes, ThreadPool& threads);

  int64_t bytes() const { return bytes_; }  // of all plans here, and so of all plans that exist
  size_t size() const { return recent_.size(); }

 private:
  struct Entry {
    Shape shape;
    absl::StatusOr<Plan> plan;
    int64_t bytes = 0;
  };
  absl::StatusOr<Plan> BuildOne(const Shape& shape) const;
  void Insert(const Shape& shape, absl::StatusOr<Plan> plan);
  void DropUnheld();

  const std::unique_ptr<Cudnn> cudnn_;
  const int64_t most_bytes_;
  int64_t bytes_ = 0;
  std::list<Entry> recent_;  // most recent first
  std::map<Shape, std::list<Entry>::iterator> by_shape_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDNN_PLANS_H_
