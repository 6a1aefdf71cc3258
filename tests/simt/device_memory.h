// Test only: the memory of the simulated device, and the host's pinned memory.
//
// Every allocation ends less than 256 bytes before a page that nobody may touch, addresses are never used again, fresh
// memory holds NaN, and AddressSanitizer knows the exact bounds.
//
// The environment may set the device's memory (KINORA_SIMULATED_MEMORY, bytes) and have several processes share it
// (KINORA_SIMULATED_MEMORY_FILE, the path of a file for that).
#ifndef KINORA_TESTS_SIMT_DEVICE_MEMORY_H_
#define KINORA_TESTS_SIMT_DEVICE_MEMORY_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>

#include "tests/simt/shared_use.h"

namespace kinora::simt {

class DeviceMemory {
 public:
  static DeviceMemory& Get();

  int64_t total() const { return total_; }
  int64_t used() const { return shared_ != nullptr ? shared_->Used() : used_; }
  void set_total(int64_t bytes) { total_ = bytes; }

  cudaError_t Allocate(size_t bytes, void** out);
  cudaError_t Free(void* memory);
  cudaError_t AllocatePinned(size_t bytes, void** out);
  cudaError_t FreePinned(void* memory);

  // Whether an address lies in the range that allocations are made in, whether or not there is one.
  bool OnDevice(const void* p) const { return p >= base_ && p < base_ + kSpace; }
  // Whether [p, p + bytes) lies in one allocation of the device, or one that is pinned.
  bool Allocated(const void* p, size_t bytes) const { return Inside(device_, p, bytes); }
  bool Pinned(const void* p, size_t bytes) const { return Inside(pinned_, p, bytes); }

  // While guarded, device memory is open to nobody but between Open and Close.
  void Guard(bool on);
  void Open() { Protect(true); }
  void Close() { Protect(false); }

 private:
  static constexpr size_t kSpace = size_t{256} << 30;
  using Ranges = std::map<const char*, size_t>;

  DeviceMemory();
  static bool Inside(const Ranges& ranges, const void* p, size_t bytes);
  void Protect(bool open);
  void FillPages(char* pages, size_t bytes);

  char* base_ = nullptr;
  char* next_ = nullptr;
  int nan_pages_ = -1;  // a file of NaNs that fresh memory is a private copy of
  Ranges device_, pinned_;
  int64_t total_ = int64_t{80} << 30, used_ = 0;
  std::unique_ptr<SharedUse> shared_;  // null: the device is this process's alone
  bool guarded_ = false;
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_DEVICE_MEMORY_H_
