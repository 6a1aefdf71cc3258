#include "tests/testing/walled_backend.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/ops/cpu_backend.h"
#include "tests/testing/walled_memory.h"

namespace kinora {
namespace {

// The stream on which the CPU's ops and ranks in threads enqueue work. Callers' tensors have closed addresses.
class WalledStream : public CpuStream {
 public:
  explicit WalledStream(std::shared_ptr<const WalledMemory> memory) : memory_(std::move(memory)) {}

  Tensor Reach(const Tensor& t) const override {
    return Tensor(t.dtype(), t.shape(), memory_->Open(t.raw()), t.row_stride());
  }
  void Copy(const Tensor& from, Tensor to) override { CpuStream::Copy(Reach(from), Reach(to)); }
  void CopyFromHost(const void* host, Tensor to) override { CpuStream::CopyFromHost(host, Reach(to)); }
  void CopyToHost(const Tensor& from, void* host) override { CpuStream::CopyToHost(Reach(from), host); }
  Tensor HostSide(const Tensor& device, ArenaScope& host) const override {
    KINORA_CHECK(device.contiguous()) << device.shape().ToString();
    return host.Alloc(device.dtype(), device.shape());
  }

 private:
  const std::shared_ptr<const WalledMemory> memory_;
};

// Runs the CPU's ops on the open addresses of every tensor.
class WalledOps : public Ops {
 public:
  explicit WalledOps(std::unique_ptr<CpuOps> cpu) : cpu_(std::move(cpu)) {}

