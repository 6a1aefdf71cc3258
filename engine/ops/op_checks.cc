#include "engine/ops/op_checks.h"

#include <string>

namespace kinora {
namespace {

std::string Names(const Tensor& a, const Tensor& b) { return a.shape().ToString() + " and " + b.shape().ToString(); }

}  // namespace

void CheckFloat(const Tensor& x) {
  KINORA_CHECK(x.defined()) << "a tensor is missing";
  KINORA_CHECK(x.dtype() == DType::kF32 || x.dtype() == DType::kBF16) << DTypeName(x.dtype());
}

void CheckSameShape(const Tensor& a, const Tensor& b) {
  CheckFloat(a);
  CheckFloat(b);
  KINORA_CHECK(a.rows() == b.rows() && a.width() == b.width()) << Names(a, b);
}

void CheckRowWidth(const Tensor& x) { KINORA_CHECK(x.width() <= kMaxRowWidth) << x.shape().ToString(); }

void CheckGroupNorm(const Tensor& x, const GroupNormParams& params, const Tensor* residual, const Tensor& out) {
  CheckSameShape(x, out);
  CheckRowWidth(x);
  KINORA_CHECK(params.groups > 0 && x.width() % params.groups == 0)
      << params.groups << " groups of " << x.shape().ToString();
  KINORA_CHECK(params.samples > 0 && x.rows() > 0 && x.rows() % params.samples == 0)
      << params.samples << " samples of " << x.shape().ToString();
  for (const Tensor& t : {params.weight, params.bias}) {
    KINORA_CHECK(t.dtype() == DType::kF32 && t.contiguous() && t.elements() == x.width()) << Names(t, x);
  }
  if (residual == nullptr) return;
  CheckSameShape(x, *residual);
  KINORA_CHECK(residual->dtype() == x.dtype()) << DTypeName(residual->dtype());
}

void CheckModulation(const Modulation& m, int slot, const Tensor& x) {
  KINORA_CHECK(m.table.shape().rank() == 3 && m.table.dtype() == DType::kF32) << m.table.shape().ToString();
  KINORA_CHECK(m.table.width() == x.width()) << Names(m.table, x);
  CheckRowWidth(x);
  KINORA_CHECK(slot >= 0 && slot < m.table.dim(1)) << "slot " << slot << " of " << m.table.shape().ToString();
  if (m.base.defined()) {
    KINORA_CHECK(m.base.dtype() == DType::kF32 && m.base.width() == x.width() && slot < m.base.rows())
        << "slot " << slot << " of " << Names(m.base, x);
  }
  if (m.row.defined()) {
    KINORA_CHECK(m.row.dtype() == DType::kI32) << DTypeName(m.row.dtype());
    KINORA_CHECK(m.row.elements() > 0 && x.rows() % m.row.elements() == 0) << Names(m.row, x);
  } else {
    KINORA_CHECK(m.table.dim(0) == 1) << m.table.shape().ToString() << " without rows";
  }
}

void CheckResidualUpdate(int64_t rows, int64_t width, const ResidualUpdate& update) {
  CheckFloat(update.x);
  const Tensor x = update.x.As2D();
  KINORA_CHECK(width == x.width() && rows <= x.rows())
      << rows << " rows of " << width << " for " << x.shape().ToString();
  if (update.gate.modulation.table.defined()) {
    CheckModulation(update.gate.modulation, update.gate.slot, x.Rows(0, rows));
  }
  for (const NormedOutput& normed : update.normed) {
    if (!normed.out.defined()) continue;
    KINORA_CHECK(normed.out.rows() <= x.rows()) << Names(normed.out, x);
    const Tensor from = x.Rows(0, normed.out.rows());
    CheckSameShape(from, normed.out);
    CheckRowWidth(from);
    const ScaleShift& m = normed.modulation;
    if (!m.modulation.table.defined()) continue;
    CheckModulation(m.modulation, m.scale_slot, from);
    CheckModulation(m.modulation, m.shift_slot, from);
  }
}

void CheckMatmul(const Tensor& x, const Weight& w, const MatmulOptions& options, const Tensor& out) {
  CheckFloat(x);
  CheckFloat(out);
  KINORA_CHECK(w.taps() == 1 && x.width() == w.in())
      << x.shape().ToString() << " times [" << w.out() << ", " << w.in() << "]";
  KINORA_CHECK(out.width() == w.out() && out.rows() == x.rows()) << Names(x, out) << " with " << w.out() << " columns";
  if (options.accumulate == Accumulate::kGated) CheckModulation(options.gate.modulation, options.gate.slot, out);
}

int64_t KeysThatCount(const Tensor& k, const AttentionOptions& options) {
  const int64_t keys = k.rows() / options.kv_batches;
  return options.key_length >= 0 ? options.key_length : keys;
}

void CheckAttention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  CheckFloat(q);
  CheckSameShape(k, v);
  const int kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  KINORA_CHECK(options.heads > 0 && options.heads % kv_heads == 0 && q.width() % options.heads == 0)
      << options.heads << " heads, " << kv_heads << " of keys, " << q.shape().ToString();
  const int64_t d = q.width() / options.heads;
  KINORA_CHECK(d % 8 == 0 && d <= kMaxHeadWidth && k.width() == kv_heads * d) << Names(q, k) << ", heads of " << d;
  KINORA_CHECK(options.scale > 0) << options.scale;
  KINORA_CHECK(options.batch >= 1 && options.batch <= kMaxBatch && q.rows() % options.batch == 0)
      << options.batch << " sequences in " << q.shape().ToString();
  KINORA_CHECK(options.kv_batches >= 1 && k.rows() % options.kv_batches == 0)
      << options.kv_batches << " sequences in " << k.shape().ToString();
  for (int b = 0; b < options.batch; ++b) {
    KINORA_CHECK(options.kv_batch[b] >= 0 && options.kv_batch[b] < options.kv_batches) << "kv_batch of " << b;
  }
  const int64_t queries = q.rows() / options.batch;
  const int64_t keys = k.rows() / options.kv_batches;
  KINORA_CHECK(options.key_length <= keys) << options.key_length << " of " << keys << " keys";
  if (options.bias.defined()) {
    KINORA_CHECK(options.bias.dtype() == DType::kF32 && options.bias.rows() == queries && options.bias.width() == keys)
        << options.bias.shape().ToString() << " for " << queries << " queries, " << keys << " keys";
  }
}

