#include "engine/diffusion/mersenne_twister.h"

#include <algorithm>

namespace kinora {

namespace {

constexpr size_t kAhead = 397;

// The word that follows from three: the upper bit of one, the lower bits of its neighbour, and one `kAhead` later.
uint32_t NextWord(uint32_t word, uint32_t neighbour, uint32_t ahead) {
  const uint32_t mixed = (word & 0x80000000u) | (neighbour & 0x7fffffffu);
  return ahead ^ (mixed >> 1) ^ (-(neighbour & 1u) & 0x9908b0dfu);
}

uint32_t Temper(uint32_t word) {
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680u;
  word ^= (word << 15) & 0xefc60000u;
  return word ^ (word >> 18);
}

}  // namespace

MersenneTwister::MersenneTwister(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < kWords; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

// Each word depends on the word kAhead later: an old one, or past the state's end a new one.
void MersenneTwister::NextState() {
  const std::array<uint32_t, kWords> old = state_;
  constexpr size_t kOld = kWords - kAhead;
  for (size_t i = 0; i < kOld; ++i) state_[i] = NextWord(old[i], old[i + 1], old[i + kAhead]);
  for (size_t i = kOld; i < kWords - 1; ++i) state_[i] = NextWord(old[i], old[i + 1], state_[i - kOld]);
  state_[kWords - 1] = NextWord(old[kWords - 1], state_[0], state_[kAhead - 1]);
  used_ = 0;
}

uint32_t MersenneTwister::operator()() {
  if (used_ == kWords) NextState();
  return Temper(state_[used_++]);
}

void MersenneTwister::Uniform24(absl::Span<float> values) {
  while (!values.empty()) {
    if (used_ == kWords) NextState();
    const size_t count = std::min(values.size(), kWords - used_);
    const uint32_t* const words = state_.data() + used_;
    float* const to = values.data();
    // By way of int32_t: only from signed integers can processors without AVX-512 convert a vector.
    for (size_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(static_cast<int32_t>(Temper(words[i]) & 0xffffffu)) * 0x1p-24f;
    used_ += count;
    values.remove_prefix(count);
  }
}

void MersenneTwister::Discard(uint64_t count) {
  while (count > 0) {
    if (used_ == kWords) NextState();
    const uint64_t words = std::min<uint64_t>(count, kWords - used_);
    used_ += words;
    count -= words;
  }
}

}  // namespace kinora
