// Test only: work whose result shows whether streams waited for each other.
#ifndef KINORA_TESTS_PARALLEL_CHAINS_H_
#define KINORA_TESTS_PARALLEL_CHAINS_H_

#include "engine/parallel/exec.h"

namespace kinora {

// Two concurrent chains over x, each with its own temporary memory that the other must not touch. The sum of their
// results updates x, the input of the next round.
struct Chains {
  explicit Chains(Exec& exec)
      : x(exec.arena.Alloc(DType::kF32, {24, 64})),
        y(exec.arena.Alloc(DType::kF32, x.shape())),
        z(exec.arena.Alloc(DType::kF32, x.shape())) {
    exec.ops.Fill(1.0f, x);
  }
  Tensor x, y, z;  // z: written by the branch

  void Link(Exec& exec, const Tensor& to, float factor) const {
    ArenaScope temp(exec.arena);
    const Tensor first = temp.Alloc(DType::kF32, x.shape()), second = temp.Alloc(DType::kF32, x.shape());
    exec.ops.Scale(x, factor, first);
    exec.ops.Scale(first, 0.5f, second);
    exec.ops.Add(first, second);
    exec.ops.Scale(second, 1.0f, to);
  }
  // Updates x to x · (1 + 1.5 · (0.5 − 1.5)).
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
