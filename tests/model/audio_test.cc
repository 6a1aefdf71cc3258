// The audio decoder and the vocoders against the reference's results, and the inputs that they reject.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/ops/dry_backend.h"
#include "tests/model/audio_models.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

// Converts the golden's latent [1, channels, rows, bins] to the transformer's output layout that the decoder reads,
// [rows, channels · bins].
HostTensor PackLatent(const Tensor& latent) {
  const int64_t channels = latent.dim(1), rows = latent.dim(2), bins = latent.dim(3);
  HostTensor packed(DType::kF32, {rows, channels * bins});
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t b = 0; b < bins; ++b) {
        packed.f32()[r * channels * bins + c * bins + b] = latent.data<float>()[(c * rows + r) * bins + b];
      }
    }
  }
  return packed;
}

HostTensor Poisoned(const Shape& shape) {
  HostTensor out(DType::kF32, shape);
  std::fill_n(out.f32(), shape.elements(), std::numeric_limits<float>::quiet_NaN());
  return out;
}

using Variant = std::tuple<DType, TestedBackend>;
std::string VariantName(const testing::TestParamInfo<Variant>& info) {
  return std::string(DTypeName(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
}

class AudioDecoderIn : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(All, AudioDecoderIn,
                         testing::Combine(testing::Values(DType::kF32, DType::kBF16), testing::ValuesIn(Backends())),
                         VariantName);

TEST_P(AudioDecoderIn, EqualsTheReference) {
  const auto& [dtype, on] = GetParam();
  Golden golden("audio_decoder");
  TapCheck taps(golden, Tolerance(on, dtype), GoldenLayout::kChannelsFirst);
  GoldenRun run("audio_decoder", dtype, on, &taps.taps());
  const AudioDecoder decoder = run.LoadDecoder();
  const HostTensor latent = PackLatent(golden.Get("in.latent"));
  const Tensor mel = run.rig.Output(DType::kF32, decoder.OutputShape(latent.tensor().rows()));
  decoder.Forward(run.rig.exec, run.rig.Upload(latent.tensor()), mel);
  EXPECT_TRUE(Near(run.rig.Floats(mel), golden.Get("out.mel"), Tolerance(on, dtype)));
  EXPECT_TRUE(taps.Result());
  EXPECT_EQ(taps.compared(), 4);
}

TEST(AudioDecoder, ARowDependsOnNoLaterLatent) {
  GoldenRun run("audio_decoder");
  const AudioDecoder decoder = run.LoadDecoder();
  const HostTensor latent = PackLatent(run.golden.Get("in.latent"));
  const int64_t rows = latent.tensor().rows();
  HostTensor whole = Poisoned(decoder.OutputShape(rows)), first = Poisoned(decoder.OutputShape(rows - 2));
  Exec& exec = run.rig.exec;
  decoder.Forward(exec, latent.tensor(), whole.tensor());
  decoder.Forward(exec, latent.tensor().Rows(0, rows - 2), first.tensor());
  ASSERT_THAT(run.rig.backend().ops().stream().Synchronize(), IsOk());
  const int64_t kept = first.tensor().dim(1), bins = first.tensor().dim(2);
  for (int64_t c = 0; c < 2; ++c) {
    const Tensor prefix = whole.tensor().Rows(c, c + 1).Reshape({decoder.MelRows(rows), bins}).Rows(0, kept);
    EXPECT_EQ(RelativeError(first.tensor().Rows(c, c + 1), prefix), 0);
  }
}

TEST(AudioDecoder, OneLatentRowMakesOneMelRow) {
  GoldenRun run("audio_decoder");
  const AudioDecoder decoder = run.LoadDecoder();
  const HostTensor latent = PackLatent(run.golden.Get("in.latent"));
  ASSERT_EQ(decoder.OutputShape(1), Shape({2, 1, 64}));
  HostTensor mel = Poisoned({2, 1, 64});
  Exec& exec = run.rig.exec;
  decoder.Forward(exec, latent.tensor().Rows(0, 1), mel.tensor());
  for (int64_t i = 0; i < 128; ++i) ASSERT_TRUE(std::isfinite(mel.f32()[i])) << i;
}

class VocoderOf : public testing::TestWithParam<const char*> {
 protected:
  std::string generation() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Generations, VocoderOf, testing::Values("2_0", "2_3"),
                         [](const auto& info) { return std::string(info.param); });

Tensor Batchless(const Tensor& t) { return t.Reshape({t.dim(1), t.dim(2), t.dim(3)}); }

class VocoderOnABackend : public testing::TestWithParam<std::tuple<const char*, TestedBackend>> {};
INSTANTIATE_TEST_SUITE_P(All, VocoderOnABackend,
                         testing::Combine(testing::Values("2_0", "2_3"), testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                         });

TEST_P(VocoderOnABackend, EqualsTheReference) {
  const std::string generation = std::get<0>(GetParam());
  const TestedBackend& on = std::get<1>(GetParam());
  const double tolerance = Tolerance(on, DType::kF32);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {  // computes in float32 regardless of the model's dtype
    Golden golden("vocoder_" + generation);
    TapCheck taps(golden, tolerance, GoldenLayout::kChannelsFirst);
    GoldenRun run("vocoder_" + generation, dtype, on, &taps.taps());
    const Vocoder vocoder = run.LoadVocoder(GoldenVocoder(generation));
    const Tensor mel = Batchless(golden.Get("in.mel"));
    const Tensor waveform = run.rig.Output(DType::kF32, {vocoder.channels(), vocoder.Samples(mel.dim(1))});
    vocoder.Forward(run.rig.exec, run.rig.Upload(mel), waveform);
    EXPECT_TRUE(Near(run.rig.Floats(waveform), golden.Get("out.waveform"), tolerance));
    EXPECT_TRUE(taps.Result());
    EXPECT_EQ(taps.compared(), generation == "2_0" ? 4 : 7);
  }
}

TEST_P(VocoderOf, CapturedAndReplayedOnOtherRowsEqualsEager) {
  GoldenRun run("vocoder_" + generation());
  const Vocoder vocoder = run.LoadVocoder(GoldenVocoder(generation()));
  const Tensor golden_mel = Batchless(run.golden.Get("in.mel"));
  HostTensor mel = Poisoned(golden_mel.shape()),
             waveform = Poisoned({vocoder.channels(), vocoder.Samples(golden_mel.dim(1))});
  Exec& exec = run.rig.exec;
  auto graph =
      run.rig.backend().ops().stream().Capture([&] { vocoder.Forward(exec, mel.tensor(), waveform.tensor()); });
  ASSERT_THAT(graph, IsOk());
  for (const float factor : {1.0f, 0.5f}) {
    for (int64_t i = 0; i < golden_mel.elements(); ++i) mel.f32()[i] = factor * golden_mel.data<float>()[i];
    (*graph)->Replay();
    const std::vector<float> replayed(waveform.f32(), waveform.f32() + waveform.tensor().elements());
    std::fill_n(waveform.f32(), replayed.size(), std::numeric_limits<float>::quiet_NaN());
    vocoder.Forward(exec, mel.tensor(), waveform.tensor());
    ASSERT_THAT(run.rig.backend().ops().stream().Synchronize(), IsOk());
    EXPECT_EQ(replayed, std::vector<float>(waveform.f32(), waveform.f32() + replayed.size())) << factor;
  }
}

TEST_P(VocoderOf, ADryRunNeedsAsMuchMemoryAsARealOne) {
  GoldenRun run("vocoder_" + generation());
  const Vocoder vocoder = run.LoadVocoder(GoldenVocoder(generation()));
  const Tensor mel = Batchless(run.golden.Get("in.mel"));
  HostTensor waveform = Poisoned({vocoder.channels(), vocoder.Samples(mel.dim(1))});
  Exec& exec = run.rig.exec;
  vocoder.Forward(exec, mel, waveform.tensor());
  ASSERT_THAT(run.rig.backend().ops().stream().Synchronize(), IsOk());

  DryBackend backend;
  Arena arena = Arena::Dry();
  const auto mesh = Mesh::Single();
  WeightLoader loader = WeightLoader::Dry(*mesh, backend, DType::kF32);
  const Vocoder dry = OrDie(Vocoder::Load(loader.Under("vocoder"), GoldenVocoder(generation()), {}));
  Exec dry_exec{.backend = backend, .arena = arena, .host = arena, .mesh = *mesh};
  dry.Forward(dry_exec, Tensor(DType::kF32, mel.shape(), nullptr),
              Tensor(DType::kF32, waveform.tensor().shape(), nullptr));
  EXPECT_EQ(arena.peak(), run.rig.arena.peak());
  EXPECT_GT(backend.ops().cost().flops(), 0);
}

// The same weights with other rates. 160 samples per row are not a multiple of the hop of 120, so the low-rate signal
// is zero-padded at its end. This may change only the end of the waveform, within the reach of all convolutions.
TEST(Vocoder, PaddingToAWholeHopChangesOnlyTheEnd) {
  GoldenRun run("vocoder_2_3");
  VocoderConfig config = GoldenVocoder("2_3");
  config.output_rate = 32000;
  config.extension->hop_length = 120;
  const Vocoder vocoder = run.LoadVocoder(config);
  const Tensor golden_mel = Batchless(run.golden.Get("in.mel"));
  const int64_t golden_rows = golden_mel.dim(1), bins = golden_mel.dim(2);
  const auto wave = [&](int64_t rows) {
    HostTensor mel = Poisoned({2, rows, bins}), waveform = Poisoned({2, vocoder.Samples(rows)});
    for (int64_t i = 0; i < 2 * rows * bins; ++i) {  // repeats the golden's rows
      const int64_t c = i / (rows * bins), row = i / bins % rows % golden_rows;
      mel.f32()[i] = golden_mel.data<float>()[(c * golden_rows + row) * bins + i % bins];
    }
    Exec& exec = run.rig.exec;
    vocoder.Forward(exec, mel.tensor(), waveform.tensor());
    EXPECT_THAT(run.rig.backend().ops().stream().Synchronize(), IsOk());
    return std::vector<float>(waveform.f32(), waveform.f32() + vocoder.Samples(rows));  // the left channel
  };
  const std::vector<float> padded = wave(62), whole = wave(63);
  ASSERT_EQ(padded.size(), 62u * 320);
  ASSERT_EQ(whole.size(), 63u * 320);
  const auto differs = std::mismatch(padded.begin(), padded.end(), whole.begin()).first - padded.begin();
  EXPECT_GE(
      differs,
      24 * 320);  // the last 38 rows: base and extension each reach 12 rows at their first stage, and on from there
  for (const float sample : padded) ASSERT_LE(std::abs(sample), 1.0f);
}

// Returns millions of parameters. Excludes the filters and bases in the files, which are buffers.
double Parameters(const WeightLoader& loader) {
  int64_t elements = 0;
  for (const RecordedTensor& tensor : loader.recorded()) {
    if (!tensor.name.ends_with(".filter") && !tensor.name.ends_with("_basis")) elements += tensor.shape.elements();
  }
  return std::round(static_cast<double>(elements) / 1e5) / 10;
}

TEST(Audio, ReleasedModelsHaveTheParametersTheyHave) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  WeightLoader decoder = WeightLoader::Dry(*mesh, backend, DType::kF32);
  OrDie(AudioDecoder::Load(decoder.Under("audio_vae"), {}));
  EXPECT_EQ(Parameters(decoder), 31.9);
  for (const auto& [generation, expected] : {std::pair("2_0", 55.6), {"2_3", 128.5}}) {
    WeightLoader vocoder = WeightLoader::Dry(*mesh, backend, DType::kF32);
    OrDie(Vocoder::Load(vocoder.Under("vocoder"), ReleasedVocoder(generation), {}));
    EXPECT_EQ(Parameters(vocoder), expected) << generation;
  }
}

TEST(Audio, ValuesThatDoNotFitTogetherAreRefusedByName) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  WeightLoader loader = WeightLoader::Dry(*mesh, backend, DType::kF32);
  const auto refusal = [&](const VocoderConfig& config) { return Vocoder::Load(loader, config, {}).status(); };
  const auto changed = [&](auto change) {
    VocoderConfig config = ReleasedVocoder("2_3");
    change(config);
    return refusal(config);
  };
  const auto invalid = [](const char* name) { return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)); };
  EXPECT_THAT(changed([](auto&) {}), IsOk());
  EXPECT_THAT(changed([](auto& c) { c.base.in_channels = 80; }), invalid("mel_bins"));
  EXPECT_THAT(changed([](auto& c) { c.output_rate = 44100; }), invalid("output_sampling_rate"));
  EXPECT_THAT(changed([](auto& c) { c.output_rate = 32000; }), invalid("upsample_rates"));
  EXPECT_THAT(changed([](auto& c) { c.extension->hop_length = 0; }), invalid("n_fft"));
  EXPECT_THAT(changed([](auto& c) { c.extension->n_fft = 64; }), invalid("n_fft"));
  EXPECT_THAT(changed([](auto& c) { c.extension->mel_bins = 80; }), invalid("num_mels"));
  EXPECT_THAT(changed([](auto& c) { c.extension->generator.out_channels = 1; }), invalid("output channels"));
  EXPECT_THAT(changed([](auto& c) { c.base.upsample_kernels.pop_back(); }), invalid("vocoder.upsample_kernel_sizes"));
  EXPECT_THAT(changed([](auto& c) { c.base.upsample_kernels[1] = 5; }), invalid("vocoder.upsample_kernel_sizes[1]"));
  EXPECT_THAT(changed([](auto& c) { c.extension->generator.upsample_kernels[0] = 4; }),
              invalid("vocoder.bwe.upsample_kernel_sizes[0]"));
  EXPECT_THAT(changed([](auto& c) { c.base.resblock_kernels[2] = 10; }), invalid("resblock_kernel_sizes"));
  EXPECT_THAT(changed([](auto& c) { c.base.resblock_dilations.pop_back(); }), invalid("resblock_dilation_sizes"));
  EXPECT_THAT(changed([](auto& c) { c.base.hidden_channels = 32; }), invalid("upsample_initial_channel"));
  EXPECT_THAT(changed([](auto& c) { c.base.activation = GeneratorConfig::Activation::kSnake; }),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("vocoder.activation")));
  VocoderConfig plain;
  plain.output_rate = 48000;
  EXPECT_THAT(refusal(plain), invalid("output_sampling_rate"));
  EXPECT_THAT(AudioDecoder::Load(loader, {.causal = false}).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("causality_axis")));
}

}  // namespace
}  // namespace kinora
