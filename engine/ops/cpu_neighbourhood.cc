// Neighbourhood attention on the panels of cpu_attention.cc. A panel holds the queries of a small box, so that their
// windows are nearly the same keys. A task has one head and one column of such boxes along time: it walks through the
// planes of keys (one position of time each) that some of its queries see, packs the part of a plane under the boxes
// once, and multiplies it with every panel that sees the plane. A mask removes the keys outside a query's own window.
//
// The order of a row's sums follows from the planes, rows and columns of its box's windows, whatever the task's extent
// in time, so cutting a box in time changes no bits.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_workspace.h"
#include "engine/ops/op_checks.h"
#include "engine/ops/op_work.h"

namespace kinora {
namespace {

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Positions [begin, end) of an axis.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool Has(int64_t i) const { return i >= begin && i < end; }
};

struct Axis {
  int64_t grid, window, first, queries;

  Range WindowOf(int64_t i) const {  // i: in the grid
    const int64_t begin = std::clamp<int64_t>(i - window / 2, 0, grid - window);
    return {begin, begin + window};
  }
  // The keys that the queries of a range of the box see; windows move with their queries, so it has no gaps.
  Range KeysOf(const Range& of_box) const {
    return {WindowOf(first + of_box.begin).begin, WindowOf(first + of_box.end - 1).end};
  }
};

Axis AxisOf(int grid, int window, int first, int queries) { return {grid, std::min(window, grid), first, queries}; }

// The box of a panel's queries. Narrow ones have fewer keys that only some of their queries see.
std::array<int64_t, 3> PanelBox(int64_t columns) {
  if (columns >= 32) return {2, 4, 4};
  if (columns >= 16) return {1, 4, 4};
  return {1, 2, 4};
}

}  // namespace

struct CpuOps::NeighbourhoodPlan {
  Tensor q, k, v, out;
  cpu::Type type;
  int64_t heads, head_width;
  float scale;
  Axis time, height, width;
  std::array<int64_t, 3> box;  // of a panel
  int64_t task_frames;         // queries of a task along time

  int64_t tasks() const {
    return heads * CeilDiv(time.queries, task_frames) * CeilDiv(height.queries, box[1]) *
           CeilDiv(width.queries, box[2]);
  }
  int64_t QueryRow(int64_t t, int64_t h, int64_t w) const { return (t * height.queries + h) * width.queries + w; }
};

class CpuOps::NeighbourhoodTask {
 public:
  NeighbourhoodTask(const cpu::Kernels& kernels, const NeighbourhoodPlan& plan, int64_t task, void* memory)
      : kernels_(kernels), plan_(plan), columns_(kernels.panel_columns), d_(plan.head_width) {
    const auto part = [&task](int64_t extent, int64_t step) {
      const int64_t count = CeilDiv(extent, step), i = task % count;
      task /= count;
      return Range{i * step, std::min(extent, (i + 1) * step)};
    };
    columns_of_box_ = part(plan.width.queries, plan.box[2]);
    rows_of_box_ = part(plan.height.queries, plan.box[1]);
    frames_ = part(plan.time.queries, plan.task_frames);
    head_ = task;
    key_rows_ = plan.height.KeysOf(rows_of_box_);
    key_columns_ = plan.width.KeysOf(columns_of_box_);
    element_ = plan.type == cpu::kFloat32 ? 4 : 2;
    char* at = static_cast<char*>(memory);
    const auto take = [&at](int64_t bytes) { return std::exchange(at, at + bytes); };
    const int64_t columns = kMaxNeighbourhoodPanels * columns_;
    queries_ = take(columns * d_ * element_);
    sums_ = reinterpret_cast<float*>(take(columns * d_ * 4));
    maximum_ = reinterpret_cast<float*>(take(columns * 4));
    denominator_ = reinterpret_cast<float*>(take(columns * 4));
    keys_ = take(kKeyBlock * d_ * 4);
    values_ = take(kKeyBlock * (d_ + 12) * 4);  // rounded up to a whole tile
    gathered_ = take(kKeyBlock * d_ * 4);
    logits_ = reinterpret_cast<float*>(take(kLogitBytes));
    space_mask_ = reinterpret_cast<float*>(take(kLogitBytes));
    mask_ = reinterpret_cast<float*>(take(kLogitBytes));
    pointers_ = reinterpret_cast<const void**>(take(kKeyBlock * 8));
  }

