// What this machine can do at most, measured, so that other figures of the same run can be read as shares of it.
#ifndef KINORA_TESTS_BENCH_CEILINGS_H_
#define KINORA_TESTS_BENCH_CEILINGS_H_

namespace kinora {

struct Ceilings {
  double f32_flops;   // a second of one core's processor time: multiply-adds on registers alone, 2 FLOPs each
  double bf16_flops;  // the same in dot products of bf16 pairs with float32 sums; 0 if the machine has none
  double copy_bytes;  // a second of wall time on one core: bytes read plus bytes written, of 256 MiB copied
};

// Best of several runs of some 50 ms each; uses one core.
Ceilings MeasureCeilings();

}  // namespace kinora

#endif  // KINORA_TESTS_BENCH_CEILINGS_H_
