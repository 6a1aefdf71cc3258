// Packing of weights: all threads of the pool read runs of rows and pack them while they are in the cache.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/base/status_macros.h"
#include "engine/ops/cpu_blocks.h"
#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_weight.h"

namespace kinora {
namespace {

// Bytes of rows read at once; the rows and their packed form stay in a core's second-level cache.
constexpr int64_t kRunBytes = int64_t{1} << 19;

// Runs of whole panels of columns, about kRunBytes each.
struct Runs {
  Runs(const WeightRows& rows, const PackedLayout& layout)
      : row_bytes(rows.count * rows.taps * rows.in * DTypeSize(rows.dtype)),
        panels(std::clamp<int64_t>(kRunBytes / std::max<int64_t>(1, row_bytes * layout.columns), 1,
                                   std::max<int64_t>(1, layout.panels))),
        rows_each(panels * layout.columns) {}

  int64_t row_bytes, panels, rows_each;
};

// One run of rows of one rewriting.
struct Task {
  const WeightOps::Rewriting* one;
  int64_t begin, end, row_bytes;
};

}  // namespace

// Packs rows [begin, end) of one matrix; `begin` is the start of a panel. from: [end − begin, taps · in].
void CpuOps::PackPanels(const WeightRows& rows, const void* from, int64_t begin, int64_t end, DType precision,
                        void* to) const {
  const PackedLayout layout(kernels_, KernelType(precision), rows.out, rows.taps, rows.in);
  const int64_t width = rows.taps * rows.in, tap_bytes = layout.padded_in * layout.columns * DTypeSize(precision);
  const int64_t last_row_bytes = layout.columns * DTypeSize(precision);
  for (int64_t row = begin; row < end; row += layout.columns) {
    char* panel = static_cast<char*>(to) + row / layout.columns * layout.panel_bytes;
    for (int64_t tap = 0; tap < rows.taps; ++tap, panel += tap_bytes) {
      const char* first =
          static_cast<const char*>(from) + ((row - begin) * width + tap * rows.in) * DTypeSize(rows.dtype);
      const cpu::RowsView view{const_cast<char*>(first), width, KernelType(rows.dtype)};
      kernels_.pack_columns(view, std::min(layout.columns, rows.out - row), rows.in, KernelType(precision), panel);
      // The depth is even in both precisions, but pack_columns pads it only for bf16 pairs.
      if (precision == DType::kF32 && rows.in % 2 != 0)
        std::memset(panel + tap_bytes - last_row_bytes, 0, last_row_bytes);
    }
  }
}

absl::StatusOr<std::vector<Weight>> CpuOps::PrepareWeights(const WeightRows& rows, const Tensor* bias, DType dtype) {
  KINORA_CHECK(bias == nullptr || (bias->elements() == rows.out && bias->dtype() == DType::kF32 && bias->contiguous()));
  const int64_t bytes = CpuWeightLayout().Bytes(dtype, rows.out, rows.taps, rows.in);
  std::vector<Weight> weights;
  absl::InlinedVector<WeightStorage*, 4> storage;
  for (int n = 0; n < rows.count; ++n) {
    auto packed = std::make_shared<CpuWeight>();
    KINORA_ASSIGN_OR_RETURN(packed->panels, Buffer::Allocate(bytes, "a packed weight"));
    const bool has_bias = n == 0 && bias != nullptr;
    if (has_bias) {
      KINORA_ASSIGN_OR_RETURN(packed->bias, Buffer::Allocate(bias->bytes(), "a bias"));
      std::memcpy(packed->bias.data(), bias->raw(), bias->bytes());
    }
    storage.push_back(packed.get());
    weights.emplace_back(dtype, rows.out, rows.taps, rows.in, has_bias, std::move(packed));
  }
  KINORA_RETURN_IF_ERROR(RewriteWeights(rows, dtype, storage));
  return weights;
}

absl::Status CpuOps::RewriteWeights(const WeightRows& rows, DType dtype, absl::Span<WeightStorage* const> storage) {
  const Rewriting one{.rows = rows, .dtype = dtype, .storage = storage};
  return RewriteWeights(absl::MakeConstSpan(&one, 1));
}

absl::Status CpuOps::RewriteWeights(absl::Span<const Rewriting> many) {
  std::vector<Task> tasks;
  int64_t run_bytes = 0;
  for (const Rewriting& one : many) {
    KINORA_CHECK_EQ(static_cast<int>(one.storage.size()), one.rows.count);
    KINORA_CHECK(one.products.empty()) << "the host adds products to the rows";
    const Runs runs(one.rows, PackedLayout(kernels_, KernelType(one.dtype), one.rows.out, one.rows.taps, one.rows.in));
    run_bytes = std::max(run_bytes, std::min(one.rows.out, runs.rows_each) * runs.row_bytes);
    for (int64_t begin = 0; begin < one.rows.out; begin += runs.rows_each) {
      tasks.push_back({&one, begin, std::min(one.rows.out, begin + runs.rows_each), runs.row_bytes});
    }
  }
  std::vector<Buffer> staging(pool_.threads());
  for (Buffer& buffer : staging) {
    KINORA_ASSIGN_OR_RETURN(buffer, Buffer::Allocate(run_bytes, "the rows of a weight on their way"));
  }
  std::vector<absl::Status> failures(tasks.size());
  std::atomic<bool> failed = false;  // runs start in order, so none before the first failure is skipped
  pool_.Run(std::ssize(tasks), [&](int64_t run, int thread) {
    if (failed) return;
    const auto& [one, begin, end, row_bytes] = tasks[run];
    char* from = static_cast<char*>(staging[thread].data());
    failures[run] = one->rows.read(begin, end, from);
    if (!failures[run].ok()) failed = true;
    const int64_t matrix_bytes = (end - begin) * row_bytes / one->rows.count;
    for (int n = 0; n < one->rows.count && failures[run].ok(); ++n) {
      void* panels = static_cast<CpuWeight*>(one->storage[n])->panels.data();
      PackPanels(one->rows, from + n * matrix_bytes, begin, end, one->dtype, panels);
    }
  });
  for (absl::Status& status : failures) KINORA_RETURN_IF_ERROR(std::move(status));
  return absl::OkStatus();
}

void CpuOps::RunOnHost(int64_t tasks, absl::FunctionRef<void(int64_t)> task) {
  pool_.Run(tasks, [&](int64_t i, int) { task(i); });
}

namespace {

class CpuLayout : public WeightLayout {
 public:
  bool Stores(DType dtype) const override { return dtype == DType::kF32 || dtype == DType::kBF16; }
  int64_t Bytes(DType dtype, int64_t out, int64_t taps, int64_t in) const override {
    return PackedLayout(cpu::SelectKernels(), KernelType(dtype), out, taps, in).bytes();
  }
};

}  // namespace

const WeightLayout& CpuWeightLayout() {
  static const CpuLayout layout;
  return layout;
}

}  // namespace kinora
