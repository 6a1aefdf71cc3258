// How long stages of one kind take:  seconds = a · FLOPs + b · tokens + c · launches,  a, b, c ≥ 0, fitted to what such
// stages took. The three are what a stage is made of: arithmetic; what is read, written and encoded for each token; and
// what a call of an op costs by itself.
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
  // Without observations, and of those without size or time: 0 seconds for every size. An error is a factor, whichever
  // way, so that a stage of 10 ms counts like one of 100 s; one observation that is far off moves the others by little.
  explicit StageFit(const std::vector<StageObservation>& observations);

  double Seconds(const StageSize& size) const;

 private:
  std::array<double, 3> seconds_per_{};  // FLOP, token, launch
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_STAGE_FIT_H_
