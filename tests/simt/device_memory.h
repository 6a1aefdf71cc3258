// Test only: the memory of the simulated device and the host's pinned memory.
//
// Every allocation ends less than 256 bytes before an inaccessible page, addresses are never reused, fresh memory holds
// NaN, and AddressSanitizer knows the exact bounds.
//
// Environment variables: KINORA_SIMULATED_MEMORY sets the size of the device's memory in bytes;
// KINORA_SIMULATED_MEMORY_FILE is the path of a file through which several processes share it.
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

  // Returns whether an address lies in the address range of device allocations, allocated or not.
  bool OnDevice(const void* p) const { return p >= base_ && p < base_ + kSpace; }
  // Return whether [p, p + bytes) lies inside one device allocation, or one pinned allocation.
  bool Allocated(const void* p, size_t bytes) const { return Inside(device_, p, bytes); }
  bool Pinned(const void* p, size_t bytes) const { return Inside(pinned_, p, bytes); }

  // While guarded, device memory is accessible only between Open and Close.
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
  int nan_pages_ = -1;  // a file of NaNs; fresh memory is a private mapping of it
  Ranges device_, pinned_;
  int64_t total_ = int64_t{80} << 30, used_ = 0;
  std::unique_ptr<SharedUse> shared_;  // null: this process alone uses the device
  bool guarded_ = false;
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_DEVICE_MEMORY_H_
