#include "engine/model/neighbourhood_block.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr float kEps = 1e-6f;
constexpr int64_t kMlpElements = int64_t{1} << 27;  // of the MLP's hidden rows that exist at once
constexpr int kNormSlots = 4;                       // scale and shift of norm1, of norm2

// The rows of scale_shift_table and of the timestep's modulation that the norms use; the others were gates.
constexpr int kUsedSlots[kNormSlots] = {0, 1, 3, 4};

bool HaveValues(std::initializer_list<const HostParameter*> parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [](const HostParameter* p) { return p->has_values(); });
}

// Uploads a tensor that `fill` computes, unless its sources have no values.
absl::StatusOr<Parameter> UploadFilled(WeightLoader& weights, bool filled, const Shape& shape,
                                       absl::FunctionRef<void(float*)> fill) {
  if (!filled) return weights.Upload(HostParameter("norms", DType::kF32, shape, Buffer::Dry(shape.elements() * 4)));
  KINORA_ASSIGN_OR_RETURN(HostParameter made, HostParameter::Allocate("norms", DType::kF32, shape));
  fill(made.tensor().data<float>());
  return weights.Upload(std::move(made));
}

// Loads a head's norm weights in the order that NormRope reads: first members of all pairs, then second ones.
absl::StatusOr<Parameter> LoadHeadNorm(WeightLoader& weights, std::string_view name, int64_t width) {
  KINORA_ASSIGN_OR_RETURN(const HostParameter in_file, weights.LoadOnHost(name, {width}));
  return UploadFilled(weights, in_file.has_values(), {width}, [&](float* to) {
    const float* const from = in_file.tensor().data<float>();
    for (int64_t i = 0; i < width; ++i) to[i] = from[i % (width / 2) * 2 + i / (width / 2)];
  });
}

absl::StatusOr<Parameter> LoadGate(WeightLoader& weights, std::string_view name, int64_t width) {
  if (!weights.Has(name)) return Parameter();
  KINORA_ASSIGN_OR_RETURN(const HostParameter gate, weights.LoadOnHost(name, {width}));
  return UploadFilled(weights, gate.has_values(), {1, 1, width},
                      [&](float* to) { std::copy_n(gate.tensor().data<float>(), width, to); });
}

}  // namespace

absl::StatusOr<NeighbourhoodBlock> NeighbourhoodBlock::Load(WeightLoader weights, const Options& options) {
  NeighbourhoodBlock block;
  block.options_ = options;
  const int64_t width = options.width, head = options.head_width;
  WeightLoader attention = weights.Under("attn");
  const ConvSpec qkv{.out = 3 * width, .in = width, .kernel = {}, .order = {.paired = 2 * width, .head_width = head}};
  KINORA_ASSIGN_OR_RETURN(block.qkv_, attention.LoadConv("qkv", qkv));
  KINORA_ASSIGN_OR_RETURN(block.proj_, attention.LoadWeight({"proj"}, {.out = width, .in = width}));
  KINORA_ASSIGN_OR_RETURN(block.q_norm_, LoadHeadNorm(attention, "q_norm.weight", head));
  KINORA_ASSIGN_OR_RETURN(block.k_norm_, LoadHeadNorm(attention, "k_norm.weight", head));
  const int64_t hidden = DiffusionDecoderConfig::HiddenWidth(width);
  KINORA_ASSIGN_OR_RETURN(block.gate_up_,
                          weights.LoadWeight({"mlp.w_gate", "mlp.w_up"}, {.out = hidden, .in = width, .bias = false}));
  KINORA_ASSIGN_OR_RETURN(block.down_, weights.LoadWeight({"mlp.w_down"}, {.out = width, .in = hidden, .bias = false}));
  KINORA_ASSIGN_OR_RETURN(block.gate_attention_, LoadGate(weights, "gate_msa", width));
  KINORA_ASSIGN_OR_RETURN(block.gate_mlp_, LoadGate(weights, "gate_mlp", width));
  KINORA_RETURN_IF_ERROR(block.LoadNorms(weights));
  if (options.context_width == 0) return block;
  KINORA_ASSIGN_OR_RETURN(block.context_proj_,
                          weights.LoadWeight({"context_proj"}, {.out = width, .in = options.context_width}));
  KINORA_ASSIGN_OR_RETURN(block.gate_context_, LoadGate(weights, "gate_ctx", width));
  return block;
}

