// Distributes a chain of layers over all ranks of a mesh by whole layers.
#ifndef KINORA_ENGINE_PARALLEL_LAYER_RELAY_H_
#define KINORA_ENGINE_PARALLEL_LAYER_RELAY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/parallel/exec.h"

namespace kinora {

struct LayerRun {  // consecutive layers of a chain
  int64_t begin = 0, end = 0;
  bool holds(int64_t layer) const { return begin <= layer && layer < end; }
  bool empty() const { return begin == end; }
};

// Each rank holds consecutive layers. The rank that holds the next layer computes it, and passes the activations on
// after its last. No sum changes, so any mesh gives the bits of one rank, in the time of one, and head counts need not
// be divisible. In a group of one nothing moves.
class LayerRelay {
 public:
  // sizes: one per layer, at least one, in any unit. A rank holds the layers that begin in its even share of the sum:
  // at most that share plus one layer, or none. Rank 0 holds the first layer.
  LayerRelay(const Mesh& mesh, absl::Span<const int64_t> sizes);

  // The layers of this rank.
  const LayerRun& held() const { return held_; }
  // A mesh of one rank, for which the held layers are loaded and on which they run.
  const Mesh& alone() const { return *alone_; }

  // Called by all ranks. Calls `layer` for every layer held here, in order, to update `carried`: contiguous tensors of
  // the same shapes on every rank, passed from rank to rank by broadcasts over world(), and equal on all ranks at the
  // end.
  void Run(Exec& exec, absl::Span<const Tensor> carried,
           absl::FunctionRef<void(Exec& alone, int64_t layer)> layer) const;

 private:
  std::vector<int> owners_;  // rank per layer, ascending
  LayerRun held_;
  std::unique_ptr<Mesh> alone_ = Mesh::Single();
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_LAYER_RELAY_H_
