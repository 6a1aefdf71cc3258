// Predicts the time of stages of one kind:  seconds = a · FLOPs + b · tokens + c · launches,  a, b, c ≥ 0, fitted
// to measured times. The terms stand for arithmetic; for reading, writing and encoding each token; and for the fixed
// cost of each op call.
#ifndef KINORA_SERVER_WORKER_STAGE_FIT_H_
#define KINORA_SERVER_WORKER_STAGE_FIT_H_

#include <array>
#include <vector>

namespace kinora {

struct StageSize {
  double flops = 0, tokens = 0, launches = 0;
};

struct StageObservation {
  StageSize size;
  double seconds = 0;
  double weight = 1;
};

class StageFit {
 public:
  // Ignores observations without size or time; if none are left, predicts 0 seconds for every size. Errors are ratios,
  // in both directions, so that a stage of 10 ms counts like one of 100 s. An outlier changes the fit little.
  explicit StageFit(const std::vector<StageObservation>& observations);

  double Seconds(const StageSize& size) const;

 private:
  std::array<double, 3> seconds_per_{};  // per FLOP, token and launch
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_STAGE_FIT_H_
