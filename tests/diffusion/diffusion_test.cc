// Noise, schedules, guidance and the Euler step against the references' results.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/diffusion/guidance.h"
#include "engine/diffusion/latents.h"
#include "engine/diffusion/noise.h"
#include "engine/request/schedule.h"
#include "tests/testing/backends.h"
#include "tests/testing/golden.h"

namespace kinora {
namespace {

using Json = nlohmann::json;

Json Parameters(const Golden& golden) { return Json::parse(golden.metadata("parameters")); }

TEST(NoiseThatIsSkipped, LeavesTheGeneratorAsNoiseThatIsDrawn) {
  for (const int count : {1, 3, 15, 16, 17, 31, 32, 1000}) {
    NoiseSource drawn(5), skipped(5);
    std::vector<float> values(count), a(21), b(21), c(3), d(3);
    drawn.Fill(absl::MakeSpan(values));
    skipped.Skip(count);
    drawn.Fill(absl::MakeSpan(c));  // may use the spare value of a small draw
    skipped.Fill(absl::MakeSpan(d));
    EXPECT_EQ(c, d) << count;
    drawn.Fill(absl::MakeSpan(a));
    skipped.Fill(absl::MakeSpan(b));
    EXPECT_EQ(a, b) << count;
  }
}

TEST(NoiseInParts, HasTheBitsOfOneDraw) {
  for (const int count : {7, 16, 100, 1 << 20, (1 << 21) - 1, 1 << 21, (3 << 20) + 5, (4 << 20) + 16}) {
    NoiseSource whole(9), parts(9);
    std::vector<float> a(count), b(count), next_a(33), next_b(33);
    whole.Fill(absl::MakeSpan(a));
    std::vector<std::function<void()>> tasks;
    for (auto rest = absl::MakeSpan(b); !rest.empty();) tasks.push_back(parts.TakePart(rest));
    for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) (*task)();
    EXPECT_TRUE(a == b) << count;
    EXPECT_EQ(tasks.size(), static_cast<size_t>(std::max(1, count >> 20))) << count;
    whole.Fill(absl::MakeSpan(next_a));
    parts.Fill(absl::MakeSpan(next_b));
    EXPECT_EQ(next_a, next_b) << count;
  }
}

TEST(NoiseSource, DrawsWhatTorchDrawsToFourUlp) {
  Golden golden("noise");
  int values = 0;
  const Json parameters = Parameters(golden);
  for (const Json& seed_text : parameters["seeds"]) {
    const std::string seed = seed_text.get<std::string>();
    NoiseSource generator(std::stoull(seed));
    for (int draw = 0; golden.Has("out.seed" + seed + ".draw" + std::to_string(draw)); ++draw) {
      const Tensor& expected = golden.Get("out.seed" + seed + ".draw" + std::to_string(draw));
      std::vector<float> actual(expected.elements());
      generator.Fill(absl::MakeSpan(actual));
      for (int64_t i = 0; i < expected.elements(); ++i, ++values) {
        const float e = expected.data<float>()[i];
        // Where the sine or cosine is nearly 0, an approximation's error is absolute, like that of a value of 1.
        const float ulp = std::nextafter(std::max(std::abs(e), 0.25f), INFINITY) - std::max(std::abs(e), 0.25f);
        ASSERT_NEAR(actual[i], e, 4 * ulp) << "seed " << seed << " draw " << draw << " value " << i;
      }
    }
  }
  EXPECT_GT(values, 1000);
}

TEST(Schedule, EqualsTheReferenceForEveryTokenCountAndStepNumber) {
  Golden golden("schedule");
  int compared = 0;
  for (const std::string& name : golden.Names("out.sigmas.")) {
    const size_t dot = name.rfind('.'), before = name.rfind('.', dot - 1);
    const int64_t tokens = std::stoll(name.substr(before + 1, dot - before - 1));
    const std::vector<float> sigmas = DevSigmas({}, std::stoi(name.substr(dot + 1)), tokens);
    const Tensor& expected = golden.Get(name);
    ASSERT_EQ(static_cast<int64_t>(sigmas.size()), expected.elements());
    for (size_t i = 0; i < sigmas.size(); ++i)
      EXPECT_NEAR(sigmas[i], expected.data<float>()[i], 2.4e-7) << name << " " << i;
    ++compared;
  }
  EXPECT_GE(compared, 3);
}

class Guidance : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, Guidance, testing::ValuesIn(Backends()), BackendName);
class Euler : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, Euler, testing::ValuesIn(Backends()), BackendName);

Tensor Upload(Device& device, const std::vector<float>& values) {
  return device.Upload(values, {static_cast<int64_t>(values.size())});
}