absl::Status NeighbourhoodBlock::LoadNorms(WeightLoader& weights) {
  const int64_t width = options_.width;
  KINORA_ASSIGN_OR_RETURN(const HostParameter norm1, weights.LoadOnHost("norm1.weight", {width}));
  KINORA_ASSIGN_OR_RETURN(const HostParameter norm2, weights.LoadOnHost("norm2.weight", {width}));
  const bool filled = HaveValues({&norm1, &norm2});
  const auto both = [&](float add) {
    return [&, add](float* to) {
      for (const HostParameter* norm : {&norm1, &norm2}) {
        for (int64_t i = 0; i < width; ++i) *to++ = norm->tensor().data<float>()[i] + add;
      }
    };
  };
  if (options_.context_width == 0) {  // x · (1 + (w − 1)) + 0
    const auto constant = [&](float* to) {
      std::fill_n(to, kNormSlots * width, 0.0f);
      for (int64_t i = 0; i < width; ++i) to[i] = norm1.tensor().data<float>()[i] - 1;
      for (int64_t i = 0; i < width; ++i) to[2 * width + i] = norm2.tensor().data<float>()[i] - 1;
    };
    KINORA_ASSIGN_OR_RETURN(norms_, UploadFilled(weights, filled, {1, kNormSlots, width}, constant));
    return absl::OkStatus();
  }
  KINORA_ASSIGN_OR_RETURN(weights_, UploadFilled(weights, filled, {2, width}, both(0)));
  KINORA_ASSIGN_OR_RETURN(weights_minus_1_, UploadFilled(weights, filled, {2, width}, both(-1)));
  KINORA_ASSIGN_OR_RETURN(const HostParameter table, weights.LoadOnHost("scale_shift_table", {kTimestepSlots, width}));
  const auto used = [&](float* to) {
    for (const int slot : kUsedSlots) to = std::copy_n(table.tensor().data<float>() + slot * width, width, to);
  };
  KINORA_ASSIGN_OR_RETURN(scale_shift_, UploadFilled(weights, table.has_values(), {kNormSlots, width}, used));
  return absl::OkStatus();
}

// Folds the norm weight into the scale: x w (1 + s) + t = x (1 + (s w + w − 1)) + t.
Modulation NeighbourhoodBlock::Norms(Exec& exec, ArenaScope& scope, const Tensor& timestep) const {
  if (options_.context_width == 0) return {.table = norms_};
  const int64_t width = options_.width;
  const Tensor table = scope.Alloc(DType::kF32, {kNormSlots, width});
  for (int i = 0; i < kNormSlots; ++i) {
    exec.ops.stream().Copy(timestep.Rows(kUsedSlots[i], kUsedSlots[i] + 1), table.Rows(i, i + 1));
  }
  exec.ops.Add(scale_shift_, table);
  for (int norm = 0; norm < 2; ++norm) {
    const Tensor scale = table.Rows(2 * norm, 2 * norm + 1);
    exec.ops.Affine(scale, weights_.tensor().Rows(norm, norm + 1), weights_minus_1_.tensor().Rows(norm, norm + 1),
                    scale);
  }
  return {.table = table.Reshape({1, kNormSlots, width})};
}

Gate NeighbourhoodBlock::GateOf(const Parameter& gate) const {
  return gate.tensor().defined() ? Gate{.modulation = {.table = gate}} : Gate{};
}

// x += gate ⊙ (W · from + b).
void NeighbourhoodBlock::Add(Exec& exec, const Tensor& from, const Weight& w, const Parameter& gate,
                             const Tensor& x) const {
  const bool gated = gate.tensor().defined();
  exec.ops.Matmul(from, w, {.accumulate = gated ? Accumulate::kGated : Accumulate::kAdd, .gate = GateOf(gate)}, x);
}

void NeighbourhoodBlock::Mlp(Exec& exec, const Tensor& normed, const Tensor& x) const {
  const int64_t hidden = down_.in(), rows = x.rows();
  const int64_t at_once = std::min(rows, std::max<int64_t>(1, kMlpElements / (2 * hidden)));
  ArenaScope scope(exec.arena);
  const Tensor memory = scope.Alloc(exec.dtype, {at_once, 2 * hidden});
  for (int64_t begin = 0; begin < rows; begin += at_once) {
    const int64_t end = std::min(rows, begin + at_once);
    const Tensor both = memory.Rows(0, end - begin), gate = both.Columns(0, hidden);
    exec.ops.Matmul(normed.Rows(begin, end), gate_up_, {}, both);
    exec.ops.ActivateThenMultiply(gate, Activation::kSilu, both.Columns(hidden, 2 * hidden), gate);
    Add(exec, gate, down_, gate_mlp_, x.Rows(begin, end));
  }
}

