// Lists the plans of cuDNN that a run needs: ops without memory that note the calls which CudaOps would make.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDNN_LISTING_H_
#define KINORA_ENGINE_OPS_CUDA_CUDNN_LISTING_H_

#include <memory>
#include <set>

#include "engine/ops/cuda/cudnn_plans.h"
#include "engine/ops/one_time_work.h"

namespace kinora {

struct ListedPlans : OneTimeWork {
  std::set<CudnnPlans::Shape> shapes;
};

class CudnnListing : public ListingBackend {
 public:
  explicit CudnnListing(BackendTraits traits)
      : ListingBackend(std::move(traits)), ops_(plans_, *this->traits().weights, this->traits().unified_memory) {}
  DryOps& ops() override { return ops_; }
  DryOps* branch() override { return traits().branches ? &ops_ : nullptr; }
  std::shared_ptr<const OneTimeWork> Take() override { return plans_; }

 private:
  class ListingOps : public DryOps {
   public:
    ListingOps(std::shared_ptr<ListedPlans> plans, const WeightLayout& layout, bool unified_memory)
        : DryOps(layout, unified_memory), plans_(std::move(plans)) {}
    void Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                   Tensor out) override;
    void Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) override;

   private:
    const std::shared_ptr<ListedPlans> plans_;
  };

  const std::shared_ptr<ListedPlans> plans_ = std::make_shared<ListedPlans>();
  ListingOps ops_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDNN_LISTING_H_