  void Run() {
    std::fill_n(maximum_, panels() * columns_, cpu::kNoLogit);
    std::fill_n(denominator_, panels() * columns_, 0.0f);
    for (int64_t panel = 0; panel < panels(); ++panel) PackQueries(panel);
    const Range planes = plan_.time.KeysOf(frames_);
    const int64_t keys = key_rows_.size() * key_columns_.size();
    const int64_t block = RoundUp(CeilDiv(keys, CeilDiv(keys, kKeyBlock)), 12);
    for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
      for (int64_t first = 0; first < keys; first += block) {
        AttendPlane(plane, {first, std::min(keys, first + block)});
      }
    }
    for (int64_t panel = 0; panel < panels(); ++panel) Finish(panel);
  }

 private:
  int64_t panels() const { return CeilDiv(frames_.size(), plan_.box[0]); }
  Range FramesOf(int64_t panel) const {
    const int64_t begin = frames_.begin + panel * plan_.box[0];
    return {begin, std::min(frames_.end, begin + plan_.box[0])};
  }
  // Calls each(column of the panel, row of q) for the panel's queries.
  template <typename F>
  void ForQueries(int64_t panel, F each) const {
    int64_t column = 0;
    const Range frames = FramesOf(panel);
    for (int64_t t = frames.begin; t < frames.end; ++t) {
      for (int64_t h = rows_of_box_.begin; h < rows_of_box_.end; ++h) {
        for (int64_t w = columns_of_box_.begin; w < columns_of_box_.end; ++w) {
          each(column++, plan_.QueryRow(t, h, w));
        }
      }
    }
  }
  int64_t PlaneQueries() const { return rows_of_box_.size() * columns_of_box_.size(); }

  char* HeadOf(const Tensor& t, int64_t row) const { return At(t, row) + head_ * d_ * DTypeSize(t.dtype()); }

  void PackQueries(int64_t panel) {
    const int64_t bytes = d_ * DTypeSize(plan_.q.dtype());
    int64_t count = 0;
    ForQueries(panel, [&](int64_t column, int64_t row) {
      std::memcpy(gathered_ + column * bytes, HeadOf(plan_.q, row), bytes);
      count = column + 1;
    });
    kernels_.pack_columns({gathered_, d_, KernelType(plan_.q.dtype())}, count, d_, plan_.type,
                          queries_ + panel * columns_ * d_ * element_);
  }

  // keys: numbers of keys of the plane, in the order of rows and columns.
  void AttendPlane(int64_t plane, const Range& keys) {
    const int64_t width = key_columns_.size(), bytes = d_ * DTypeSize(plan_.v.dtype());
    for (int64_t i = keys.begin; i < keys.end; ++i) {
      const int64_t h = key_rows_.begin + i / width, w = key_columns_.begin + i % width;
      const int64_t row = (plane * plan_.height.grid + h) * plan_.width.grid + w;
      pointers_[i - keys.begin] = At(plan_.k, row);
      std::memcpy(gathered_ + (i - keys.begin) * bytes, HeadOf(plan_.v, row), bytes);
    }
    kernels_.pack_rows(pointers_, KernelType(plan_.k.dtype()), keys.size(), head_ * d_, d_, 0, d_, plan_.type, keys_);
    kernels_.pack_values({gathered_, d_, KernelType(plan_.v.dtype())}, keys.size(), d_, plan_.type, values_);
    MakeMask(keys);
    for (int64_t panel = 0; panel < panels(); ++panel) {
      if (plan_.time.KeysOf(FramesOf(panel)).Has(plane)) Attend(panel, plane, keys.size());
    }
  }

  // Which keys of the block are in the window, along height and width, of which query. Equal for all frames.
  void MakeMask(const Range& keys) {
    if (keys.begin == masked_.begin && keys.end == masked_.end) return;
    masked_ = keys;
    const int64_t width = key_columns_.size();
    for (int64_t i = keys.begin; i < keys.end; ++i) {
      float* const row = space_mask_ + (i - keys.begin) * columns_;
      std::fill_n(row, columns_, 0.0f);
      int64_t column = 0;
      for (int64_t h = rows_of_box_.begin; h < rows_of_box_.end; ++h) {
        const bool in_rows = plan_.height.WindowOf(plan_.height.first + h).Has(key_rows_.begin + i / width);
        for (int64_t w = columns_of_box_.begin; w < columns_of_box_.end; ++w) {
          const bool in = in_rows && plan_.width.WindowOf(plan_.width.first + w).Has(key_columns_.begin + i % width);
          row[column++] = in ? 0.0f : cpu::kNoLogit;
        }
      }
      for (int64_t t = 1; t < plan_.box[0]; ++t) std::copy_n(row, PlaneQueries(), row + t * PlaneQueries());
    }
  }

  // Returns the mask of a panel and a plane: space_mask_, without the queries whose windows do not reach the plane.
  const float* MaskOf(int64_t panel, int64_t plane, int64_t keys) {
    const Range frames = FramesOf(panel);
    const float* mask = space_mask_;
    for (int64_t t = frames.begin; t < frames.end; ++t) {
      if (plan_.time.WindowOf(plan_.time.first + t).Has(plane)) continue;
      if (mask == space_mask_) mask = std::copy_n(space_mask_, keys * columns_, mask_) - keys * columns_;
      for (int64_t key = 0; key < keys; ++key) {
        std::fill_n(mask_ + key * columns_ + (t - frames.begin) * PlaneQueries(), PlaneQueries(), cpu::kNoLogit);
      }
    }
    return mask;
  }

  void Attend(int64_t panel, int64_t plane, int64_t keys) {
    const int64_t queries = FramesOf(panel).size() * PlaneQueries();
    float* const sums = sums_ + panel * columns_ * d_;
    const bool fresh = !std::exchange(attended_[panel], true);
    kernels_.multiply(keys_, d_, queries_ + panel * columns_ * d_ * element_, 0, plan_.type, keys, d_, queries, logits_,
                      columns_, true);
    kernels_.softmax({.s = logits_,
                      .type = plan_.type,
                      .keys = keys,
                      .queries = queries,
                      .scale = plan_.scale,
                      .mask = MaskOf(panel, plane, keys),
                      .maximum = maximum_ + panel * columns_,
                      .denominator = denominator_ + panel * columns_,
                      .sums = fresh ? nullptr : sums,
                      .width = d_});
    kernels_.multiply(values_, RoundUp(keys, 2), logits_, 0, plan_.type, d_, keys, queries, sums, columns_, fresh);
  }

  void Finish(int64_t panel) {
    const int64_t queries = FramesOf(panel).size() * PlaneQueries(), bytes = d_ * DTypeSize(plan_.out.dtype());
    float factor[kMaxPanelColumns] = {};
    for (int64_t i = 0; i < queries; ++i) factor[i] = 1.0f / denominator_[panel * columns_ + i];
    kernels_.unpack_columns(sums_ + panel * columns_ * d_, d_, queries, factor,
                            {gathered_, d_, KernelType(plan_.out.dtype())});
    ForQueries(panel, [&](int64_t column, int64_t row) {
      std::memcpy(HeadOf(plan_.out, row), gathered_ + column * bytes, bytes);
    });
  }

  const cpu::Kernels& kernels_;
  const NeighbourhoodPlan& plan_;
  const int64_t columns_, d_;
  int64_t head_, element_;
  Range frames_, rows_of_box_, columns_of_box_;  // of the box of queries
  Range key_rows_, key_columns_, masked_;        // masked_: the keys that space_mask_ is for
  char *queries_, *keys_, *values_;              // packed
  char* gathered_;                               // rows side by side
  float *logits_, *space_mask_, *mask_;          // [keys, columns]
  float *sums_, *maximum_, *denominator_;        // of each panel
  const void** pointers_;
  std::array<bool, kMaxNeighbourhoodPanels> attended_{};  // which panels have sums
};

