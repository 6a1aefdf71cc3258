// The matrices of a loaded model, by the tensors they were made of, so that they can be rewritten in place to apply or
// remove a LoRA.
#ifndef KINORA_ENGINE_WEIGHTS_WEIGHT_SET_H_
#define KINORA_ENGINE_WEIGHTS_WEIGHT_SET_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/ops/ops.h"
#include "engine/weights/file_rows.h"

namespace kinora {

// How a matrix, or several of one shape, are made from tensors of a checkpoint.
struct WeightRecipe {
  // As WeightRows::read, from `tensors` or their replacements. dtype: of the rows.
  using Read = std::function<absl::Status(absl::Span<const LocatedTensor> tensors, DType dtype, int64_t begin,
                                          int64_t end, void* to)>;

  std::vector<LocatedTensor> tensors;
  int64_t out = 0, taps = 1, in = 0;  // of each matrix
  int count = 1;                      // matrices
  DType stored = DType::kF32;
  Read read;
  // The part of each tensor, if the one matrix is a stack of such parts, row after row.
  std::optional<Block> part = {};

  // Calls `use` with the rows, in the narrowest dtype that holds all values of the tensors.
  absl::Status WithRows(absl::FunctionRef<absl::Status(const WeightRows& rows)> use) const;
};

// Shares the storage of the weights. Its addresses never change, so layers and captured graphs remain valid. Not
// thread-safe.
class WeightSet {
 public:
  // checkpoint: stays open while the set exists; null in a dry run without a file.
  explicit WeightSet(std::shared_ptr<const Checkpoint> checkpoint) : checkpoint_(std::move(checkpoint)) {}

  void Add(WeightRecipe recipe, std::vector<std::shared_ptr<WeightStorage>> storage);

  // Registers a tensor whose weight another rank holds, so that Rewrite accepts and skips its deltas.
  void AddElsewhere(const LocatedTensor& tensor) { elsewhere_[tensor.name] = tensor.full; }

  // Sets the weights to the checkpoint's plus `deltas`, whatever they were before: {} restores the bits of the load.
  // Waits for the stream, then rewrites the weights that have or had a delta, some at a time. Does not keep the deltas.
  // Fails with InvalidArgument, before rewriting anything, naming a tensor that no weight was made of or whose delta
  // has another shape; with OutOfRange, naming a tensor that is not finite with its delta; with I/O errors; and with
  // the failure of on_weight, called after each weight. After the last three the weights are a mixture until a call
  // succeeds.
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
  static absl::Status Prepare(const WeightDeltas& deltas, bool products, Rewriting& one);
  absl::Status RewriteSome(std::deque<Rewriting>& some, Ops& ops, absl::FunctionRef<absl::Status()> on_weight) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<Entry> entries_;
  std::map<std::string, std::vector<size_t>, std::less<>> by_tensor_;
  std::map<std::string, Shape, std::less<>> elsewhere_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_WEIGHT_SET_H_
