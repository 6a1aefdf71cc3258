// Test only: work whose result tells whether streams waited for each other.
#ifndef KINORA_TESTS_PARALLEL_CHAINS_H_
#define KINORA_TESTS_PARALLEL_CHAINS_H_

#include "engine/parallel/exec.h"

namespace kinora {

// Two chains over tensors that go on, each through memory of its own that the other's may not touch, and a sum of both
// that is what they begin with.
struct Chains {
  explicit Chains(Exec& exec)
      : x(exec.arena.Alloc(DType::kF32, {24, 64})),
        y(exec.arena.Alloc(DType::kF32, x.shape())),
        z(exec.arena.Alloc(DType::kF32, x.shape())) {
    exec.ops.Fill(1.0f, x);
  }
  Tensor x, y, z;  // z: of the branch

  void Link(Exec& exec, const Tensor& to, float factor) const {
    ArenaScope temp(exec.arena);
    const Tensor first = temp.Alloc(DType::kF32, x.shape()), second = temp.Alloc(DType::kF32, x.shape());
    exec.ops.Scale(x, factor, first);
    exec.ops.Scale(first, 0.5f, second);
    exec.ops.Add(first, second);
    exec.ops.Scale(second, 1.0f, to);
  }
  // x becomes x · (1 + 1.5 · (0.5 − 1.5)).
  static constexpr float kRound = -0.5f;
  void Round(Exec& exec) const {
    Concurrently(
        exec, [&](Exec& e) { Link(e, y, 0.5f); }, [&](Exec& e) { Link(e, z, -1.5f); });
    exec.ops.Add(y, x);
    exec.ops.Add(z, x);
  }
  static constexpr int kRounds = 4;
  void Run(Exec& exec) const {
    for (int i = 0; i < kRounds; ++i) Round(exec);
  }
};

}  // namespace kinora

#endif  // KINORA_TESTS_PARALLEL_CHAINS_H_
