// The CUDA backend: cuBLASLt for products, cuDNN for attention and convolutions where it has an engine, the kernels of
// this tree for everything else. Each family of ops has its own file.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDA_OPS_H_
#define KINORA_ENGINE_OPS_CUDA_CUDA_OPS_H_

#include <memory>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/ops/cuda/clean_copies.h"
#include "engine/ops/cuda/cublaslt.h"
#include "engine/ops/cuda/cuda_memory.h"
#include "engine/ops/cuda/cuda_stream.h"
#include "engine/ops/cuda/cudnn_plans.h"
#include "engine/ops/cuda/fallbacks.h"
#include "engine/ops/cuda_switches.h"
#include "engine/ops/ops.h"
#include "engine/ops/thread_pool.h"
#include "kernels/sampling.h"

namespace kinora {

class CudaOps : public Ops {
 public:
  // Creates ops on the current device, with the switches cudnn, tuning, graphs and synchronize. `pool` reads weights
  // and must outlive the ops. Fails with ResourceExhausted if there is no room for the workspaces, or with
  // FailedPrecondition if a library is missing or too old; the message names it and says what to do.
  static absl::StatusOr<std::unique_ptr<CudaOps>> Create(ThreadPool& pool, Products::Options products,
                                                         const CudaSwitches& switches);

  // Returns ops with their own stream and workspaces that share plans and measurements with these.
  absl::StatusOr<std::unique_ptr<CudaOps>> Branch() const;

  // Builds plans of cuDNN, on all threads of the pool. Not in a capture.
  void BuildPlans(const std::set<CudnnPlans::Shape>& shapes) { cudnn_->Build(shapes, pool_); }

  CudaStream& stream() override { return *stream_; }
  CleanCopies& clean() { return clean_; }

