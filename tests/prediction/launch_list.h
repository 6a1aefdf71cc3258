// The kernels and library calls that the CUDA backend launches for given work, with their shapes and bytes, without a
// device: ops without memory that list what CudaOps would launch. tests/model/block_kernels_test.cc compares the list
// of a transformer block with the graph that CudaOps captures.
#ifndef KINORA_TESTS_PREDICTION_LAUNCH_LIST_H_
#define KINORA_TESTS_PREDICTION_LAUNCH_LIST_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/ops/dry_backend.h"

namespace kinora {

struct Launch {
  // A kernel's file in kernels/, "product" (cuBLASLt), "attention" (cuDNN) or "copy" (the runtime's or copy_rows).
  std::string_view kernel;
  int64_t m = 0, n = 0,
          k = 0;           // of a product, or of the logits of all heads and batches together: queries, keys, width
  bool to_itself = false;  // attention with as many queries as keys
  double flop = 0;
  int64_t bytes = 0;       // each operand once
  bool on_branch = false;  // of the graph: beside the launches of its section that are not
  int section = 0;         // between two forks or joins
};

// Lists the launches of bfloat16 models on one device. Work whose launches it does not know (convolutions, sound)
// appears as one launch per op.
class LaunchOps : public DryOps, private DryListener {
 public:
  LaunchOps(std::vector<Launch>& list, int& section, bool is_branch);

  void Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) override;
  void Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                 Tensor out) override;
  void AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                       Tensor out) override;
  void MergeChunks(const Tensor& chunks, Tensor out) override;
  void MergeChunksThenGateHeads(const Tensor& chunks, const Tensor& logits, Tensor out) override;
  void RmsNorm(const Tensor& x, const Tensor* weight, float eps, Activation activation, Tensor out) override;
  void LayerNorm(const Tensor& x, float eps, Tensor out) override;
  void Modulate(const Tensor& x, const ScaleShift& m, Tensor out) override;
  void ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) override;
  void ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) override;
  void GatedAdd(const Tensor& y, const Gate& gate, Tensor x) override;
  void AddThenNorms(const Tensor& y, const ResidualUpdate& update) override;
  void MatmulThenNorms(const Tensor& x, const Weight& w, const ResidualUpdate& update) override;
  void NormRope(Tensor x, const NormRopeParams& params, const Tensor* sum_of_squares) override;
  void QkNormRope(Tensor q, Tensor k, const NormRopeParams& q_params, const NormRopeParams& k_params) override;
  void QkNormRopeToBlocks(const QkvParts& parts, Tensor blocks) override;
  void ReplaceRowsThenGateHeads(const Tensor& values, int64_t first, const Tensor& logits, Tensor x) override;
  void JoinBlocksThenGateHeads(const HeadBlocks& from, const Tensor* logits, Tensor x) override;
  void Increment(Tensor counters) override;
  void GuidedEulerStep(const Prediction& prediction, const Tensor& sigmas, Tensor z) override;

 private:
  void OnCount(OpKind kind, double flops, int64_t bytes) override;
  void OnFork() override { ++section_; }
  void OnJoin() override { ++section_; }
  // Lists what `op` counts as launches of `kernel`.
  void As(std::string_view kernel, absl::FunctionRef<void()> op);
  // Lists what `op` counts as nothing, then a launch of `kernel` that reads and writes `bytes`.
  void AsOne(std::string_view kernel, int64_t bytes, absl::FunctionRef<void()> op);
  void Add(Launch launch);
  void AddProduct(int64_t rows, const Weight& w, int64_t result_bytes);

  std::vector<Launch>& list_;
  int& section_;
  const bool is_branch_;
  std::string_view kernel_;  // of what is counted now; empty: by the kind of op
  bool unlisted_ = false;
};

// A device of Hopper's size without memory.
class LaunchBackend : public DryBackend {
 public:
  LaunchBackend();
  LaunchOps& ops() override { return ops_; }
  LaunchOps* branch() override { return &branch_; }

  const std::vector<Launch>& launches() const { return launches_; }
  void Clear() { launches_.clear(); }

 private:
  std::vector<Launch> launches_;
  int section_ = 0;
  LaunchOps ops_, branch_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_PREDICTION_LAUNCH_LIST_H_
