// Shared memory, asynchronous copies into it, and fences. Compiled without -fsanitize=thread.
#include <cstdlib>
#include <cstring>

#include "tests/simt/device_properties.h"
#include "tests/simt/device_state.h"
#include "tests/simt/executor.h"

namespace kinora::simt {
namespace {

constexpr size_t kAlignment = 128;
constexpr int kNaN = 0xff;  // byte value; a NaN in float and bf16

}  // namespace

void Executor::BeginShared() {
#ifdef KINORA_SIMT_TSAN
  for (auto& [declaration, array] : shared_) old_shared_.push_back(std::move(array));
  shared_.clear();
#else
  for (auto& [declaration, array] : shared_) std::memset(array.memory.get(), kNaN, array.bytes);
#endif
}

void* Executor::Shared(const void* declaration, size_t bytes) {
  const Unwatched unwatched;
  if (const auto found = shared_.find(declaration); found != shared_.end()) return found->second.memory.get();
  if (declaration == nullptr) bytes = launch_->shape.shared;
  size_t total = bytes + (declaration == nullptr ? 0 : launch_->shape.shared);
  for (const auto& [other, array] : shared_) total += other == nullptr ? 0 : array.bytes;
  if (total > Properties().sharedMemPerBlockOptin) {
    Fail(std::to_string(total) + " bytes of shared memory; a block can have " +
         std::to_string(Properties().sharedMemPerBlockOptin));
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, bytes) != 0) abort();
  std::memset(memory, kNaN, bytes);
  SharedArray& array = shared_[declaration];
  array = {.memory = {static_cast<char*>(memory), [](void* p) { free(p); }}, .bytes = bytes};
  return memory;
}

bool Executor::CopyLater(void* to, const void* from) {
  const Unwatched unwatched;
  const auto bits = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  ++Counters().shared_copies;
  if (bits % 16 != 0) Fail("an asynchronous copy of memory that is not aligned to 16 bytes");
  if (Random() % 4 == 3) return false;
  Current().copies.push_back({to, from, Current().group});
  return true;
}

bool Executor::NextCopy(int groups_left, void** to, const void** from) {
  const Unwatched unwatched;
  Thread& t = Current();
  if (t.copies.empty() || t.copies.front().group >= t.group - groups_left) return false;
  *to = t.copies.front().to;
  *from = t.copies.front().from;
  t.copies.erase(t.copies.begin());
  return true;
}

void Executor::Fence() {
  Acquire(&launch_tokens_->fence);
  Release(&launch_tokens_->fence);
}

void* Shared(const void* declaration, size_t bytes) { return Executor::Get().Shared(declaration, bytes); }
bool CopyLater(void* to, const void* from) { return Executor::Get().CopyLater(to, from); }
void CommitCopyGroup() { Executor::Get().CommitCopyGroup(); }
bool NextCopy(int groups_left, void** to, const void** from) { return Executor::Get().NextCopy(groups_left, to, from); }
void Fence() { Executor::Get().Fence(); }

}  // namespace kinora::simt