  CpuOps& cpu() { return *cpu_; }
  Stream& stream() override { return cpu_->stream(); }
  absl::StatusOr<std::vector<Weight>> PrepareWeights(const WeightRows& rows, const Tensor* bias, DType dtype) override {
    return cpu_->PrepareWeights(rows, bias, dtype);
  }
  using WeightOps::RewriteWeights;
  absl::Status RewriteWeights(const WeightRows& rows, DType dtype, absl::Span<WeightStorage* const> storage) override {
    return cpu_->RewriteWeights(rows, dtype, storage);
  }
  void Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) override {
    MatmulOptions open = options;
    open.gate = Open(options.gate);
    cpu_->Matmul(Open(x), w, open, Open(out));
  }
  void Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                 Tensor out) override {
    cpu_->Attention(Open(q), Open(k), Open(v), Open(options), Open(out));
  }
  void AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                       Tensor out) override {
    cpu_->AttentionChunks(Open(q), Open(k), Open(v), Open(options), Open(out));
  }
  void MergeChunks(const Tensor& chunks, Tensor out) override { cpu_->MergeChunks(Open(chunks), Open(out)); }
  void NeighbourhoodAttention(const Tensor& q, const Tensor& k, const Tensor& v, const NeighbourhoodOptions& o,
                              Tensor out) override {
    cpu_->NeighbourhoodAttention(Open(q), Open(k), Open(v), o, Open(out));
  }
  void RmsNorm(const Tensor& x, const Tensor* weight, float eps, Activation activation, Tensor out) override {
    const Tensor w = weight != nullptr ? Open(*weight) : Tensor();
    cpu_->RmsNorm(Open(x), weight != nullptr ? &w : nullptr, eps, activation, Open(out));
  }
  void LayerNorm(const Tensor& x, float eps, Tensor out) override { cpu_->LayerNorm(Open(x), eps, Open(out)); }
  void NormalizeRange(const Tensor& x, float scale, float eps, Tensor out) override {
    cpu_->NormalizeRange(Open(x), scale, eps, Open(out));
  }
  void GroupNorm(const Tensor& x, const GroupNormParams& params, Tensor out) override {
    cpu_->GroupNorm(Open(x), Open(params), Open(out));
  }
  void GroupNormThenSilu(const Tensor& x, const GroupNormParams& params, const Tensor* residual, Tensor out) override {
    const Tensor added = residual != nullptr ? Open(*residual) : Tensor();
    cpu_->GroupNormThenSilu(Open(x), Open(params), residual != nullptr ? &added : nullptr, Open(out));
  }
  void Modulate(const Tensor& x, const ScaleShift& m, Tensor out) override {
    cpu_->Modulate(Open(x), Open(m), Open(out));
  }
  void ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) override {
    cpu_->ModulatedRmsNorm(Open(x), Open(m), eps, Open(out));
  }
  void ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) override {
    cpu_->ModulatedLayerNorm(Open(x), Open(m), eps, Open(out));
  }
  void GatedAdd(const Tensor& y, const Gate& gate, Tensor x) override { cpu_->GatedAdd(Open(y), Open(gate), Open(x)); }
  void NormRope(Tensor x, const NormRopeParams& params, const Tensor* sum_of_squares) override {
    const Tensor sums = sum_of_squares != nullptr ? Open(*sum_of_squares) : Tensor();
    cpu_->NormRope(Open(x), Open(params), sum_of_squares != nullptr ? &sums : nullptr);
  }
  void QkNormRope(Tensor q, Tensor k, const NormRopeParams& q_params, const NormRopeParams& k_params) override {
    cpu_->QkNormRope(Open(q), Open(k), Open(q_params), Open(k_params));
  }
  void SumOfSquares(const Tensor& x, Tensor out) override { cpu_->SumOfSquares(Open(x), Open(out)); }
  void Activate(const Tensor& x, Activation activation, Tensor out) override {
    cpu_->Activate(Open(x), activation, Open(out));
  }
  void Add(const Tensor& y, Tensor x) override { cpu_->Add(Open(y), Open(x)); }
  void ActivateThenMultiply(const Tensor& gate, Activation activation, const Tensor& up, Tensor out) override {
    cpu_->ActivateThenMultiply(Open(gate), activation, Open(up), Open(out));
  }
  void GateHeads(const Tensor& logits, Tensor x) override { cpu_->GateHeads(Open(logits), Open(x)); }
  void Scale(const Tensor& x, float factor, Tensor out) override { cpu_->Scale(Open(x), factor, Open(out)); }
  void Affine(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor out) override {
    cpu_->Affine(Open(x), Open(scale), Open(shift), Open(out));
  }
  void Fill(float value, Tensor out) override { cpu_->Fill(value, Open(out)); }
  void GatherRows(const Tensor& table, const Tensor& ids, float factor, Tensor out) override {
    cpu_->GatherRows(Open(table), Open(ids), factor, Open(out));
  }
  void Increment(Tensor counters) override { cpu_->Increment(Open(counters)); }
  void TimestepEmbedding(const Tensor& t, Tensor out) override { cpu_->TimestepEmbedding(Open(t), Open(out)); }
  void RopeTable(const RopeAngles& angles, Tensor cos, Tensor sin) override {
    RopeAngles open = angles;
    open.fractions = Open(angles.fractions);
    open.frequencies = Open(angles.frequencies);
    cpu_->RopeTable(open, Open(cos), Open(sin));
  }
  void Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) override {
    cpu_->Conv(Open(x), w, options, Open(out));
  }
  void DepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, Tensor out) override {
    cpu_->DepthToSpace(Open(x), options, Open(out));
  }
  void SpaceToDepth(const Tensor& x, const SpaceToDepthOptions& options, Tensor out) override {
    cpu_->SpaceToDepth(Open(x), options, Open(out));
  }
  void RepeatNearest(const Tensor& x, const SpaceTime& factor, Tensor out) override {
    cpu_->RepeatNearest(Open(x), factor, Open(out));
  }
  void Blur(const Tensor& x, const Tensor& filter, int stride, Tensor out) override {
    cpu_->Blur(Open(x), Open(filter), stride, Open(out));
  }
  void AddTile(const Tensor& tile, const TileBlend& blend, Tensor sums) override {
    cpu_->AddTile(Open(tile), {Open(blend.weights), blend.row, blend.column}, Open(sums));
  }
  void FinishRgb8(const Tensor& sums, const Rgb8Options& options, Tensor rgb8) override {
    cpu_->FinishRgb8(Open(sums),
                     {Open(options.weights), Open(options.rgb), options.first_frame, Open(options.first_bad)},
                     Open(rgb8));
  }
  void Pointwise(const Tensor& x, const PointwiseFunction& function, Tensor out) override {
    cpu_->Pointwise(Open(x), function, Open(out));
  }
  void Snake(const Tensor& x, const AntiAliasedSnake& s, Tensor out) override {
    cpu_->Snake(Open(x), {Open(s.frequency), Open(s.amplitude), Open(s.up), Open(s.down)}, Open(out));
  }
  void Magnitude(const Tensor& x, Tensor out) override { cpu_->Magnitude(Open(x), Open(out)); }
  void PredictX0(const Tensor& z, const Tensor& v, const Tensor& sigma, Tensor x0) override {
    cpu_->PredictX0(Open(z), Open(v), Open(sigma), Open(x0));
  }
  void CombineGuidance(const Tensor& x0, const Tensor& weights, int cond, Tensor out) override {
    cpu_->CombineGuidance(Open(x0), Open(weights), cond, Open(out));
  }
  void EulerStep(const Tensor& x0, const Tensor& sigmas, Tensor z) override {
    cpu_->EulerStep(Open(x0), Open(sigmas), Open(z));
  }

 private:
  Tensor Open(const Tensor& t) const { return cpu_->stream().Reach(t); }
  Modulation Open(const Modulation& m) const { return {Open(m.table), Open(m.base), Open(m.row)}; }
  ScaleShift Open(const ScaleShift& m) const { return {Open(m.modulation), m.scale_slot, m.shift_slot}; }
  PixelWeights Open(const PixelWeights& w) const { return {Open(w.frames), Open(w.rows), Open(w.columns)}; }
  Gate Open(const Gate& gate) const { return {Open(gate.modulation), gate.slot}; }
  NormRopeParams Open(const NormRopeParams& params) const {
    NormRopeParams open = params;
    open.weight = Open(params.weight);
    const Rope& rope = params.rope;
    open.rope = {Open(rope.cos), Open(rope.sin), Open(rope.frame_cos), Open(rope.frame_sin)};
    return open;
  }
  GroupNormParams Open(const GroupNormParams& params) const {
    GroupNormParams open = params;
    open.weight = Open(params.weight);
    open.bias = Open(params.bias);
    return open;
  }
  AttentionOptions Open(const AttentionOptions& options) const {
    AttentionOptions open = options;
    open.bias = Open(options.bias);
    return open;
  }

  const std::unique_ptr<CpuOps> cpu_;
};

