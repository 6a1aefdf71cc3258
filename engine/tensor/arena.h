// Bump allocation for memory with the lifetime of a request or a step (docs/architecture.md "Three lifetimes of
// memory").
#ifndef KINORA_ENGINE_TENSOR_ARENA_H_
#define KINORA_ENGINE_TENSOR_ARENA_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "engine/tensor/buffer.h"

namespace kinora {

// Memory that is reserved once. Addresses depend only on the order of allocations, so repeated work gets the same
// addresses and captured graphs stay valid. Not thread-safe. CHECK-fails when the memory is exhausted: the memory plan
// was too small.
class Arena {
 public:
  explicit Arena(Buffer memory)
      : memory_(std::move(memory)), dry_(memory_.data() == nullptr), capacity_(memory_.bytes()) {}
  // Returns an arena without memory and without a limit, which measures how much a run would need.
  static Arena Dry() { return Arena(Buffer()); }

  Tensor Alloc(DType dtype, const Shape& shape);  // 64-byte aligned, undefined contents

  // Calls `body`, then keeps its peak usage in use: later allocations overlap no memory that `body` used.
  void KeepAllOf(absl::FunctionRef<void()> body);

  // Ends allocations at `capacity` bytes from now on. The memory behind them is free for contents that outlive scopes.
  // CHECK-fails if it is in use.
  void EndAt(int64_t capacity);
  // Returns memory behind the allocations, at a multiple of 64 bytes from the start. CHECK-fails if it is not there.
  Tensor Behind(int64_t offset, DType dtype, const Shape& shape) const;
  int64_t bytes() const { return memory_.bytes(); }  // of allocations and of the memory behind them

  bool dry() const { return dry_; }
  int64_t used() const { return used_; }
  // Returns the address of the next allocation; if it is unchanged, so are the addresses of all later allocations. Null
  // if dry.
  const void* Top() const { return dry_ ? nullptr : static_cast<const char*>(memory_.data()) + used_; }
  int64_t peak() const { return peak_; }          // most bytes in use at once since construction or ResetPeak
  int64_t capacity() const { return capacity_; }  // for allocations
  void ResetPeak() { peak_ = used_; }

 private:
  friend class ArenaScope;
  Buffer memory_;
  bool dry_;
  int64_t capacity_;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

// Releases, when it ends, everything allocated through it or from its arena during its lifetime. Scopes nest.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
  ~ArenaScope() { arena_.used_ = mark_; }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

  Tensor Alloc(DType dtype, const Shape& shape) { return arena_.Alloc(dtype, shape); }

 private:
  Arena& arena_;
  const int64_t mark_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TENSOR_ARENA_H_
