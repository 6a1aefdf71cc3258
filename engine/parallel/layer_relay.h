// A chain of layers that is spread over all ranks of a mesh by whole layers.
#ifndef KINORA_ENGINE_PARALLEL_LAYER_RELAY_H_
#define KINORA_ENGINE_PARALLEL_LAYER_RELAY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/parallel/exec.h"

namespace kinora {

struct LayerRun {  // neighbours of a chain
  int64_t begin = 0, end = 0;
  bool holds(int64_t layer) const { return begin <= layer && layer < end; }
  bool empty() const { return begin == end; }
};

// Each rank holds a run of neighbours. What flows through the chain is computed by the rank that holds its next layer,
// and then passed on: no sum changes, so any mesh gives the bits of one rank, in the time of one, and no number of
// heads has to divide by anything. In a group of one nothing moves.
class LayerRelay {
 public:
  // sizes: of the layers, at least one, in any unit. A rank holds those that begin in its even share of the sum: no
  // more than that share and one layer, and nothing if it begins none. The first layer is rank 0's.
  LayerRelay(const Mesh& mesh, absl::Span<const int64_t> sizes);

  const LayerRun& held() const { return held_; }  // by this rank
  // A rank alone: what the layers are loaded for, and run on.
  const Mesh& alone() const { return *alone_; }

  // All ranks call it. `layer` is called for every layer held here, in order, and works on `carried`: contiguous
  // tensors of the same shapes on every rank, which come from the rank before and go to the next one, by broadcasts
  // over world(); at the end they are equal on all.
  void Run(Exec& exec, absl::Span<const Tensor> carried,
           absl::FunctionRef<void(Exec& alone, int64_t layer)> layer) const;

 private:
  std::vector<int> owners_;  // of the layers; grows
  LayerRun held_;
  std::unique_ptr<Mesh> alone_ = Mesh::Single();
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_LAYER_RELAY_H_
