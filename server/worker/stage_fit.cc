#include "server/worker/stage_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace kinora {
namespace {

using Triple = std::array<double, 3>;

// A ratio of up to 1.1 is noise. The influence of a larger error is bounded to that of this one (Huber), so that a run
// that the machine delayed, or that did not do what was planned, changes the fit little.
constexpr double kNoise = 0.1;
constexpr int kRounds = 30;
// Sizes in the same proportion cannot separate the three terms. A small penalty on tokens and launches makes FLOPs
// explain as much as they can.
constexpr double kRidge = 1e-4;

struct Row {
  Triple x;
  double seconds, weight;
};

Triple AsTriple(const StageSize& size) { return {size.flops, size.tokens, size.launches}; }

double Dot(const Triple& a, const Triple& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

struct Normal {  // of weighted least squares: minimise θᵀAθ − 2bᵀθ
  std::array<Triple, 3> a{};
  Triple b{};
};

// Returns the minimum with θ_j = 0 for every j not in `active`, by elimination; nothing if it is not unique or has a
// negative θ_j.
std::optional<Triple> Solve(Normal n, unsigned active) {
  for (int i = 0; i < 3; ++i) {
    if (active >> i & 1) continue;
    for (int j = 0; j < 3; ++j) n.a[i][j] = n.a[j][i] = i == j ? 1 : 0;
    n.b[i] = 0;
  }
  Triple theta = n.b;
  for (int k = 0; k < 3; ++k) {  // symmetric and positive definite: no pivoting
    if (!(n.a[k][k] > 1e-12)) return std::nullopt;
    for (int i = k + 1; i < 3; ++i) {
      const double factor = n.a[i][k] / n.a[k][k];
      for (int j = k; j < 3; ++j) n.a[i][j] -= factor * n.a[k][j];
      theta[i] -= factor * theta[k];
    }
  }
  for (int k = 2; k >= 0; --k) {
    for (int j = k + 1; j < 3; ++j) theta[k] -= n.a[k][j] * theta[j];
    theta[k] /= n.a[k][k];
    if (theta[k] < 0) return std::nullopt;
  }
  return theta;
}

// Returns the minimum over θ ≥ 0: the best of the minima on the seven faces of that cone, because the function is
// convex.
Triple NonNegativeMinimum(const Normal& n) {
  Triple best{};
  double least = 0;
  for (unsigned active = 1; active < 8; ++active) {
    const std::optional<Triple> theta = Solve(n, active);
    if (!theta) continue;
    double value = -2 * Dot(n.b, *theta);
    for (int i = 0; i < 3; ++i) value += (*theta)[i] * Dot(n.a[i], *theta);
    if (value < least) {
      least = value;
      best = *theta;
    }
  }
  return best;
}

// Minimises |log(fitted / measured)| by iteratively reweighted least squares. The error is a ratio, so that a stage of
// 10 ms counts like one of 100 s, and twice as long like half as long. Near 1 its square is (f − s)² / (f · s); the
// denominator uses f of the previous round.
Triple Minimise(const std::vector<Row>& rows) {
  std::vector<double> fitted(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) fitted[i] = rows[i].seconds;
  Triple theta{};
  for (int round = 0; round < kRounds; ++round) {
    Normal n;
    for (size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      const double error = std::abs(std::log(fitted[i] / row.seconds));
      const double weight = row.weight / (fitted[i] * row.seconds) * (error > kNoise ? kNoise / error : 1);
      for (int j = 0; j < 3; ++j) {
        n.b[j] += weight * row.x[j] * row.seconds;
        for (int k = 0; k < 3; ++k) n.a[j][k] += weight * row.x[j] * row.x[k];
      }
    }
    const double total = n.a[0][0] + n.a[1][1] + n.a[2][2];
    n.a[1][1] += kRidge * total;
    n.a[2][2] += kRidge * total;
    theta = NonNegativeMinimum(n);
    for (size_t i = 0; i < rows.size(); ++i) {  // bounded, so that no weight diverges
      fitted[i] = std::clamp(Dot(theta, rows[i].x), rows[i].seconds / 100, rows[i].seconds * 100);
    }
  }
  return theta;
}

}  // namespace

StageFit::StageFit(const std::vector<StageObservation>& observations) {
  std::vector<Row> rows;
  for (const StageObservation& o : observations) {
    const Triple x = AsTriple(o.size);
    const bool usable = o.seconds > 0 && o.weight > 0 && *std::min_element(x.begin(), x.end()) >= 0 &&
                        *std::max_element(x.begin(), x.end()) > 0;
    if (usable) rows.push_back({.x = x, .seconds = o.seconds, .weight = o.weight});
  }
  // Sizes differ by many orders of magnitude, so each column is scaled by its largest value.
  Triple largest{};
  for (const Row& row : rows) {
    for (int j = 0; j < 3; ++j) largest[j] = std::max(largest[j], row.x[j]);
  }
  for (Row& row : rows) {
    for (int j = 0; j < 3; ++j) row.x[j] /= largest[j] > 0 ? largest[j] : 1;
  }
  seconds_per_ = Minimise(rows);
  for (int j = 0; j < 3; ++j) seconds_per_[j] /= largest[j] > 0 ? largest[j] : 1;
}

double StageFit::Seconds(const StageSize& size) const { return Dot(seconds_per_, AsTriple(size)); }

}  // namespace kinora
