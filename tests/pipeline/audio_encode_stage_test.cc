// Encoding of a given sound to a clip's audio latents.
#include "engine/pipeline/audio_encode_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "engine/model/resampler.h"
#include "engine/parallel/dry_run.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;

constexpr int64_t kRate = 48000, kSamples = 20000;

// A two-channel sound that never repeats.
AudioClip Chirp() {
  AudioClip clip{.channels = 2, .samples = kSamples, .sample_rate = kRate, .waveform = Floats(2 * kSamples)};
  for (int64_t i = 0; i < kSamples; ++i) {
    const auto t = static_cast<float>(i) / kRate;
    clip.waveform[i] = 0.3f * std::sin(2000 * t + 9000 * t * t);
    clip.waveform[kSamples + i] = 0.2f * std::cos(700 * t);
  }
  return clip;
}

AudioClip FirstChannel(AudioClip clip) {
  clip.channels = 1;
  clip.waveform.resize(clip.samples);
  return clip;
}

class AudioEncodeStageTest : public testing::Test {
 protected:
  AudioEncodeStageTest() {
    const AudioEncoderConfig config =
        ParseLightricksConfig(golden_.metadata("config"), golden_.metadata("model_version")).value().audio_encoder;
    encoder_.emplace(AudioEncoder::Load(loader_.Under("audio_vae"), config).value());
    mel_.emplace(MelFrontEnd::Make(rig_.backend(), config).value());
  }
  absl::StatusOr<Floats> Encode(const AudioClip& clip, const SoundSpan& span, int64_t latents) {
    const Tensor latent = rig_.Output(DType::kF32, {latents, 128});
    KINORA_RETURN_IF_ERROR(AudioEncodeStage(*encoder_, *mel_).Run(rig_.exec, clip, span, latent));
    return rig_.Floats(latent);
  }

  Golden golden_{"audio_encoder"};
  ModelRig rig_{Cpu(), DType::kF32};
  WeightLoader loader_ = rig_.Open({.paths = {golden_.WriteCheckpoint()}});
  std::optional<AudioEncoder> encoder_;
  std::optional<MelFrontEnd> mel_;
};

TEST_F(AudioEncodeStageTest, ThePartsGiveTheLatentAndAShorterClipItsBeginning) {
  const AudioClip clip = Chirp();
  const SoundSpan span{.begin = 4800, .samples = 14400, .sample_rate = kRate};  // 0.3 s
  const int64_t heard = 4800, rows = mel_->Rows(heard);
  HostTensor sound(DType::kF32, {2, heard});
  for (int64_t c = 0; c < 2; ++c) {
    const auto channel = absl::MakeConstSpan(clip.waveform).subspan(c * kSamples + span.begin, span.samples);
    const Floats resampled = Resample(channel, kRate, 16000);
    std::copy(resampled.begin(), resampled.end(), sound.f32() + c * heard);
  }
  const Tensor mel = rig_.Output(DType::kF32, {2, rows, 64});
  mel_->Forward(rig_.exec, rig_.Upload(sound.tensor()), mel);
  const Tensor latent = rig_.Output(DType::kF32, {encoder_->LatentRows(rows), 128});
  encoder_->Forward(rig_.exec, mel, latent);
  const Floats parts = rig_.Floats(latent);
  ASSERT_EQ(latent.rows(), 8);

  KINORA_ASSERT_OK_AND_ASSIGN(const Floats whole, Encode(clip, span, 8));
  EXPECT_TRUE(whole == parts);
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats cut, Encode(clip, span, 7));
  EXPECT_TRUE(cut == Floats(parts.begin(), parts.begin() + 7 * 128));
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats padded, Encode(clip, span, 10));
  EXPECT_TRUE(Floats(padded.begin(), padded.begin() + 8 * 128) == parts);
  EXPECT_THAT(Floats(padded.begin() + 8 * 128, padded.end()), testing::Each(0.0f));
}

TEST_F(AudioEncodeStageTest, OneChannelCountsAsTwoEqualOnes) {
  const SoundSpan span{.samples = kSamples, .sample_rate = kRate};
  AudioClip equal = Chirp();
  std::copy_n(equal.waveform.begin(), kSamples, equal.waveform.begin() + kSamples);
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats two, Encode(equal, span, 10));
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats one, Encode(FirstChannel(equal), span, 10));
  EXPECT_TRUE(one == two);
}

TEST_F(AudioEncodeStageTest, WhatCannotBeEncodedIsRefusedByName) {
  AudioClip clip = Chirp();
  EXPECT_THAT(Encode(clip, {.samples = 1500, .sample_rate = kRate}, 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("500 samples at 16000 Hz are too short")));
  clip.channels = 6;
  EXPECT_THAT(Encode(clip, {.samples = kSamples, .sample_rate = kRate}, 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("6 channels; this model takes 2")));
}

TEST_F(AudioEncodeStageTest, ADryRunTakesTheMemoryOfTheRealOne) {
  const AudioClip clip = Chirp();
  const SoundSpan span{.samples = kSamples, .sample_rate = kRate};
  const int64_t before = rig_.arena.peak();
  KINORA_ASSERT_OK_AND_ASSIGN(const Floats encoded, Encode(clip, span, 10));
  const int64_t dry = DryRunArenaBytes(DType::kF32, [&](Exec& exec) {
    EXPECT_THAT(AudioEncodeStage(*encoder_, *mel_).Run(exec, {}, span, Tensor(DType::kF32, {10, 128}, nullptr)),
                IsOk());
  });
  EXPECT_EQ(rig_.arena.peak(), std::max(before, dry));
}

}  // namespace
}  // namespace kinora