void CheckNeighbourhood(const Tensor& q, const Tensor& k, const Tensor& v, const NeighbourhoodOptions& o,
                        const Tensor& out) {
  CheckSameShape(q, out);
  CheckSameShape(k, v);
  KINORA_CHECK(o.heads > 0 && q.width() % o.heads == 0 && q.width() == k.width())
      << o.heads << " heads, " << Names(q, k);
  const int64_t d = q.width() / o.heads;
  KINORA_CHECK(d % 8 == 0 && d <= kMaxNeighbourhoodHeadWidth) << "heads of " << d;
  KINORA_CHECK(o.scale > 0) << o.scale;
  const auto check = [&](int grid, int window, int first, int queries) {
    KINORA_CHECK(window >= 1 && window % 2 == 1) << "a window of " << window;
    KINORA_CHECK(first >= 0 && queries >= 0 && first + queries <= grid)
        << "queries from " << first << ", " << queries << " in a grid of " << grid;
  };
  check(o.grid.time, o.window.time, o.first.time, o.queries.time);
  check(o.grid.height, o.window.height, o.first.height, o.queries.height);
  check(o.grid.width, o.window.width, o.first.width, o.queries.width);
  const auto positions = [](const SpaceTime& s) { return int64_t{s.time} * s.height * s.width; };
  KINORA_CHECK(k.rows() == positions(o.grid) && q.rows() == positions(o.queries)) << Names(q, k);
}

void CheckNormRope(const Tensor& x, const NormRopeParams& params, const Tensor* sum_of_squares) {
  CheckFloat(x);
  const int64_t group = params.group > 0 ? params.group : x.width();
  CheckRowWidth(x);
  KINORA_CHECK(x.width() % group == 0) << group << " columns in " << x.shape().ToString();
  if (params.weight.defined()) {
    KINORA_CHECK(params.group > 0) << "a weight without a group";
    KINORA_CHECK_EQ(params.weight.elements(), group);
  }
  if (sum_of_squares != nullptr) {
    KINORA_CHECK(sum_of_squares->dtype() == DType::kF32) << DTypeName(sum_of_squares->dtype());
    KINORA_CHECK_EQ(sum_of_squares->elements(), x.rows() * (x.width() / group));
  }
  const Rope& rope = params.rope;
  if (!rope.cos.defined()) return;
  KINORA_CHECK(params.head_width > 0 && params.head_width % 2 == 0 && x.width() % params.head_width == 0)
      << "heads of " << params.head_width << " in " << x.shape().ToString();
  CheckSameShape(rope.cos, rope.sin);
  KINORA_CHECK(rope.cos.width() == x.width() / 2 || rope.cos.width() == params.head_width / 2) << Names(rope.cos, x);
  KINORA_CHECK(rope.cos.rows() > 0 && x.rows() % rope.cos.rows() == 0) << Names(rope.cos, x);
  if (!rope.frame_cos.defined()) return;
  CheckSameShape(rope.frame_cos, rope.frame_sin);
  KINORA_CHECK(params.head_width <= kMaxNeighbourhoodHeadWidth && rope.cos.width() == params.head_width / 2)
      << Names(rope.cos, x);
  KINORA_CHECK(rope.frame_cos.width() <= rope.cos.width() && rope.frame_cos.rows() * rope.cos.rows() >= x.rows() &&
               rope.frame_cos.contiguous())
      << Names(rope.frame_cos, x);
}

