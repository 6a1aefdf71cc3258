#include "engine/weights/weight_set.h"

#include <list>

#include "absl/container/inlined_vector.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {

absl::Status WeightRecipe::WithRows(absl::FunctionRef<absl::Status(const WeightRows& rows)> use) const {
  const DType dtype = CommonType(tensors);
  const auto rows = [&](int64_t begin, int64_t end, void* to) { return read(tensors, dtype, begin, end, to); };
  return use({.out = out, .taps = taps, .in = in, .count = count, .dtype = dtype, .read = rows});
}

void WeightSet::Add(WeightRecipe recipe, std::vector<std::shared_ptr<WeightStorage>> storage) {
  for (const LocatedTensor& tensor : recipe.tensors) by_tensor_[tensor.name].push_back(entries_.size());
  entries_.push_back({.recipe = std::move(recipe), .storage = std::move(storage)});
}

absl::Status WeightSet::RewriteEntry(const WeightDeltas& deltas, Ops& ops, Entry& entry) const {
  WeightRecipe recipe = entry.recipe;
  std::list<LowRankDelta> read;  // of this matrix alone: all of a large LoRA need not lie in memory
  entry.changed = true;          // also if it fails half-way
  bool any = false;
  for (LocatedTensor& tensor : recipe.tensors) {
    tensor.not_finite = std::make_shared<std::atomic<bool>>(false);
    const auto terms = deltas.find(tensor.name);
    if (terms == deltas.end() || terms->second.empty()) continue;
    KINORA_ASSIGN_OR_RETURN(LowRankDelta delta, LowRankDelta::Read(terms->second));
    tensor.delta = &read.emplace_back(std::move(delta));
    any = true;
  }
  absl::InlinedVector<WeightStorage*, 4> storage;
  for (const auto& kept : entry.storage) storage.push_back(kept.get());
  KINORA_RETURN_IF_ERROR(
      recipe.WithRows([&](const WeightRows& rows) { return ops.RewriteWeights(rows, recipe.stored, storage); }));
  for (const LocatedTensor& tensor : recipe.tensors) {
    if (*tensor.not_finite) {
      return absl::InvalidArgumentError(
          Cat(checkpoint_->Describe(tensor.name), ": holds NaN or infinity with its delta"));
    }
  }
  entry.changed = any;
  return absl::OkStatus();
}

absl::Status WeightSet::Check(const std::string& name, const std::vector<LowRankTerm>& terms) const {
  Shape full;
  if (const auto found = by_tensor_.find(name); found != by_tensor_.end()) {
    for (const LocatedTensor& tensor : entries_[found->second[0]].recipe.tensors) {
      if (tensor.name == name) full = tensor.full;
    }
  } else if (const auto other = elsewhere_.find(name); other != elsewhere_.end()) {
    full = other->second;
  } else {
    return absl::InvalidArgumentError(Cat(name, ": no weight of this model is made of it, so nothing can be added"));
  }
  const int64_t rows = full.rank() == 0 ? 1 : full[0], columns = full.elements() / rows;
  for (const LowRankTerm& term : terms) {
    if (term.rows() == rows && term.columns() == columns) continue;
    return absl::InvalidArgumentError(
        Cat(name, ": the delta is [", term.rows(), ", ", term.columns(), "], the tensor [", rows, ", ", columns, "]"));
  }
  return absl::OkStatus();
}

absl::Status WeightSet::Rewrite(const WeightDeltas& deltas, Ops& ops, absl::FunctionRef<absl::Status()> on_weight) {
  std::vector<bool> wanted(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) wanted[i] = entries_[i].changed;
  for (const auto& [name, terms] : deltas) {
    KINORA_RETURN_IF_ERROR(Check(name, terms));
    const auto found = by_tensor_.find(name);
    if (found == by_tensor_.end()) continue;
    for (const size_t i : found->second) wanted[i] = true;
  }
  KINORA_RETURN_IF_ERROR(ops.stream().Synchronize());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!wanted[i]) continue;
    KINORA_RETURN_IF_ERROR(RewriteEntry(deltas, ops, entries_[i]));
    KINORA_RETURN_IF_ERROR(on_weight());
  }
  return absl::OkStatus();
}

}  // namespace kinora
