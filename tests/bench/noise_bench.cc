// The noise of a clip, drawn on the host: its random bits with our generator and with the standard library's, and the
// values that are computed from them.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "engine/diffusion/mersenne_twister.h"
#include "engine/diffusion/noise.h"

namespace kinora {
namespace {

constexpr int64_t kValues = 1 << 22;

void Count(benchmark::State& state) { state.SetItemsProcessed(state.iterations() * kValues); }

void BitsOfStandardLibrary(benchmark::State& state) {
  std::vector<float> values(kValues);
  std::mt19937 generator(7);
  for (auto _ : state) {
    for (float& value : values) value = static_cast<float>(generator() & 0xffffffu) * 0x1p-24f;
    benchmark::DoNotOptimize(values.data());
  }
  Count(state);
}
BENCHMARK(BitsOfStandardLibrary)->Unit(benchmark::kMillisecond);

void Bits(benchmark::State& state) {
  std::vector<float> values(kValues);
  MersenneTwister generator(7);
  for (auto _ : state) {
    generator.Uniform24(absl::MakeSpan(values));
    benchmark::DoNotOptimize(values.data());
  }
  Count(state);
}
BENCHMARK(Bits)->Unit(benchmark::kMillisecond);

void DiscardedBits(benchmark::State& state) {
  MersenneTwister generator(7);
  for (auto _ : state) generator.Discard(kValues);
  benchmark::DoNotOptimize(generator());
  Count(state);
}
BENCHMARK(DiscardedBits)->Unit(benchmark::kMillisecond);

void Values(benchmark::State& state) {
  std::vector<float> values(kValues);
  NoiseSource source(7);
  for (auto _ : state) source.Fill(absl::MakeSpan(values));
  Count(state);
}
BENCHMARK(Values)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kinora

BENCHMARK_MAIN();
