// The random bits of torch's CPU generator, which is MT19937 (M. Matsumoto and T. Nishimura, "Mersenne Twister: a
// 623-dimensionally equidistributed uniform pseudo-random number generator", ACM TOMACS 8(1), 1998; in torch
// ATen/core/MT19937RNGEngine.h). Takes a whole state at a time, in loops that the compiler vectorises: the noise of a
// long clip has hundreds of millions of values, for which std::mt19937, the same sequence, takes seconds.
#ifndef KINORA_ENGINE_DIFFUSION_MERSENNE_TWISTER_H_
#define KINORA_ENGINE_DIFFUSION_MERSENNE_TWISTER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace kinora {

class MersenneTwister {
 public:
  explicit MersenneTwister(uint32_t seed);

  // Returns the next 32 bits.
  uint32_t operator()();
  // Sets each value to the next number in [0, 1), of 24 bits: float(bits & 0xffffff) / 2^24.
  void Uniform24(absl::Span<float> values);
  // Leaves the generator as after `count` calls.
  void Discard(uint64_t count);

 private:
  static constexpr size_t kWords = 624;

  void NextState();

  std::array<uint32_t, kWords> state_;
  size_t used_ = kWords;  // words of the state
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_MERSENNE_TWISTER_H_
