// Group norms: column sums over runs of rows, merged in row order; then every row is normalised in float32.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_workspace.h"
#include "engine/ops/op_checks.h"

namespace kinora {
namespace {

// The sums of a group over a run of rows, then over all rows.
struct Moments {
  double sum = 0, squares = 0;
};

// Each thread's workspace holds sums of columns, then a row in float32. In thread 0's, the means and scales of columns
// later replace the sums, and the moments of groups follow the row.
constexpr int64_t kColumnBytes = 2 * cpu::kMaxRowWidth * static_cast<int64_t>(sizeof(double));
constexpr int64_t kRowBytes = cpu::kMaxRowWidth * static_cast<int64_t>(sizeof(float));
constexpr int64_t kMomentsFit = (kWorkspaceBytes - kColumnBytes - kRowBytes) / static_cast<int64_t>(sizeof(Moments));
static_assert(kMomentsFit >= cpu::kMaxRowWidth, "one run of rows, each column a group");

float* RowIn(const Buffer& workspace) {
  return reinterpret_cast<float*>(static_cast<char*>(workspace.data()) + kColumnBytes);
}

void AddRow(const float* row, int64_t width, double* sums, double* squares) {
  for (int64_t i = 0; i < width; ++i) {
    const double v = row[i];
    sums[i] += v;
    squares[i] += v * v;
  }
}

void NormalizeRow(const float* means, const float* scales, const float* bias, int64_t width, float* row) {
  for (int64_t i = 0; i < width; ++i) row[i] = (row[i] - means[i]) * scales[i] + bias[i];
}

// Runs one op, one sample after another.
class GroupNormalizer {
 public:
  GroupNormalizer(const cpu::Kernels& kernels, ThreadPool& pool, const std::vector<Buffer>& workspace, const Tensor& x,
                  const GroupNormParams& params)
      : kernels_(kernels), pool_(pool), workspace_(workspace), x_(x), params_(params) {}

  // residual: undefined if there is none. last: applied to the sum.
  void Run(const Tensor& residual, cpu::Elementwise last, const Tensor& out) const {
    for (int64_t first = 0; first < x_.rows(); first += rows_) {
      pool_.Run(runs_, [&](int64_t run, int thread) { AddUp(first, run, workspace_[thread]); });
      MergeRuns();
      pool_.Run((rows_ + kRowsATask - 1) / kRowsATask, [&](int64_t task, int thread) {
        const int64_t end = std::min(rows_, (task + 1) * kRowsATask);
        for (int64_t i = task * kRowsATask; i < end; ++i) Write(first + i, workspace_[thread], residual, last, out);
      });
    }
  }

 private:
  static constexpr int64_t kRowsARun = 64, kRowsATask = 16;

  static cpu::RowsView Row(const Tensor& t, int64_t row) { return {At(t, row), 0, KernelType(t.dtype())}; }
  static cpu::RowsView Floats(float* row) { return {row, 0, cpu::kFloat32}; }
  Moments* moments() const { return reinterpret_cast<Moments*>(RowIn(workspace_[0]) + cpu::kMaxRowWidth); }
  float* means() const { return static_cast<float*>(workspace_[0].data()); }  // [width]
  float* scales() const { return means() + width_; }                          // [width]

  // Computes the moments of all groups in run `run` of the sample that begins at row `first`.
  void AddUp(int64_t first, int64_t run, const Buffer& workspace) const {
    auto* const sums = static_cast<double*>(workspace.data());
    double* const squares = sums + width_;
    std::fill_n(sums, 2 * width_, 0.0);
    float* const row = RowIn(workspace);
    for (int64_t i = run * rows_a_run_; i < std::min(rows_, (run + 1) * rows_a_run_); ++i) {
      kernels_.elementwise(
          {.op = cpu::Elementwise::kCopy, .a = Row(x_, first + i), .out = Floats(row), .width = width_}, 0, 1);
      AddRow(row, width_, sums, squares);
    }
    for (int64_t group = 0; group < params_.groups; ++group) {
      Moments m;
      for (int64_t i = group * columns_; i < (group + 1) * columns_; ++i) {
        m.sum += sums[i];
        m.squares += squares[i];
      }
      moments()[run * params_.groups + group] = m;
    }
  }

  void MergeRuns() const {
    const auto count = static_cast<double>(rows_ * columns_);
    for (int64_t group = 0; group < params_.groups; ++group) {
      Moments whole;
      for (int64_t run = 0; run < runs_; ++run) {
        whole.sum += moments()[run * params_.groups + group].sum;
        whole.squares += moments()[run * params_.groups + group].squares;
      }
      const double mean = whole.sum / count, variance = std::max(0.0, whole.squares / count - mean * mean);
      const double factor = 1.0 / std::sqrt(variance + params_.eps);
      for (int64_t i = group * columns_; i < (group + 1) * columns_; ++i) {
        means()[i] = static_cast<float>(mean);
        scales()[i] = static_cast<float>(factor * params_.weight.data<float>()[i]);
      }
    }
  }

  void Write(int64_t i, const Buffer& workspace, const Tensor& residual, cpu::Elementwise last,
             const Tensor& out) const {
    float* const row = RowIn(workspace);
    kernels_.elementwise({.op = cpu::Elementwise::kCopy, .a = Row(x_, i), .out = Floats(row), .width = width_}, 0, 1);
    NormalizeRow(means(), scales(), params_.bias.data<float>(), width_, row);
    if (residual.defined()) {
      kernels_.elementwise(
          {.op = cpu::Elementwise::kAdd, .a = Floats(row), .b = Row(residual, i), .out = Floats(row), .width = width_},
          0, 1);
    }
    kernels_.elementwise({.op = last, .a = Floats(row), .out = Row(out, i), .width = width_}, 0, 1);
  }

  const cpu::Kernels& kernels_;
  ThreadPool& pool_;
  const std::vector<Buffer>& workspace_;
  const Tensor x_;
  const GroupNormParams params_;
  const int64_t width_ = x_.width(), columns_ = width_ / params_.groups, rows_ = x_.rows() / params_.samples;
  // The shape alone decides where runs end.
  const int64_t most_runs_ = kMomentsFit / params_.groups;  // runs whose moments fit
  const int64_t rows_a_run_ = std::max(kRowsARun, (rows_ + most_runs_ - 1) / most_runs_);
  const int64_t runs_ = (rows_ + rows_a_run_ - 1) / rows_a_run_;
};

}  // namespace

void CpuOps::GroupNorm(const Tensor& x, const GroupNormParams& params, Tensor out) {
  CheckGroupNorm(x, params, /*residual=*/nullptr, out);
  stream_.Enqueue([this, x, params, out] {
    GroupNormalizer(kernels_, pool_, workspace_, x, params).Run(/*residual=*/Tensor(), cpu::Elementwise::kCopy, out);
  });
}

void CpuOps::GroupNormThenSilu(const Tensor& x, const GroupNormParams& params, const Tensor* residual, Tensor out) {
  CheckGroupNorm(x, params, residual, out);
  const Tensor added = residual != nullptr ? *residual : Tensor();
  stream_.Enqueue([this, x, params, added, out] {
    GroupNormalizer(kernels_, pool_, workspace_, x, params).Run(added, cpu::Elementwise::kSilu, out);
  });
}

}  // namespace kinora