// The queries, keys and values of the frames that a slab needs. Frames are kept while a later slab reads them.
class NeighbourhoodBlock::Slabs {
 public:
  Slabs(const NeighbourhoodBlock& block, Exec& exec, const Run& run, const Tensor& x, ArenaScope& scope)
      : block_(block), exec_(exec), run_(run), x_(x.As2D()), frames_(x.dim(0)), height_(x.dim(1)), width_(x.dim(2)) {
    margin_ = run.border == DecoderBorder::kRepeat ? block.margin() : 0;
    plane_ = height_ * width_;
    wide_ = height_ * (width_ + 2 * margin_);
    window_ = std::min(block.options_.window[0], frames_);
    const int64_t channels = block.options_.width;
    slab_ = std::clamp<int64_t>(run.slab_elements / (plane_ * channels), 1, frames_);
    if (slab_ > kNeighbourhoodFrames) slab_ -= slab_ % kNeighbourhoodFrames;
    qkv_ =
        scope.Alloc(exec.dtype, {std::min(frames_, slab_ + window_ + kNeighbourhoodFrames - 2) * wide_, 3 * channels});
    normed_ = scope.Alloc(exec.dtype, {slab_ * plane_, channels});
    second_ = scope.Alloc(exec.dtype, {slab_ * plane_, channels});
    if (margin_ > 0) AllocWide(scope, channels);
  }

  absl::Status Run() {
    for (int64_t begin = 0; begin < frames_; begin += slab_) {
      KINORA_RETURN_IF_ERROR(run_.go_on());
      const int64_t end = std::min(frames_, begin + slab_);
      const int64_t first_key = KeyBegin(begin) / kNeighbourhoodFrames * kNeighbourhoodFrames,
                    last_key = KeyBegin(end - 1) + window_;
      Drop(first_key);
      while (ready_ < last_key) Prepare(std::min(last_key, ready_ + slab_));
      Attend(begin, end, last_key);
      block_.Mlp(exec_, second_.Rows(0, (end - begin) * plane_), Frames(begin, end));
    }
    return absl::OkStatus();
  }

 private:
  int64_t KeyBegin(int64_t frame) const {
    return std::clamp<int64_t>(frame - block_.options_.window[0] / 2, 0, frames_ - window_);
  }
  Tensor Frames(int64_t begin, int64_t end) const { return x_.Rows(begin * plane_, end * plane_); }
  Tensor Kept(int64_t begin, int64_t end) const {  // frames of the clip
    return qkv_.Rows((begin - first_) * wide_, (end - first_) * wide_);
  }

  void AllocWide(ArenaScope& scope, int64_t channels) {
    queries_ = scope.Alloc(exec_.dtype, {slab_ * plane_, channels});
    widened_ = scope.Alloc(exec_.dtype, {wide_, channels});
    widening_ = scope.Alloc(DType::kI32, {wide_});
    narrowing_ = scope.Alloc(DType::kI32, {plane_});
    std::vector<int32_t> widening, narrowing;
    const int64_t columns = width_ + 2 * margin_;
    for (int64_t i = 0; i < wide_ && !exec_.ops.dry(); ++i) {
      const int64_t column = i % columns - margin_;
      widening.push_back(static_cast<int32_t>(i / columns * width_ + std::clamp<int64_t>(column, 0, width_ - 1)));
      if (column >= 0 && column < width_) narrowing.push_back(static_cast<int32_t>(i));
    }
    exec_.ops.stream().CopyFromHost(widening.data(), widening_);
    exec_.ops.stream().CopyFromHost(narrowing.data(), narrowing_);
  }

  // Moves the frames from `first` on to the front. Frame by frame, because their old and new places may overlap.
  void Drop(int64_t first) {
    if (first == first_) return;
    for (int64_t frame = first; frame < ready_; ++frame) {
      const int64_t to = (frame - first) * wide_;
      exec_.ops.stream().Copy(Kept(frame, frame + 1), qkv_.Rows(to, to + wide_));
    }
    first_ = first;
  }