  absl::StatusOr<std::vector<Weight>> PrepareWeights(const WeightRows& rows, const Tensor* bias, DType dtype) override;
  absl::Status RewriteWeights(const WeightRows& rows, DType dtype, absl::Span<WeightStorage* const> storage) override;
  absl::Status RewriteWeights(absl::Span<const Rewriting> many) override;
  bool adds_products() const override { return true; }
  absl::Status EvictWeight(const Weight& w) override;
  void FetchWeight(const Weight& w, const Tensor& memory) override;
  void Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) override;
  void Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                 Tensor out) override;
  void AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                       Tensor out) override;
  void MergeChunks(const Tensor& chunks, Tensor out) override;
  void NeighbourhoodAttention(const Tensor& q, const Tensor& k, const Tensor& v, const NeighbourhoodOptions& o,
                              Tensor out) override;
  void MergeChunksThenGateHeads(const Tensor& chunks, const Tensor& logits, Tensor out) override;
  void RmsNorm(const Tensor& x, const Tensor* weight, float eps, Activation activation, Tensor out) override;
  void LayerNorm(const Tensor& x, float eps, Tensor out) override;
  void NormalizeRange(const Tensor& x, float scale, float eps, Tensor out) override;
  void GroupNorm(const Tensor& x, const GroupNormParams& params, Tensor out) override;
  void GroupNormThenSilu(const Tensor& x, const GroupNormParams& params, const Tensor* residual, Tensor out) override;
  void Modulate(const Tensor& x, const ScaleShift& m, Tensor out) override;
  void ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) override;
  void ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) override;
  void GatedAdd(const Tensor& y, const Gate& gate, Tensor x) override;
  void AddThenNorms(const Tensor& y, const ResidualUpdate& update) override;
  void MatmulThenNorms(const Tensor& x, const Weight& w, const ResidualUpdate& update) override;
  void NormRope(Tensor x, const NormRopeParams& params, const Tensor* sum_of_squares) override;
  void QkNormRope(Tensor q, Tensor k, const NormRopeParams& q_params, const NormRopeParams& k_params) override;
  void QkNormRopeToBlocks(const QkvParts& parts, Tensor blocks) override;
  void SumOfSquares(const Tensor& x, Tensor out) override;
  void Activate(const Tensor& x, Activation activation, Tensor out) override;
  void Add(const Tensor& y, Tensor x) override;
  void ActivateThenMultiply(const Tensor& gate, Activation activation, const Tensor& up, Tensor out) override;
  void GateHeads(const Tensor& logits, Tensor x) override;
  void ReplaceRowsThenGateHeads(const Tensor& values, int64_t first, const Tensor& logits, Tensor x) override;
  void JoinBlocksThenGateHeads(const HeadBlocks& from, const Tensor* logits, Tensor x) override;
  void Scale(const Tensor& x, float factor, Tensor out) override;
  void Affine(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor out) override;
  void Fill(float value, Tensor out) override;
  void GatherRows(const Tensor& table, const Tensor& ids, float factor, Tensor out) override;
  void Increment(Tensor counters) override;
  void TimestepEmbedding(const Tensor& t, Tensor out) override;
  void RopeTable(const RopeAngles& angles, Tensor cos, Tensor sin) override;
  void Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) override;
  void DepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, Tensor out) override;
  void SpaceToDepth(const Tensor& x, const SpaceToDepthOptions& options, Tensor out) override;
  void RepeatNearest(const Tensor& x, const SpaceTime& factor, Tensor out) override;
  void Blur(const Tensor& x, const Tensor& filter, int stride, Tensor out) override;
  void AddTile(const Tensor& tile, const TileBlend& blend, Tensor sums) override;
  void FinishRgb8(const Tensor& sums, const Rgb8Options& options, Tensor rgb8) override;
  void Pointwise(const Tensor& x, const PointwiseFunction& function, Tensor out) override;
  void Snake(const Tensor& x, const AntiAliasedSnake& snake, Tensor out) override;
  void SnakeThenConv(const Tensor& x, const AntiAliasedSnake& snake, const Weight& w, const ConvAxis& time,
                     Accumulate accumulate, Tensor bent, Tensor out) override;
  void Magnitude(const Tensor& x, Tensor out) override;
  void PredictX0(const Tensor& z, const Tensor& v, const Tensor& sigma, Tensor x0) override;
  void CombineGuidance(const Tensor& x0, const Tensor& weights, int cond, Tensor out) override;
  void EulerStep(const Tensor& x0, const Tensor& sigmas, Tensor z) override;
  void GuidedEulerStep(const Prediction& prediction, const Tensor& sigmas, Tensor z) override;

 private:
  // Memory for rows of weights on their way to the device, one for each thread of the pool: pinned memory, kept for the
  // next weight. Rows that are not stored as they are read also pass through an equal part of the scratch memory.
  struct Staging {
    Staging() = default;
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging();
    Buffer pinned;
    cudaEvent_t left = nullptr;  // recorded after the last copy from `pinned`
  };

  CudaOps(std::unique_ptr<CudaStream> stream, ThreadPool& pool) : stream_(std::move(stream)), pool_(pool) {}
  static absl::StatusOr<std::unique_ptr<CudaOps>> WithWorkspaces(ThreadPool& pool, const CudaSwitches& switches);
  // Whether x · wᵀ + bias is one call of the library that needs no scratch memory.
  bool IsOneProduct(const Tensor& x, const Weight& w, const Tensor& out) const;
  absl::Status RunProduct(const Product& product) {
    return products_->Run(product, product_workspace_, stream_->handle());
  }
  absl::Status RunMatmul(const Tensor& x, const Weight& w, const MatmulOptions& options, const Tensor& out);
  absl::Status MatmulRows(const Tensor& rows, const Weight& w, const MatmulOptions& options, int64_t gate_row,
                          const Tensor& out);
  absl::Status AddGated(const Tensor& x, const Weight& w, const MatmulOptions& options, int64_t gate_row,
                        Scratch& scratch, const Tensor& out);
  // out (=, +=) activation(x · wᵀ + bias): x has w's dtype; not gated. Takes [out.rows, w.out] f32 of scratch memory
  // if the library has no epilogue for it.
  absl::Status Multiply(const Tensor& x, const Weight& w, const MatmulOptions& options, Scratch& scratch,
                        const Tensor& out);
  class CudnnConv;
  absl::Status RunConv(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out);
  absl::Status ConvByProducts(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out);
  // out (=, +=) activation(columns · wᵀ + bias), as many rows at a time as the scratch memory holds. fill writes
  // rows [first, first + columns.rows()): the [taps · channels] values under the taps, in w's dtype.
  using FillColumns = absl::FunctionRef<cudaError_t(int64_t first, const Tensor& columns)>;
  absl::Status MultiplyColumns(const Weight& w, const MatmulOptions& options, FillColumns fill, const Tensor& out);
  // residual: undefined if there is none.
  void RunGroupNorm(const char* op, const Tensor& x, const GroupNormParams& params, const Tensor& residual, bool silu,
                    const Tensor& out);
  void RunGuidedStep(const char* op, const Tensor& x0, kernels::GuidedStep step);
  absl::Status ReserveStaging(int64_t bytes);
  struct Run;
  absl::Status ReadRows(const WeightRows& rows, int64_t begin, int64_t end, absl::Span<const kernels::Rows> to,
                        const Tensor& landing);
  absl::Status LayOut(const WeightRows& rows, const Run& run, absl::Span<const kernels::Rows> to, int thread);
  class ProductSums;
  // Enqueues attention by cuDNN, or fails the stream. Returns false, and does neither, if products must compute it.
  bool AttendByCudnn(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                     const Tensor& out);
  void AttendByProducts(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                        const Tensor& out);
  struct ProductAttention;
  struct AttentionPart;
  absl::Status AttendPart(const ProductAttention& attention, const AttentionPart& part, int64_t member,
                          cudaStream_t stream);

  const std::unique_ptr<CudaStream> stream_;
  ThreadPool& pool_;
  CudaSwitches switches_;
  int device_ = 0;
  Buffer product_workspace_, scratch_;
  std::shared_ptr<CudnnPlans> cudnn_;
  std::shared_ptr<Fallbacks> fallbacks_;
  std::shared_ptr<Products> products_;
  std::vector<std::unique_ptr<Staging>> staging_;
  CleanCopies clean_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDA_OPS_H_