TEST_P(Guidance, FourTermsAndRescaleEqualTheReference) {
  Golden golden("guidance");
  Device device(GetParam());
  const Json parameters = Parameters(golden);
  const Json& sets = parameters["sets"];
  for (size_t i = 0; i < sets.size(); ++i) {
    const GuidanceScales scales{sets[i][0], sets[i][1], sets[i][2], sets[i][3]};
    const PassList passes = PassesFor(scales, {});
    const Tensor& cond = golden.Get("in.cond");
    HostTensor x0(DType::kF32, {static_cast<int64_t>(passes.size()), cond.elements()});
    const Tensor out = device.Output(DType::kF32, {1, cond.elements()});
    for (size_t p = 0; p < passes.size(); ++p) {
      const char* names[] = {"in.uncond", "in.cond", "in.stg", "in.modality"};
      const Tensor& from = golden.Get(names[static_cast<int>(passes[p])]);
      std::copy_n(from.data<float>(), from.elements(), x0.f32() + p * from.elements());
    }
    const std::vector<float> weights = WeightsFor(scales, passes);
    device.ops().CombineGuidance(device.Upload(x0.tensor()), Upload(device, weights), CondIndex(passes), out);
    EXPECT_TRUE(Near(device.Download(out).tensor(), golden.Get("out.guided." + std::to_string(i)), 1e-6))
        << "set " << i;
  }
}

TEST_P(Guidance, RescalingAConstantLeavesItAsItIs) {
  Device device(GetParam());
  for (const int64_t n : {1, 5000}) {
    HostTensor x0(DType::kF32, {2, n});
    const Tensor out = device.Output(DType::kF32, {1, n});
    for (int64_t i = 0; i < n; ++i) {  // 2·cond − uncond = 3 everywhere
      x0.f32()[i] = static_cast<float>(i % 7);
      x0.f32()[n + i] = (3 + static_cast<float>(i % 7)) / 2;
    }
    const std::vector<float> weights = {-1, 2, 0.7f};
    device.ops().CombineGuidance(device.Upload(x0.tensor()), Upload(device, weights), /*cond=*/1, out);
    for (const float value : device.Floats(out)) ASSERT_EQ(value, 3) << n;
  }
}

TEST_P(Guidance, TheNumberOfThreadsChangesNoBitOfGuidanceOrOfAStep) {
  constexpr int64_t kTokens = 773, kChannels = 129;  // several tasks of unequal length
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    Device device(GetParam(), threads);
    HostTensor x0(DType::kF32, {3 * kTokens, kChannels}), z(DType::kF32, {kTokens, kChannels});
    NoiseSource noise(7);
    noise.Fill(absl::MakeSpan(x0.f32(), x0.tensor().elements()));
    noise.Fill(absl::MakeSpan(z.f32(), z.tensor().elements()));
    const Tensor guided = device.Output(DType::kF32, {kTokens, kChannels}), latent = device.Upload(z.tensor());
    device.ops().CombineGuidance(device.Upload(x0.tensor()), Upload(device, {-2, 4, -1, 0.7f}), /*cond=*/1, guided);
    device.ops().EulerStep(guided, Upload(device, {0.9f, 0.4f}), latent);
    std::vector<float>& result = results.emplace_back(device.Floats(guided));
    const std::vector<float> stepped = device.Floats(latent);
    result.insert(result.end(), stepped.begin(), stepped.end());
  }
  EXPECT_TRUE(results[0] == results[1]);
}

TEST_P(Euler, EqualsTheReferenceStepByStep) {
  Golden golden("euler");
  Device device(GetParam());
  const Tensor& start = golden.Get("in.latent");
  const Tensor& velocities = golden.Get("in.velocity");
  const Tensor& sigmas = golden.Get("out.sigmas");
  const int64_t steps = velocities.dim(0), n = start.elements(), width = start.width();
  const Tensor z = device.Upload(start.Reshape({n / width, width})), levels = device.Upload(sigmas);
  const Tensor x0 = device.Output(DType::kF32, {n / width, width});
  for (int64_t i = 0; i < steps; ++i) {
    const Tensor v = device.Upload(velocities.Rows(i, i + 1).Reshape({n / width, width}));
    device.ops().PredictX0(z, v, levels.Rows(i, i + 1), x0);
    EXPECT_TRUE(Near(device.Download(x0).tensor(), golden.Get("out.x0_" + std::to_string(i)), 1e-6)) << i;
    device.ops().EulerStep(x0, levels.Rows(i, i + 2), z);
    EXPECT_TRUE(Near(device.Download(z).tensor(), golden.Get("out.latent_" + std::to_string(i)), 1e-6)) << i;
  }
}

TEST(Latents, AudioLengthRoundsHalfToEvenAndPackingIsItsOwnInverse) {
  EXPECT_EQ(AudioLatents(121, 24, {}), 126);
  EXPECT_EQ(AudioLatents(121, 25, {}), 121);
  EXPECT_EQ(AudioLatents(1, 10, {}), 2);  // 2.5
  std::vector<float> x(2 * 3 * 5), packed(x.size()), back(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  PackAudio(x, 2, 3, 5, absl::MakeSpan(packed));
  EXPECT_EQ(packed[5], x[15]);  // token 0, channel 1
  UnpackAudio(packed, 2, 3, 5, absl::MakeSpan(back));
  EXPECT_EQ(back, x);
}

}  // namespace
}  // namespace kinora
