#include "engine/weights/weight_set.h"

#include <deque>
#include <list>

#include "absl/container/inlined_vector.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {
namespace {

// Elements of the weights that are rewritten concurrently: enough that many small weights occupy the threads. The LoRA
// factors of these weights are in memory at once.
constexpr int64_t kAtOnce = int64_t{1} << 21;

}  // namespace

absl::Status WeightRecipe::WithRows(absl::FunctionRef<absl::Status(const WeightRows& rows)> use) const {
  const DType dtype = CommonType(tensors);
  const auto rows = [&](int64_t begin, int64_t end, void* to) { return read(tensors, dtype, begin, end, to); };
  return use({.out = out, .taps = taps, .in = in, .count = count, .dtype = dtype, .read = rows});
}

void WeightSet::Add(WeightRecipe recipe, std::vector<std::shared_ptr<WeightStorage>> storage) {
  for (const LocatedTensor& tensor : recipe.tensors) by_tensor_[tensor.name].push_back(entries_.size());
  entries_.push_back({.recipe = std::move(recipe), .storage = std::move(storage)});
}

// A product of a LoRA for the rows that a recipe makes of one tensor, as the ops read it.
class TermRows {
 public:
  // first: row of the matrix. part: of the tensor. term must outlive the object, which must not move.
  TermRows(const LowRankTerm& term, const Block& part, int64_t first)
      : term_(term), part_(part), first_(first), dtype_(Type(term)) {}

  WeightOps::RowsProduct View() const {
    const int64_t rank = term_.down.rows();
    return {.first = first_,
            .up = {.out = part_.rows, .in = rank, .dtype = dtype_, .read = up_},
            .down = {.out = rank, .in = part_.columns, .dtype = dtype_, .read = down_},
            .factor = term_.strength};
  }

 private:
  using Read = std::function<absl::Status(int64_t begin, int64_t end, void* to)>;
  static DType Type(const LowRankTerm& term) {
    return term.up.dtype() == DType::kBF16 && term.down.dtype() == DType::kBF16 ? DType::kBF16 : DType::kF32;
  }

  const LowRankTerm& term_;
  const Block part_;
  const int64_t first_;
  const DType dtype_;
  const Read up_ = [this](int64_t begin, int64_t end, void* to) {
    const Block rows{.row = part_.row + begin, .rows = end - begin, .columns = term_.up.columns()};
    return term_.up.Read(rows, dtype_, to);
  };
  const Read down_ = [this](int64_t begin, int64_t end, void* to) {
    const Block rows{.row = begin, .rows = end - begin, .column = part_.column, .columns = part_.columns};
    return term_.down.Read(rows, dtype_, to);
  };
};

// An entry that is being rewritten, with its deltas. It must not move meanwhile.
struct WeightSet::Rewriting {
  explicit Rewriting(Entry& of) : entry(of), recipe(of.recipe) {}

  Entry& entry;
  WeightRecipe recipe;
  std::list<LowRankDelta> deltas{};  // added by the host to what it reads, or else
  std::list<TermRows> terms{};       // added by the ops
  std::vector<WeightOps::RowsProduct> products{};
  int64_t bad_row = -1;
  absl::InlinedVector<WeightStorage*, 4> storage{};
  std::function<absl::Status(int64_t begin, int64_t end, void* to)> read{};
  int64_t elements() const { return recipe.out * recipe.taps * recipe.in * recipe.count; }
  // Whether a value of this tensor is not finite.
  bool bad(size_t tensor) const {
    const bool with_products = bad_row >= 0 && bad_row / recipe.part->rows == static_cast<int64_t>(tensor);
    return with_products || *recipe.tensors[tensor].not_finite;
  }
};

// products: whether the ops can add them.
absl::Status WeightSet::Prepare(const WeightDeltas& deltas, bool products, Rewriting& one) {
  const std::optional<Block>& part = one.recipe.part;
  for (size_t i = 0; i < one.recipe.tensors.size(); ++i) {
    LocatedTensor& tensor = one.recipe.tensors[i];
    tensor.not_finite = std::make_shared<std::atomic<bool>>(false);
    const auto terms = deltas.find(tensor.name);
    if (terms == deltas.end() || terms->second.empty()) continue;
    if (products && part.has_value()) {
      for (const LowRankTerm& term : terms->second) {
        one.products.push_back(one.terms.emplace_back(term, *part, static_cast<int64_t>(i) * part->rows).View());
      }
      continue;
    }
    KINORA_ASSIGN_OR_RETURN(LowRankDelta delta, LowRankDelta::Read(terms->second));
    tensor.delta = &one.deltas.emplace_back(std::move(delta));
  }
  for (const auto& kept : one.entry.storage) one.storage.push_back(kept.get());
  one.read = [&one, dtype = CommonType(one.recipe.tensors)](int64_t begin, int64_t end, void* to) {
    return one.recipe.read(one.recipe.tensors, dtype, begin, end, to);
  };
  return absl::OkStatus();
}

absl::Status WeightSet::RewriteSome(std::deque<Rewriting>& some, Ops& ops,
                                    absl::FunctionRef<absl::Status()> on_weight) const {
  std::vector<WeightOps::Rewriting> rewritings;
  for (Rewriting& one : some) {
    one.entry.changed = true;  // also if the rewriting fails half-way
    const WeightRecipe& recipe = one.recipe;
    rewritings.push_back({.rows = {.out = recipe.out,
                                   .taps = recipe.taps,
                                   .in = recipe.in,
                                   .count = recipe.count,
                                   .dtype = CommonType(recipe.tensors),
                                   .read = one.read},
                          .dtype = recipe.stored,
                          .storage = one.storage,
                          .products = one.products,
                          .bad_row = &one.bad_row});
  }
  KINORA_RETURN_IF_ERROR(ops.RewriteWeights(rewritings));
  for (const Rewriting& one : some) {
    for (size_t i = 0; i < one.recipe.tensors.size(); ++i) {
      if (!one.bad(i)) continue;
      return absl::OutOfRangeError(Cat(one.recipe.tensors[i].name, " holds NaN or infinity with its delta"));
    }
    one.entry.changed = !one.deltas.empty() || !one.products.empty();
    KINORA_RETURN_IF_ERROR(on_weight());
  }
  some.clear();
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
  std::deque<Rewriting> some;
  int64_t elements = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!wanted[i]) continue;
    KINORA_RETURN_IF_ERROR(Prepare(deltas, ops.adds_products(), some.emplace_back(entries_[i])));
    elements += some.back().elements();
    if (elements < kAtOnce) continue;
    KINORA_RETURN_IF_ERROR(RewriteSome(some, ops, on_weight));
    elements = 0;
  }
  return some.empty() ? absl::OkStatus() : RewriteSome(some, ops, on_weight);
}

}  // namespace kinora
