// All PTX of the kernels. The equivalent for a host compiler is at the end of tests/simt/simt.h.
#ifndef KINORA_KERNELS_DEVICE_PTX_H_
#define KINORA_KERNELS_DEVICE_PTX_H_

// Copies 16 bytes from global to shared memory, both aligned to 16, bypassing registers and the first-level cache.
__device__ __forceinline__ void CopyAsync16(void* shared, const void* global) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
// Closes the group of copies that this thread has begun since the last call.
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the last kLeft groups of this thread are done; other threads see them after a barrier.
template <int kLeft>
__device__ __forceinline__ void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// The first statement of a kernel that LaunchEarly starts: waits until all work enqueued before it is done and visible.
// Does nothing before sm_90, which has no such launches.
__device__ __forceinline__ void WaitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Returns the time of the clock that all multiprocessors of the device share.
__device__ __forceinline__ unsigned long long DeviceNanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
  return now;
}

#endif  // KINORA_KERNELS_DEVICE_PTX_H_
