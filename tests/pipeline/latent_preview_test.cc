// Pictures of latents without the decoder: their accuracy, and when a run makes them.
#include "engine/pipeline/latent_preview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "engine/model/video_encoder.h"
#include "engine/pipeline/convolution_decoder.h"
#include "tests/model/moving_disc.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;

// The demo model's video encoder and decoder.
class DemoPictures : public testing::Test {
 protected:
  DemoPictures() {
    const ModelFiles files{.paths = {KINORA_SOURCE_DIR "/models/demo/ltx-2.3-demo-dev.safetensors"}};
    const ModelConfig config = ReadModelConfig(*Checkpoint::Open(files).value()).value();
    const WeightLoader weights = rig_.Open(files);
    encoder_.emplace(VideoEncoder::Load(weights.Under("vae"), config.video_encoder).value());
    decoder_.emplace(
        std::make_shared<VideoDecoder>(VideoDecoder::Load(weights.Under("vae"), config.video_decoder).value()));
  }

  ModelRig rig_{Cpu(), DType::kF32, nullptr, nullptr, 512 << 20};
  std::optional<VideoEncoder> encoder_;
  std::optional<ConvolutionDecoder> decoder_;
};

TEST_F(DemoPictures, APreviewHasTheColoursOfTheClip) {
  KINORA_ASSERT_OK_AND_ASSIGN(const LatentToRgb map, FitLatentToRgb(rig_.exec, *decoder_));
  EXPECT_EQ(rig_.arena.peak(), FitArenaBytes(DType::kF32, *decoder_));
  constexpr int64_t kFrames = 9, kSide = 256, kCells = kSide / 32;
  const HostTensor clip = MovingDisc(kFrames, kSide);
  const Tensor latent = rig_.Output(DType::kF32, encoder_->OutputShape(clip.tensor().shape()));
  encoder_->Forward(rig_.exec, rig_.Upload(clip.tensor()), latent);
  const LatentGrid grid{.frames = 2, .height = kCells, .width = kCells};
  KINORA_ASSERT_OK_AND_ASSIGN(const PreviewPicture picture,
                              MakePreview(rig_.exec, map, grid, latent.Reshape({grid.tokens(), latent.dim(3)})));
  ASSERT_EQ(picture.width, kCells);
  double squares = 0;
  for (int64_t cell = 0; cell < kCells * kCells; ++cell) {
    for (int64_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < 8 * 32 * 32; ++i) {  // averages the frames after the first
        const int64_t row = cell / kCells * 32 + i / 32 % 32, column = cell % kCells * 32 + i % 32;
        sum += clip.tensor().data<float>()[(((1 + i / 1024) * kSide + row) * kSide + column) * 3 + c];
      }
      const double mean = (sum / (8 * 32 * 32) + 1) / 2, got = picture.rgb[3 * cell + c] / 255.0;
      squares += (got - mean) * (got - mean);
    }
  }
  const double psnr = -10 * std::log10(squares / (3 * kCells * kCells));
  RecordProperty("decibels", std::to_string(psnr));
  EXPECT_GT(psnr, 19);  // a single colour would score 15.2
}

TEST_F(DemoPictures, TheFitIsTheSameInEveryCall) {
  KINORA_ASSERT_OK_AND_ASSIGN(const LatentToRgb one, FitLatentToRgb(rig_.exec, *decoder_));
  KINORA_ASSERT_OK_AND_ASSIGN(const LatentToRgb two, FitLatentToRgb(rig_.exec, *decoder_));
  EXPECT_TRUE(one == two);
}

TEST_F(DemoPictures, WhatIsSaidAfterADrawEndsTheFit) {
  int draws = 0;
  const auto second = [&] { return ++draws == 2 ? absl::CancelledError("enough") : absl::OkStatus(); };
  EXPECT_THAT(FitLatentToRgb(rig_.exec, *decoder_, second).status(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(draws, 2);
}

// After the last step the estimate equals the result.
class LastStep : public RunObserver {
 public:
  explicit LastStep(LatentToRgb map) : map_(std::move(map)) {}
  bool WantsLatents(int64_t step, int64_t steps) const override { return step == steps; }
  absl::Status OnStep(const Progress& progress, const StepLatents* latents) override {
    if (latents == nullptr) return absl::OkStatus();
    EXPECT_EQ(progress.step, progress.total_steps);  // no other step provides latents
    const LatentGrid& grid = latents->stage.grid;
    const auto estimate = MakePreview(latents->exec, map_, grid, latents->x0.video);
    const auto result = MakePreview(latents->exec, map_, grid, latents->state.video.z);
    EXPECT_TRUE(*estimate == *result);
    seen_ = true;
    return absl::OkStatus();
  }
  const LatentToRgb map_;
  bool seen_ = false;
};

// Records the estimate of the clean video after every third step.
class EveryThirdStep : public RunObserver {
 public:
  explicit EveryThirdStep(LatentToRgb map) : map_(std::move(map)) {}
  bool WantsLatents(int64_t step, int64_t /*steps*/) const override { return step % 3 == 0; }
  absl::Status OnStep(const Progress& progress, const StepLatents* latents) override {
    if (latents == nullptr) return absl::OkStatus();
    KINORA_ASSIGN_OR_RETURN(pictures_.emplace_back(),
                            MakePreview(latents->exec, map_, latents->stage.grid, latents->x0.video));
    steps_.push_back(progress.step);
    return absl::OkStatus();
  }
  const LatentToRgb map_;
  std::vector<int> steps_;
  std::vector<PreviewPicture> pictures_;
};

TEST(LatentPreview, ShowsTheEstimateOfTheStepsThatAnObserverAsksFor) {
  Golden golden("pipeline_distilled");
  PipelineOptions options = OptionsOf(golden, DType::kF32);
  const GenerationRequest request = RequestOf(golden);
  const auto mesh = Mesh::Single();
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan cost, Pipeline::Plan(options, *mesh, request));
  options.arena_bytes = cost.arena_bytes;
  KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options, *mesh));
  KINORA_ASSERT_OK_AND_ASSIGN(const LatentToRgb map, pipeline->FitLatentToRgb());
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, pipeline->Prepare(request));
  EveryThirdStep observer(map);
  ClipRecorder clip(/*intermediates=*/false), again(/*intermediates=*/false);
  ASSERT_THAT(pipeline->Generate(plan, &clip, &observer), IsOk());
  const std::vector<PreviewPicture>& pictures = observer.pictures_;
  EXPECT_THAT(observer.steps_, ElementsAre(3, 6));
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_EQ(pictures[0].width, request.width / 32);
  EXPECT_EQ(pictures[0].rgb.size(), static_cast<size_t>(request.width / 32 * request.height / 32 * 3));
  EXPECT_FALSE(pictures[0] == pictures[1]);
  LastStep last(map);
  ASSERT_THAT(pipeline->Generate(plan, &again, &last), IsOk());
  EXPECT_TRUE(last.seen_);
  EXPECT_TRUE(again.rgb8_ == clip.rgb8_);
}

}  // namespace
}  // namespace kinora
