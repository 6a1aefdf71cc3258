#include "engine/ops/cpu_ops.h"

#include <algorithm>
#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_workspace.h"
#include "engine/ops/op_checks.h"
#include "engine/ops/rope_angles.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<CpuOps>> CpuOps::Create(int threads, std::unique_ptr<CpuStream> stream) {
  std::vector<Buffer> workspace;
  for (int i = 0; i < threads; ++i) {
    KINORA_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(kWorkspaceBytes, "the workspace of a thread"));
    workspace.push_back(std::move(buffer));
  }
  return std::unique_ptr<CpuOps>(new CpuOps(threads, std::move(workspace), std::move(stream)));
}

CpuOps::CpuOps(int threads, std::vector<Buffer> workspace, std::unique_ptr<CpuStream> stream)
    : kernels_(cpu::SelectKernels()),
      pool_(threads),
      workspace_(std::move(workspace)),
      owned_stream_(std::move(stream)),
      stream_(*owned_stream_) {}

void CpuOps::ForRows(int64_t count, int64_t bytes_a_row, absl::FunctionRef<void(int64_t, int64_t)> rows) {
  constexpr int64_t kBytesWorthATask = 64 << 10;  // some 5 µs of memory traffic, against 2 µs to wake a thread
  const int64_t rows_a_task = std::max<int64_t>(1, kBytesWorthATask / std::max<int64_t>(1, bytes_a_row));
  pool_.Run((count + rows_a_task - 1) / rows_a_task,
            [&](int64_t task, int) { rows(task * rows_a_task, std::min(count, (task + 1) * rows_a_task)); });
}

void CpuOps::Norm(const Tensor& x, const cpu::NormArgs& given, Tensor out) {
  KINORA_CHECK(x.elements() == out.elements() && x.width() == out.width()) << x.shape().ToString();
  KINORA_CHECK(x.width() <= cpu::kMaxRowWidth) << x.width();
  cpu::NormArgs args = given;
  args.x = View(x);
  args.out = View(out);
  args.width = x.width();
  const int64_t rows = x.rows();
  stream_.Enqueue([this, args, rows] {
    ForRows(rows, args.width * 8, [&](int64_t begin, int64_t end) { kernels_.norm(args, begin, end); });
  });
}

void CpuOps::RmsNorm(const Tensor& x, const Tensor* weight, float eps, Activation activation, Tensor out) {
  KINORA_CHECK(weight == nullptr || weight->elements() == x.width()) << weight->shape().ToString();
  Norm(x,
       {.kind = cpu::NormArgs::kRms,
        .eps = eps,
        .weight = weight == nullptr ? nullptr : weight->data<float>(),
        .activation = KernelAct(activation)},
       out);
}

void CpuOps::LayerNorm(const Tensor& x, float eps, Tensor out) {
  Norm(x, {.kind = cpu::NormArgs::kLayer, .eps = eps}, out);
}

void CpuOps::Modulate(const Tensor& x, const ScaleShift& m, Tensor out) {
  ModulatedNorm(x, cpu::NormArgs::kNone, m, 0.0f, out);
}

void CpuOps::ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  ModulatedNorm(x, cpu::NormArgs::kRms, m, eps, out);
}

void CpuOps::ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  ModulatedNorm(x, cpu::NormArgs::kLayer, m, eps, out);
}

void CpuOps::ModulatedNorm(const Tensor& x, cpu::NormArgs::Kind kind, const ScaleShift& m, float eps, Tensor out) {
  Norm(x,
       {.kind = kind,
        .eps = eps,
        .modulation = View(m.modulation, x.width()),
        .scale_slot = m.scale_slot,
        .shift_slot = m.shift_slot},
       out);
}

void CpuOps::GatedAdd(const Tensor& y, const Gate& gate, Tensor x) {
  KINORA_CHECK(x.elements() == y.elements() && x.width() == y.width()) << x.shape().ToString() << y.shape().ToString();
  KINORA_CHECK(x.width() <= cpu::kMaxRowWidth) << x.width();
  const cpu::GatedAddArgs args{
      .y = View(y), .x = View(x), .width = x.width(), .gate = View(gate.modulation, x.width()), .slot = gate.slot};
  const int64_t rows = x.rows();
  stream_.Enqueue([this, args, rows] {
    ForRows(rows, args.width * 12, [&](int64_t begin, int64_t end) { kernels_.gated_add(args, begin, end); });
  });
}

