#include "tests/simt/device_memory.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/simt/device_state.h"

namespace kinora::simt {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;             // like cudaMalloc's
constexpr size_t kNanBytes = size_t{4} << 20;  // size of the file

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
char* PageOf(const char* p) { return const_cast<char*>(p) - reinterpret_cast<uintptr_t>(p) % kPage; }

}  // namespace

DeviceMemory& DeviceMemory::Get() {
  static auto* const memory = new DeviceMemory;
  return *memory;
}

DeviceMemory::DeviceMemory() {
  base_ = next_ =
      static_cast<char*>(mmap(nullptr, kSpace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  nan_pages_ = memfd_create("nan", MFD_CLOEXEC);
  if (base_ == MAP_FAILED || nan_pages_ < 0 || ftruncate(nan_pages_, kNanBytes) != 0) abort();
  void* const nan = mmap(nullptr, kNanBytes, PROT_READ | PROT_WRITE, MAP_SHARED, nan_pages_, 0);
  std::memset(nan, 0xff, kNanBytes);
  munmap(nan, kNanBytes);
  if (const char* const bytes = std::getenv("KINORA_SIMULATED_MEMORY")) total_ = std::strtoll(bytes, nullptr, 10);
  if (const char* const file = std::getenv("KINORA_SIMULATED_MEMORY_FILE")) shared_ = std::make_unique<SharedUse>(file);
}

bool DeviceMemory::Inside(const Ranges& ranges, const void* p, size_t bytes) {
  const auto* const at = static_cast<const char*>(p);
  const auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return false;
  const auto& [begin, size] = *std::prev(next);
  return at + bytes <= begin + size;
}

// Maps copy-on-write pages, so that an arena of many gigabytes occupies only the part that is used.
void DeviceMemory::FillPages(char* pages, size_t bytes) {
  for (size_t done = 0; done < bytes; done += kNanBytes) {
    const size_t some = std::min(kNanBytes, bytes - done);
    if (mmap(pages + done, some, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, nan_pages_, 0) ==
        MAP_FAILED) {
      abort();
    }
  }
}

cudaError_t DeviceMemory::Allocate(size_t bytes, void** out) {
  ++Counters().allocations;
  if (bytes == 0) {
    *out = nullptr;
    return cudaSuccess;
  }
  const size_t pages = RoundUp(bytes + kAlignment, kPage);
  if (next_ + pages + kPage > base_ + kSpace) return cudaErrorMemoryAllocation;
  const auto taken = static_cast<int64_t>(bytes);
  if (shared_ != nullptr ? !shared_->Take(taken, total_) : taken > total_ - used_) return cudaErrorMemoryAllocation;
  char* const begin = next_;
  next_ += pages + kPage;
  FillPages(begin, pages);
  char* const at = begin + (pages - bytes) / kAlignment * kAlignment;
  ASAN_POISON_MEMORY_REGION(begin, at - begin);
  ASAN_POISON_MEMORY_REGION(at + bytes, begin + pages - at - bytes);
  device_[at] = bytes;
  used_ += taken;
  if (guarded_) Close();
  *out = at;
  return cudaSuccess;
}

cudaError_t DeviceMemory::Free(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const auto found = device_.find(static_cast<char*>(memory));
  if (found == device_.end()) return cudaErrorInvalidValue;
  char* const begin = PageOf(found->first);
  const size_t bytes = RoundUp(found->first + found->second - begin, kPage);
  mmap(begin, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  used_ -= static_cast<int64_t>(found->second);
  if (shared_ != nullptr) shared_->Take(-static_cast<int64_t>(found->second), total_);
  device_.erase(found);
  return cudaSuccess;
}

cudaError_t DeviceMemory::AllocatePinned(size_t bytes, void** out) {
  ++Counters().allocations;
  *out = aligned_alloc(kAlignment, RoundUp(std::max<size_t>(bytes, 1), kAlignment));
  if (*out == nullptr) return cudaErrorMemoryAllocation;
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(*out) + bytes, RoundUp(std::max<size_t>(bytes, 1), kAlignment) - bytes);
  pinned_[static_cast<char*>(*out)] = bytes;
  return cudaSuccess;
}

cudaError_t DeviceMemory::FreePinned(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const auto found = pinned_.find(static_cast<char*>(memory));
  if (found == pinned_.end()) return cudaErrorInvalidValue;
  ASAN_UNPOISON_MEMORY_REGION(memory, RoundUp(std::max<size_t>(found->second, 1), kAlignment));
  pinned_.erase(found);
  free(memory);
  return cudaSuccess;
}

void DeviceMemory::Protect(bool open) {
  if (!guarded_) return;
  for (const auto& [at, bytes] : device_) {
    char* const begin = PageOf(at);
    mprotect(begin, at + bytes - begin, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

void DeviceMemory::Guard(bool on) {
  if (!on) Open();
  guarded_ = on;
  if (on) Close();
}

void GuardDevice(bool on) {
  const DeviceLock lock;
  DeviceMemory::Get().Guard(on);
}

}  // namespace kinora::simt
