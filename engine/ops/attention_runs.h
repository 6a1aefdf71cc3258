// How a batched attention is divided into calls of a library whose batches lie at equal distances.
#ifndef KINORA_ENGINE_OPS_ATTENTION_RUNS_H_
#define KINORA_ENGINE_OPS_ATTENTION_RUNS_H_

#include "absl/container/inlined_vector.h"
#include "engine/ops/op_params.h"

namespace kinora {

// Query batches [first, first + count) whose keys lie `step` sequences apart.
struct BatchRun {
  int first, count, step;
  // Whether the batches read the same keys, so that their queries form one sequence.
  bool stacked() const { return count > 1 && step == 0; }
};

// Returns the fewest runs that cover all batches in order. Batches with the same keys form a run only if every query
// sees every key alike: without a causal mask and a bias.
inline absl::InlinedVector<BatchRun, kMaxBatch> BatchRuns(const AttentionOptions& o) {
  const bool stackable = !o.causal && !o.bias.defined();
  absl::InlinedVector<BatchRun, kMaxBatch> runs;
  for (int b = 0; b < o.batch; ++b) {
    const int step = b > 0 ? o.kv_batch[b] - o.kv_batch[b - 1] : -1;
    const bool fits = step > 0 || (step == 0 && stackable);
    if (runs.empty() || !fits || (runs.back().count > 1 && step != runs.back().step)) {
      runs.push_back({.first = b, .count = 1, .step = 0});
    } else {
      runs.back().step = step;
      ++runs.back().count;
    }
  }
  return runs;
}

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_ATTENTION_RUNS_H_
