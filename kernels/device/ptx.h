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

// Matrices of 8 x 8 bf16, one 32-bit word per lane: lane 4 r + c of a warp holds columns 2 c and 2 c + 1 of row r, the
// lower column in the lower half. All 32 lanes call these functions together.
//
// d += a · b on the tensor cores, in float32. a: 16 x 16 in four matrices: rows 0 to 7 and 8 to 15 of columns 0 to 7,
// then of columns 8 to 15. b: 16 x 8 as its transpose: its rows 0 to 7, and 8 to 15. d: 16 x 8: d[0], d[1] are columns
// 2 c, 2 c + 1 of row r, d[2], d[3] those of row r + 8.
__device__ __forceinline__ void MultiplyTiles(float (&d)[4], const unsigned (&a)[4], unsigned b_low, unsigned b_high) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}
// Loads four matrices from shared memory. Lane i gives the address of row i % 8 of matrix i / 8: 16 bytes, aligned.
__device__ __forceinline__ void LoadMatrices(unsigned (&to)[4], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
// The same, each matrix transposed.
__device__ __forceinline__ void LoadTransposed(unsigned (&to)[4], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

// Returns 2^x to 2 units in the last place, or zero for results below the normal numbers.
__device__ __forceinline__ float FastExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
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
