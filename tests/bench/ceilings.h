// This machine's measured limits, so that other measurements of the same run can be given as fractions of them.
#ifndef KINORA_TESTS_BENCH_CEILINGS_H_
#define KINORA_TESTS_BENCH_CEILINGS_H_

namespace kinora {

struct Ceilings {
  double f32_flops;   // per second of one core's processor time: multiply-adds on registers, 2 FLOPs each
  double bf16_flops;  // as above, for dot products of bf16 pairs with float32 sums; 0 if not supported
  double copy_bytes;  // per second of wall time on one core: bytes read plus written, copying 256 MiB
};

// Returns the best of several runs of about 50 ms each. Uses one core.
Ceilings MeasureCeilings();

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_CEILINGS_H_
