// One rank of the medium-sized transformer (docs/performance.md), bf16, with random weights: a captured forward pass.
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
  // Creates the mesh's rank; the mesh must outlive it. On a dry mesh it computes its part with whatever is in the
  // buffers for the other ranks' data. On another mesh, all ranks must be created and run concurrently. `threads` is
  // the number for its ops.
  TransformerRank(const Mesh& mesh, int64_t video_tokens, int threads);
  ~TransformerRank();

  void Run();
  double flops() const { return flops_; }  // this rank's, per pass

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