void CpuOps::NeighbourhoodAttention(const Tensor& q, const Tensor& k, const Tensor& v, const NeighbourhoodOptions& o,
                                    Tensor out) {
  CheckNeighbourhood(q, k, v, o, out);
  const bool all_bf16 = q.dtype() == DType::kBF16 && k.dtype() == DType::kBF16 && v.dtype() == DType::kBF16;
  NeighbourhoodPlan plan{.q = q,
                         .k = k,
                         .v = v,
                         .out = out,
                         .type = all_bf16 ? cpu::kBfloat16 : cpu::kFloat32,
                         .heads = o.heads,
                         .head_width = q.width() / o.heads,
                         .scale = o.scale,
                         .time = AxisOf(o.grid.time, o.window.time, o.first.time, o.queries.time),
                         .height = AxisOf(o.grid.height, o.window.height, o.first.height, o.queries.height),
                         .width = AxisOf(o.grid.width, o.window.width, o.first.width, o.queries.width),
                         .box = PanelBox(kernels_.panel_columns),
                         .task_frames = 0};
  plan.task_frames = kMaxNeighbourhoodPanels * plan.box[0];
  stream_.Enqueue([this, plan] { RunNeighbourhood(plan); }, "NeighbourhoodAttention", WorkOfNeighbourhood(q, o));
}

void CpuOps::RunNeighbourhood(const NeighbourhoodPlan& plan) {
  pool_.Run(plan.tasks(), [&](int64_t task, int thread) {
    NeighbourhoodTask(kernels_, plan, task, workspace_[thread].data()).Run();
  });
}

}  // namespace kinora
