#include "engine/weights/weight_set.h"

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
  bool any = false;
  for (LocatedTensor& tensor : recipe.tensors) {
    tensor.not_finite = std::make_shared<std::atomic<bool>>(false);
    const auto delta = deltas.find(tensor.name);
    if (delta == deltas.end()) continue;
    tensor.delta = delta->second;
    any = true;
  }
  absl::InlinedVector<WeightStorage*, 4> storage;
  for (const auto& kept : entry.storage) storage.push_back(kept.get());
  entry.changed = true;  // also if it fails half-way
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

absl::Status WeightSet::CheckShape(const Entry& entry, const std::string& name, const WeightDelta& delta) {
  for (const LocatedTensor& tensor : entry.recipe.tensors) {
    if (tensor.name != name) continue;
    const int64_t rows = tensor.full.rank() == 0 ? 1 : tensor.full[0], columns = tensor.full.elements() / rows;
    if (delta.rows() == rows && delta.columns() == columns) continue;
    return absl::InvalidArgumentError(Cat(name, ": the delta is [", delta.rows(), ", ", delta.columns(),
                                          "], the tensor [", rows, ", ", columns, "]"));
  }
  return absl::OkStatus();
}

absl::Status WeightSet::Rewrite(const WeightDeltas& deltas, Ops& ops) {
  std::vector<bool> wanted(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) wanted[i] = entries_[i].changed;
  for (const auto& [name, delta] : deltas) {
    const auto found = by_tensor_.find(name);
    if (found == by_tensor_.end()) {
      return absl::InvalidArgumentError(Cat(name, ": no weight of this model is made of it, so nothing can be added"));
    }
    for (const size_t i : found->second) {
      KINORA_RETURN_IF_ERROR(CheckShape(entries_[i], name, *delta));
      wanted[i] = true;
    }
  }
  KINORA_RETURN_IF_ERROR(ops.stream().Synchronize());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (wanted[i]) KINORA_RETURN_IF_ERROR(RewriteEntry(deltas, ops, entries_[i]));
  }
  return absl::OkStatus();
}

}  // namespace kinora