void CpuOps::NormRope(Tensor x, const NormRopeParams& p, const Tensor* sum_of_squares) {
  cpu::NormRopeArgs args{.x = View(x), .width = x.width(), .group = x.width(), .eps = p.eps};
  if (p.weight.defined()) {
    args.group = p.group;
    KINORA_CHECK(args.group > 0 && x.width() % args.group == 0) << args.group << " on width " << x.width();
    KINORA_CHECK(p.weight.elements() == args.group) << p.weight.shape().ToString();
    args.weight = p.weight.data<float>();
    args.full_group = p.full_group > 0 ? p.full_group : p.group;
  }
  if (sum_of_squares != nullptr) {
    KINORA_CHECK(sum_of_squares->elements() == x.rows() * (x.width() / args.group))
        << sum_of_squares->shape().ToString();
    args.sum_of_squares = sum_of_squares->data<float>();
  }
  if (p.rope.cos.defined()) {
    KINORA_CHECK(p.head_width > 0 && p.head_width % 2 == 0 && x.width() % p.head_width == 0) << p.head_width;
    args.head_width = p.head_width;
    args.cos = p.rope.cos.data<float>();
    args.sin = p.rope.sin.data<float>();
    args.rope_width = p.rope.cos.width();
    args.rope_tokens = p.rope.cos.rows();
    KINORA_CHECK(args.rope_width == p.head_width / 2 || args.rope_width == x.width() / 2) << args.rope_width;
    KINORA_CHECK(p.rope.cos.contiguous() && p.rope.sin.contiguous() && p.rope.sin.shape() == p.rope.cos.shape());
    if (p.rope.frame_cos.defined()) {
      args.frame_cos = p.rope.frame_cos.data<float>();
      args.frame_sin = p.rope.frame_sin.data<float>();
      args.frame_width = p.rope.frame_cos.width();
    }
  }
  KINORA_CHECK(x.width() <= cpu::kMaxRowWidth) << x.width();
  const int64_t rows = x.rows();
  stream_.Enqueue([this, args, rows] {
    ForRows(rows, args.width * 12, [&](int64_t begin, int64_t end) { kernels_.norm_rope(args, begin, end); });
  });
}

void CpuOps::SumOfSquares(const Tensor& x, Tensor out) {
  KINORA_CHECK(out.elements() == x.rows() && out.contiguous() && out.dtype() == DType::kF32) << out.shape().ToString();
  KINORA_CHECK(x.width() <= cpu::kMaxRowWidth) << x.width();
  stream_.Enqueue([this, x, out] {
    ForRows(x.rows(), x.width() * 4, [&](int64_t begin, int64_t end) {
      kernels_.sum_of_squares(View(x), x.width(), begin, end, out.data<float>());
    });
  });
}

void CpuOps::Elementwise(cpu::ElementwiseArgs args, const Tensor& a, const Tensor* b, Tensor out) {
  KINORA_CHECK(a.elements() == out.elements() && a.width() == out.width())
      << a.shape().ToString() << out.shape().ToString();
  args.a = View(a);
  args.out = View(out);
  if (b != nullptr) args.b = View(*b);
  args.width = a.width();
  const int64_t rows = a.rows();
  stream_.Enqueue([this, args, rows] {
    ForRows(rows, args.width * 8, [&](int64_t begin, int64_t end) { kernels_.elementwise(args, begin, end); });
  });
}

void CpuOps::Activate(const Tensor& x, Activation activation, Tensor out) {
  using cpu::Elementwise;
  const auto op = activation == Activation::kSilu       ? Elementwise::kSilu
                  : activation == Activation::kGeluTanh ? Elementwise::kGeluTanh
                                                        : Elementwise::kCopy;
  this->Elementwise({.op = op}, x, nullptr, out);
}

void CpuOps::Add(const Tensor& y, Tensor x) {
  KINORA_CHECK(x.elements() == y.elements() && x.width() == y.width()) << x.shape().ToString() << y.shape().ToString();
  Elementwise({.op = cpu::Elementwise::kAdd}, x, &y, x);
}

