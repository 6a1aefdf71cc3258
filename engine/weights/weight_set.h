// The matrices of a loaded model by the tensors they were made of, so that they can be made anew in place: with a LoRA,
// and without it again.
#ifndef KINORA_ENGINE_WEIGHTS_WEIGHT_SET_H_
#define KINORA_ENGINE_WEIGHTS_WEIGHT_SET_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/ops/ops.h"
#include "engine/weights/file_rows.h"

namespace kinora {

// How a matrix, or several of one shape, come from tensors of a checkpoint.
struct WeightRecipe {
  // As WeightRows::read, from `tensors` or others in their place; dtype: of the rows.
  using Read = std::function<absl::Status(absl::Span<const LocatedTensor> tensors, DType dtype, int64_t begin,
                                          int64_t end, void* to)>;

  std::vector<LocatedTensor> tensors;
  int64_t out = 0, taps = 1, in = 0;  // of each matrix
  int count = 1;                      // matrices
  DType stored = DType::kF32;
  Read read;

  // Calls `use` with the rows: their dtype is the narrowest that holds all that the tensors give.
  absl::Status WithRows(absl::FunctionRef<absl::Status(const WeightRows& rows)> use) const;
};

// Shares the storage of the weights, whose addresses never change: layers and captured graphs need not know. Not
// thread-safe.
class WeightSet {
 public:
  // checkpoint: kept open for as long as the set lives; null in a dry run without a file.
  explicit WeightSet(std::shared_ptr<const Checkpoint> checkpoint) : checkpoint_(std::move(checkpoint)) {}

  void Add(WeightRecipe recipe, std::vector<std::shared_ptr<WeightStorage>> storage);

  // For a tensor whose weight another rank holds: a delta for it is nothing to this one.
  void AddElsewhere(const LocatedTensor& tensor) { elsewhere_[tensor.name] = tensor.full; }

  // Makes the weights those of the checkpoint plus `deltas`, whatever they were before: {} gives the bits of the load
  // back. Waits for the stream, then rewrites what has a delta or had one, some at
  // a time. The deltas are not kept. InvalidArgument
  // naming a tensor that no weight was made of or whose delta has another shape, before anything is rewritten, or one
  // that holds values that are not finite with its delta; I/O; what on_weight, called after each, says unless OK. After
  // the latter three the weights are a mixture until a call succeeds.
  absl::Status Rewrite(
      const WeightDeltas& deltas, Ops& ops,
      absl::FunctionRef<absl::Status()> on_weight = [] { return absl::OkStatus(); });

 private:
  struct Entry {
    WeightRecipe recipe;
    std::vector<std::shared_ptr<WeightStorage>> storage;
    bool changed = false;  // holds a delta, or a mixture
  };
  absl::Status Check(const std::string& name, const std::vector<LowRankTerm>& terms) const;
  struct Rewriting;
  static absl::Status Prepare(const WeightDeltas& deltas, Rewriting& one);
  absl::Status RewriteSome(std::deque<Rewriting>& some, Ops& ops, absl::FunctionRef<absl::Status()> on_weight) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<Entry> entries_;
  std::map<std::string, std::vector<size_t>, std::less<>> by_tensor_;
  std::map<std::string, Shape, std::less<>> elsewhere_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_WEIGHT_SET_H_