void CheckQkvBlocks(const QkvParts& parts, const Tensor& blocks) {
  const Tensor& v = parts.v;
  for (const Tensor& part : {parts.q, parts.k}) {
    CheckSameShape(part, v);
    KINORA_CHECK(part.dtype() == v.dtype()) << DTypeName(part.dtype());
  }
  KINORA_CHECK(blocks.shape().rank() == 4 && blocks.contiguous() && blocks.dtype() == v.dtype()) << Names(blocks, v);
  KINORA_CHECK(blocks.dim(0) * blocks.dim(2) == v.rows() && blocks.dim(1) * blocks.dim(3) == 3 * v.width() &&
               blocks.dim(3) % 3 == 0)
      << Names(blocks, v);
}

void CheckHeadBlocks(const HeadBlocks& from, const Tensor* logits, const Tensor& x) {
  const Tensor &blocks = from.blocks, &values = from.values;
  CheckFloat(x);
  CheckRowWidth(x);
  KINORA_CHECK(blocks.shape().rank() == 4 && blocks.contiguous() && blocks.dtype() == x.dtype()) << Names(blocks, x);
  KINORA_CHECK(blocks.dim(1) * blocks.dim(3) == x.width() && from.first_block >= 0 &&
               from.first_block + blocks.dim(0) * blocks.dim(2) <= x.rows())
      << Names(blocks, x);
  if (values.defined()) {
    KINORA_CHECK(values.dtype() == x.dtype() && values.width() == x.width() && from.first_value >= 0 &&
                 from.first_value + values.rows() <= x.rows())
        << Names(values, x);
  }
  if (logits != nullptr) {
    KINORA_CHECK(logits->rows() == x.rows() && x.width() % logits->width() == 0) << Names(*logits, x);
  }
}

int64_t ConvExtent(int64_t extent, const ConvAxis& axis) {
  if (axis.padding == Padding::kReflect) {
    KINORA_CHECK(axis.before < extent && axis.after < extent) << "reflection of an axis of " << extent;
  }
  const int64_t span = extent + axis.before + axis.after - static_cast<int64_t>(axis.dilation) * (axis.kernel - 1) - 1;
  KINORA_CHECK(span >= 0) << "kernel " << axis.kernel << " on an axis of " << extent;
  return span / axis.stride + 1;
}

void CheckConv(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out) {
  CheckFloat(x);
  CheckFloat(out);
  KINORA_CHECK(x.shape().rank() == 4 && out.shape().rank() == 4) << Names(x, out);
  KINORA_CHECK_EQ(w.taps(), int64_t{1} * options.time.kernel * options.height.kernel * options.width.kernel);
  CheckRowWidth(x);
  KINORA_CHECK(x.width() == w.in() && out.width() == w.out()) << Names(x, out) << " by " << w.in() << " to " << w.out();
  KINORA_CHECK(out.dim(0) == ConvExtent(x.dim(0), options.time) && out.dim(1) == ConvExtent(x.dim(1), options.height) &&
               out.dim(2) == ConvExtent(x.dim(2), options.width))
      << Names(x, out);
  KINORA_CHECK(options.accumulate != Accumulate::kGated) << "a convolution has no gate";
}

void CheckDepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, const Tensor& out) {
  CheckFloat(x);
  CheckFloat(out);
  const SpaceTime& s = options.factor;
  KINORA_CHECK(x.shape().rank() == 4 && out.shape().rank() == 4 && x.width() % s.product() == 0) << Names(x, out);
  KINORA_CHECK(out.dim(0) == x.dim(0) * s.time - options.drop_first && out.dim(1) == x.dim(1) * s.height &&
               out.dim(2) == x.dim(2) * s.width)
      << Names(x, out);
  const int64_t channels = x.width() / s.product();
  KINORA_CHECK(out.width() == channels || (options.channels_outer && out.width() % channels == 0)) << Names(x, out);
  KINORA_CHECK(options.accumulate != Accumulate::kGated) << "depth-to-space has no gate";
}