void CpuOps::ActivateThenMultiply(const Tensor& gate, Activation activation, const Tensor& up, Tensor out) {
  KINORA_CHECK(gate.elements() == up.elements() && gate.width() == up.width()) << up.shape().ToString();
  KINORA_CHECK(activation != Activation::kNone) << "without an activation";
  const bool silu = activation == Activation::kSilu;
  Elementwise({.op = silu ? cpu::Elementwise::kSiluMultiply : cpu::Elementwise::kGeluTanhMultiply}, gate, &up, out);
}

void CpuOps::GateHeads(const Tensor& logits, Tensor x) {
  KINORA_CHECK(logits.rows() == x.rows() && x.width() % logits.width() == 0) << logits.shape().ToString();
  KINORA_CHECK(x.width() <= cpu::kMaxRowWidth) << x.width();
  Elementwise({.op = cpu::Elementwise::kGateHeads, .head_width = x.width() / logits.width()}, x, &logits, x);
}

void CpuOps::Scale(const Tensor& x, float factor, Tensor out) {
  Elementwise({.op = cpu::Elementwise::kScale, .factor = factor}, x, nullptr, out);
}

void CpuOps::Affine(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor out) {
  KINORA_CHECK(scale.elements() == x.width() && shift.elements() == x.width()) << scale.shape().ToString();
  Elementwise({.op = cpu::Elementwise::kAffine, .scale = scale.data<float>(), .shift = shift.data<float>()}, x, nullptr,
              out);
}

void CpuOps::Fill(float value, Tensor out) {
  stream_.Enqueue([out, value] {
    for (int64_t row = 0; row < out.rows(); ++row) {
      if (out.dtype() == DType::kF32) {
        std::fill_n(reinterpret_cast<float*>(At(out, row)), out.width(), value);
      } else {
        std::fill_n(reinterpret_cast<bf16*>(At(out, row)), out.width(), bf16(value));
      }
    }
  });
}

void CpuOps::GatherRows(const Tensor& table, const Tensor& ids, float factor, Tensor out) {
  KINORA_CHECK(ids.elements() == out.rows() && table.width() == out.width()) << out.shape().ToString();
  stream_.Enqueue([this, table, ids, factor, out] {
    ForRows(out.rows(), out.width() * 8, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t id = ids.data<int32_t>()[row];
        KINORA_CHECK(0 <= id && id < table.rows()) << "row " << id << " of " << table.rows();
        const cpu::ElementwiseArgs args{.op = cpu::Elementwise::kScale,
                                        .a = View(table.Reshape({table.rows(), table.width()}).Rows(id, id + 1)),
                                        .out = {At(out, row), 0, KernelType(out.dtype())},
                                        .width = out.width(),
                                        .factor = factor};
        kernels_.elementwise(args, 0, 1);
      }
    });
  });
}

void CpuOps::Increment(Tensor counters) {
  KINORA_CHECK(counters.contiguous()) << counters.shape().ToString();
  stream_.Enqueue([counters] {
    for (int64_t i = 0; i < counters.elements(); ++i) ++counters.data<int32_t>()[i];
  });
}

void CpuOps::TimestepEmbedding(const Tensor& t, Tensor out) {
  KINORA_CHECK(t.elements() == out.rows() && out.width() % 2 == 0) << out.shape().ToString();
  stream_.Enqueue([t, out] {
    const int64_t half = out.width() / 2;
    for (int64_t row = 0; row < out.rows(); ++row) {
      float* o = out.data<float>() + row * out.row_stride();
      for (int64_t i = 0; i < half; ++i) {
        // float32 throughout, like the reference, which rounds the exponent before the exponential.
        const float exponent = -9.210340371976184f * static_cast<float>(i) / static_cast<float>(half);
        const float angle = t.data<float>()[row] * std::exp(exponent);
        o[i] = std::cos(angle);
        o[half + i] = std::sin(angle);
      }
    }
  });
}

void CpuOps::RopeTable(const RopeAngles& angles, Tensor cos, Tensor sin) {
  CheckRopeTable(angles, cos, sin);
  constexpr int64_t kBytesAsSlow = 64;  // that a row op moves in the time of a sine and a cosine
  stream_.Enqueue([this, angles, cos, sin] {
    ForRows(cos.rows(), cos.width() * kBytesAsSlow,
            [&](int64_t begin, int64_t end) { FillRopeRows(angles, begin, end, cos, sin); });
  });
}

}  // namespace kinora
