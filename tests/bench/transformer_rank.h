// A rank of the transformer of middle size (docs/performance.md), bf16, random weights: a forward pass, captured.
#ifndef KINORA_TESTS_BENCH_TRANSFORMER_RANK_H_
#define KINORA_TESTS_BENCH_TRANSFORMER_RANK_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/model/transformer.h"
#include "engine/ops/backend.h"
#include "engine/parallel/exec.h"
#include "engine/tensor/arena.h"

namespace kinora {

class TransformerRank {
 public:
  // That rank of the mesh, which outlives it. Of a dry mesh it computes its part on what lies in its memory where the
  // others' would come in; of another all ranks construct theirs and run at the same time. threads: of its operations.
  TransformerRank(const Mesh& mesh, int64_t video_tokens, int threads);
  ~TransformerRank();

  void Run();
  double flops() const { return flops_; }  // of one pass, this rank's

 private:
  struct Pass;
  Exec On(Backend& backend, Arena& arena) const;

  const Mesh& mesh_;
  const int64_t video_tokens_;
  double flops_ = 0;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> model_;
  std::optional<Arena> arena_;
  std::optional<Exec> exec_;
  std::unique_ptr<Pass> pass_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_TRANSFORMER_RANK_H_