void CheckSpaceToDepth(const Tensor& x, const SpaceToDepthOptions& options, const Tensor& out) {
  CheckFloat(x);
  CheckFloat(out);
  const SpaceTime& s = options.factor;
  KINORA_CHECK(x.shape().rank() == 4 && out.shape().rank() == 4) << Names(x, out);
  KINORA_CHECK(out.dim(0) * s.time == x.dim(0) + options.repeat_first && out.dim(1) * s.height == x.dim(1) &&
               out.dim(2) * s.width == x.dim(2))
      << Names(x, out);
  KINORA_CHECK(options.mean_of > 0 && out.width() * options.mean_of == x.width() * s.product())
      << Names(x, out) << " by means of " << options.mean_of;
  KINORA_CHECK(x.width() * s.product() <= kMaxRowWidth) << Names(x, out);
  KINORA_CHECK(options.accumulate != Accumulate::kGated) << "space-to-depth has no gate";
}

void CheckRepeatNearest(const Tensor& x, const SpaceTime& factor, const Tensor& out) {
  CheckFloat(x);
  KINORA_CHECK(x.shape().rank() == 4 && out.shape().rank() == 4 && x.dtype() == out.dtype()) << Names(x, out);
  KINORA_CHECK(x.contiguous() && out.contiguous()) << Names(x, out);
  KINORA_CHECK(out.dim(0) == x.dim(0) * factor.time && out.dim(1) == x.dim(1) * factor.height &&
               out.dim(2) == x.dim(2) * factor.width && out.width() == x.width())
      << Names(x, out);
}

void CheckBlur(const Tensor& x, const Tensor& filter, int stride, const Tensor& out) {
  CheckFloat(x);
  KINORA_CHECK(x.shape().rank() == 4 && out.shape().rank() == 4 && x.dtype() == out.dtype()) << Names(x, out);
  CheckRowWidth(x);
  KINORA_CHECK(filter.dtype() == DType::kF32 && filter.shape().rank() == 2 && filter.contiguous() &&
               filter.dim(0) == filter.dim(1) && filter.dim(0) % 2 == 1)
      << filter.shape().ToString();
  KINORA_CHECK(stride > 0 && out.dim(0) == x.dim(0) && out.dim(1) == (x.dim(1) + stride - 1) / stride &&
               out.dim(2) == (x.dim(2) + stride - 1) / stride && out.width() == x.width())
      << Names(x, out) << " by steps of " << stride;
}

namespace {

void CheckPictures(const Tensor& pictures) {
  KINORA_CHECK(pictures.dtype() == DType::kF32 && pictures.shape().rank() == 4 && pictures.contiguous())
      << DTypeName(pictures.dtype()) << " " << pictures.shape().ToString();
}

void CheckWeights(const PixelWeights& weights, const Tensor& pictures) {
  for (const Tensor& t : {weights.frames, weights.rows, weights.columns}) {
    KINORA_CHECK(t.dtype() == DType::kF32 && t.contiguous()) << DTypeName(t.dtype()) << " " << t.shape().ToString();
  }
  KINORA_CHECK(weights.frames.elements() == pictures.dim(0) && weights.rows.elements() == pictures.dim(1) &&
               weights.columns.elements() == pictures.dim(2) * pictures.dim(3))
      << weights.frames.elements() << ", " << weights.rows.elements() << ", " << weights.columns.elements() << " for "
      << pictures.shape().ToString();
}

}  // namespace

void CheckAddTile(const Tensor& tile, const TileBlend& blend, const Tensor& sums) {
  CheckPictures(tile);
  CheckPictures(sums);
  CheckWeights(blend.weights, tile);
  KINORA_CHECK(tile.dim(0) == sums.dim(0) && tile.dim(3) == sums.dim(3)) << Names(tile, sums);
  KINORA_CHECK(blend.row >= 0 && blend.row + tile.dim(1) <= sums.dim(1) && blend.column >= 0 &&
               blend.column + tile.dim(2) <= sums.dim(2))
      << Names(tile, sums) << " at " << blend.row << ", " << blend.column;
}