  // Computes queries, keys and values of the frames up to `end`, at most a slab.
  void Prepare(int64_t end) {
    const int64_t begin = std::exchange(ready_, end), channels = block_.options_.width;
    const Tensor x = Frames(begin, end), normed = normed_.Rows(0, (end - begin) * plane_);
    if (block_.options_.context_width > 0) {
      ArenaScope scope(exec_.arena);
      const Tensor context = scope.Alloc(exec_.dtype, {end - begin, height_, width_, block_.options_.context_width});
      run_.context(begin, end - begin, context);
      block_.Add(exec_, context.As2D(), block_.context_proj_, block_.gate_context_, x);
    }
    exec_.ops.ModulatedRmsNorm(x, {.modulation = run_.norms, .scale_slot = 0, .shift_slot = 1}, kEps, normed);
    const Tensor qkv = Kept(begin, end);
    if (margin_ == 0) {
      exec_.ops.Matmul(normed, block_.qkv_, {}, qkv);
    } else {
      for (int64_t i = 0; i < end - begin; ++i) {
        exec_.ops.GatherRows(normed.Rows(i * plane_, (i + 1) * plane_), widening_, 1.0f, widened_);
        exec_.ops.Matmul(widened_, block_.qkv_, {}, qkv.Rows(i * wide_, (i + 1) * wide_));
      }
    }
    const int64_t head = block_.options_.head_width;
    const auto params = [&](const Tensor& weight) {
      return NormRopeParams{
          .weight = weight, .eps = kEps, .group = head, .head_width = head, .rope = run_.rope.From(begin)};
    };
    exec_.ops.QkNormRope(qkv.Columns(0, channels), qkv.Columns(channels, 2 * channels), params(block_.q_norm_),
                         params(block_.k_norm_));
  }

  // x += proj(attention), and second_ = norm2(x), for the frames [begin, end).
  void Attend(int64_t begin, int64_t end, int64_t last_key) {
    const int64_t channels = block_.options_.width, head = block_.options_.head_width;
    const auto count = [](int64_t n) { return static_cast<int>(n); };
    const Tensor keys = Kept(first_, last_key), attended = normed_.Rows(0, (end - begin) * plane_);
    const auto& window = block_.options_.window;
    NeighbourhoodOptions options{.heads = count(channels / head),
                                 .scale = 1.0f / std::sqrt(static_cast<float>(head)),
                                 .grid = {count(last_key - first_), count(height_), count(width_ + 2 * margin_)},
                                 .window = {count(window[0]), count(window[1]), count(window[2])},
                                 .first = {.time = count(begin - first_), .height = 0, .width = count(margin_)},
                                 .queries = {count(end - begin), count(height_), count(width_)}};
    exec_.ops.NeighbourhoodAttention(Queries(begin, end), keys.Columns(channels, 2 * channels),
                                     keys.Columns(2 * channels, 3 * channels), options, attended);
    ResidualUpdate update{.x = Frames(begin, end), .gate = block_.GateOf(block_.gate_attention_), .eps = kEps};
    update.normed[0] = {.out = second_.Rows(0, (end - begin) * plane_),
                        .modulation = {.modulation = run_.norms, .scale_slot = 2, .shift_slot = 3}};
    exec_.ops.MatmulThenNorms(attended, block_.proj_, update);
  }

  Tensor Queries(int64_t begin, int64_t end) const {
    const Tensor queries = Kept(begin, end).Columns(0, block_.options_.width);
    if (margin_ == 0) return queries;
    for (int64_t i = 0; i < end - begin; ++i) {
      exec_.ops.GatherRows(queries.Rows(i * wide_, (i + 1) * wide_), narrowing_, 1.0f,
                           queries_.Rows(i * plane_, (i + 1) * plane_));
    }
    return queries_.Rows(0, (end - begin) * plane_);
  }

  const NeighbourhoodBlock& block_;
  Exec& exec_;
  const NeighbourhoodBlock::Run& run_;
  const Tensor x_;  // [frames · height · width, channels]
  const int64_t frames_, height_, width_;
  int64_t margin_, plane_, wide_, window_, slab_;  // plane_, wide_: positions of a frame, without and with the margins
  int64_t first_ = 0, ready_ = 0;                  // the clip's frames in qkv_
  Tensor qkv_, normed_, second_;
  Tensor queries_, widened_, widening_, narrowing_;  // only with margins
};

absl::Status NeighbourhoodBlock::Forward(Exec& exec, const Run& run, Tensor x) const {
  ArenaScope scope(exec.arena);
  return Slabs(*this, exec, run, x, scope).Run();
}

}  // namespace kinora
