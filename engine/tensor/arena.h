// Bump allocation for what lives as long as a request or a step (docs/architecture.md "Three lifetimes of memory").
#ifndef KINORA_ENGINE_TENSOR_ARENA_H_
#define KINORA_ENGINE_TENSOR_ARENA_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "engine/tensor/buffer.h"

namespace kinora {

// Memory reserved once. Allocation order decides addresses, so the same work gets the same addresses again, which is
// what makes a captured graph valid. Not thread-safe: one arena per branch of work. Running out is a mistake of the
// memory plan and CHECK-fails.
class Arena {
 public:
  explicit Arena(Buffer memory) : memory_(std::move(memory)), dry_(memory_.data() == nullptr) {}
  // A dry arena has no end and no memory: it measures what a run would need.
  static Arena Dry() { return Arena(Buffer()); }

  Tensor Alloc(DType dtype, const Shape& shape);  // 64-byte aligned, undefined contents

  // Calls `body`, and leaves in use what it had in use at most: what is allocated next overlaps nothing of it.
  void KeepAllOf(absl::FunctionRef<void()> body);

  bool dry() const { return dry_; }
  int64_t used() const { return used_; }
  // Where the next allocation lies: equal marks mean equal addresses of all that follows. Null if dry.
  const void* Top() const { return dry_ ? nullptr : static_cast<const char*>(memory_.data()) + used_; }
  int64_t peak() const { return peak_; }  // most bytes in use at once since construction or ResetPeak
  int64_t capacity() const { return memory_.bytes(); }
  void ResetPeak() { peak_ = used_; }

 private:
  friend class ArenaScope;
  Buffer memory_;
  bool dry_;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

// Everything allocated through the scope, or from its arena while it lives, is released when it ends. Scopes nest.
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