void CheckFinishRgb8(const Tensor& sums, const Rgb8Options& options, const Tensor& rgb8) {
  CheckPictures(sums);
  KINORA_CHECK(rgb8.dtype() == DType::kU8 && rgb8.contiguous() && rgb8.shape() == sums.shape()) << Names(sums, rgb8);
  if (options.weights.frames.defined()) CheckWeights(options.weights, sums);
  if (options.rgb.defined()) {
    CheckPictures(options.rgb);
    KINORA_CHECK(options.rgb.shape() == sums.shape()) << Names(sums, options.rgb);
  }
  KINORA_CHECK(options.first_bad.dtype() == DType::kI32 && options.first_bad.elements() == 1)
      << options.first_bad.shape().ToString();
}

void CheckPointwise(const Tensor& x, const Tensor& out) {
  CheckSameShape(x, out);
  KINORA_CHECK(x.dtype() == DType::kF32 && out.dtype() == DType::kF32) << DTypeName(x.dtype());
}

void CheckRopeTable(const RopeAngles& angles, const Tensor& cos, const Tensor& sin) {
  for (const Tensor& t : {angles.fractions, angles.frequencies, cos, sin}) {
    KINORA_CHECK(t.dtype() == DType::kF32 && t.contiguous()) << t.shape().ToString();
  }
  KINORA_CHECK(angles.fractions.shape().rank() == 2 && cos.shape() == sin.shape() &&
               cos.rows() == angles.fractions.dim(1))
      << Names(angles.fractions, cos);
  const int64_t all = angles.pad + angles.fractions.dim(0) * angles.frequencies.elements();
  KINORA_CHECK(angles.pad >= 0 && angles.first_column >= 0 && angles.first_column + cos.width() <= all)
      << angles.first_column << " of " << all << ", " << Names(angles.frequencies, cos);
}

void CheckSnake(const Tensor& x, const AntiAliasedSnake& snake, const Tensor& out) {
  CheckPointwise(x, out);
  KINORA_CHECK(x.contiguous() && out.contiguous()) << Names(x, out);
  for (const Tensor& channel : {snake.frequency, snake.amplitude}) {
    KINORA_CHECK(channel.dtype() == DType::kF32 && channel.elements() == x.width()) << Names(x, channel);
  }
  for (const Tensor& filter : {snake.up, snake.down}) {
    KINORA_CHECK(filter.dtype() == DType::kF32 && filter.elements() >= 2 && filter.elements() <= kMaxSnakeTaps)
        << filter.shape().ToString();
  }
  KINORA_CHECK(snake.up.elements() % 2 == 0) << snake.up.shape().ToString();
}

void CheckMagnitude(const Tensor& x, const Tensor& out) {
  KINORA_CHECK(x.dtype() == DType::kF32 && out.dtype() == DType::kF32) << DTypeName(x.dtype());
  KINORA_CHECK(x.width() == 2 * out.width() && x.rows() == out.rows()) << Names(x, out);
}

void CheckGuidance(const Tensor& x0, const Tensor& weights, int cond, const Tensor& out) {
  const int64_t passes = weights.elements() - 1;
  KINORA_CHECK(passes >= 1 && passes <= 4 && cond >= 0 && cond < passes) << "pass " << cond << " of " << passes;
  KINORA_CHECK(x0.width() == out.width() && x0.rows() == passes * out.rows()) << Names(x0, out);
  KINORA_CHECK(x0.contiguous() && weights.contiguous() && out.contiguous()) << Names(x0, out);
  for (const Tensor& t : {x0, weights, out}) KINORA_CHECK(t.dtype() == DType::kF32) << DTypeName(t.dtype());
}

void CheckPrediction(const Prediction& p, const Tensor& sigmas, const Tensor& z) {
  CheckGuidance(p.v, p.weights, p.cond, p.x0);
  CheckSameShape(p.x0, z);
  KINORA_CHECK(p.sigma.elements() == 1 || p.sigma.elements() == z.rows()) << Names(p.sigma, z);
  KINORA_CHECK(sigmas.elements() == 2) << sigmas.shape().ToString();
  for (const Tensor& t : {p.sigma, sigmas, z}) {
    KINORA_CHECK(t.dtype() == DType::kF32 && t.contiguous()) << DTypeName(t.dtype()) << " " << t.shape().ToString();
  }
  if (!p.clean.defined()) return;
  CheckSameShape(p.clean, z);
  KINORA_CHECK(p.clean.dtype() == DType::kF32 && p.clean.contiguous()) << p.clean.shape().ToString();
  CheckModulation(p.mask, /*slot=*/2, z);
  KINORA_CHECK(!p.mask.base.defined() && p.mask.table.contiguous()) << "a mask's table is one, without a base";
}

}  // namespace kinora