class WalledBackend : public Backend {
 public:
  WalledBackend(BackendTraits traits, std::shared_ptr<WalledMemory> memory, std::unique_ptr<CpuOps> cpu)
      : traits_(std::move(traits)), memory_(std::move(memory)), ops_(std::move(cpu)) {}

  const BackendTraits& traits() const override { return traits_; }
  MemoryLimit usable_memory() const override { return UsableMemory(); }
  Ops& ops() override { return ops_; }
  absl::StatusOr<Buffer> Allocate(int64_t bytes, std::string_view what) override {
    return memory_->Allocate(bytes, what);
  }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, std::string_view what) override {
    return Buffer::Allocate(bytes, what);
  }
  absl::StatusOr<Buffer> Upload(Buffer host, std::string_view what) override {
    KINORA_ASSIGN_OR_RETURN(Buffer device, memory_->Allocate(host.bytes(), what));
    ops_.stream().CopyFromHost(host.data(), device.View(DType::kU8, {host.bytes()}));
    KINORA_RETURN_IF_ERROR(ops_.stream().Synchronize());
    return device;
  }
  void RunOnHost(int64_t tasks, absl::FunctionRef<void(int64_t task)> task) override {
    ops_.cpu().RunOnHost(tasks, task);
  }

 private:
  const BackendTraits traits_;
  const std::shared_ptr<WalledMemory> memory_;
  WalledOps ops_;
};

}  // namespace

BackendTraits WalledTraits(const BackendOptions& options) {
  BackendTraits traits = TraitsOf("cpu", options).value();
  traits.device = "walled";
  traits.unified_memory = false;
  return traits;
}

absl::StatusOr<std::unique_ptr<Backend>> OpenWalledBackend(const BackendOptions& options) {
  KINORA_ASSIGN_OR_RETURN(std::shared_ptr<WalledMemory> memory, WalledMemory::Create());
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CpuOps> cpu,
                          CpuOps::Create(options.threads, std::make_unique<WalledStream>(memory)));
  return std::make_unique<WalledBackend>(WalledTraits(options), std::move(memory), std::move(cpu));
}

}  // namespace kinora
