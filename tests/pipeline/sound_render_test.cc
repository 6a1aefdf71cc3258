// Clips made for a given sound, and sound without video: what is kept and what is computed, and that all meshes agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/weights/safetensors.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

PipelineOptions TinyModel(DType precision = DType::kBF16) { return OptionsOf(Golden("pipeline_one_stage"), precision); }
PipelineOptions TinyModelOfTwoStages() { return OptionsOf(Golden("pipeline_two_stage"), DType::kBF16); }

GenerationRequest Request(Recipe recipe = Recipe::kOneStage) {
  GenerationRequest request{.prompt = "a bell rings", .width = 128, .height = 64, .num_frames = 9, .frame_rate = 24};
  request.recipe = recipe;
  request.seed = 3;
  if (recipe == Recipe::kOneStage || recipe == Recipe::kTwoStage) request.num_inference_steps = 2;
  return request;
}

// One second of sound with a different pitch per channel.
AudioClip Tones(int64_t channels, float pitch = 440, int32_t rate = 44100) {
  AudioClip clip{.channels = channels, .samples = rate, .sample_rate = rate};
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < rate; ++i) {
      const float t = static_cast<float>(i) / static_cast<float>(rate);
      clip.waveform.push_back(0.4f * std::sin(6.2831853f * pitch * static_cast<float>(c + 1) * t));
    }
  }
  return clip;
}

GenerationRequest WithSound(GenerationRequest request, const AudioClip& sound, double start = 0) {
  request.audio = AudioGuide{.audio = std::make_shared<AudioClip>(sound), .start_seconds = start};
  return request;
}

GenerationRequest SoundAlone(Recipe recipe = Recipe::kOneStage) {
  GenerationRequest request = Request(recipe);
  request.width = request.height = 0;
  request.audio_only = true;
  return request;
}

std::vector<std::string> Labels(const RunPlan& plan) {
  std::vector<std::string> labels;
  for (const StagePlan& stage : plan.stages) labels.emplace_back(stage.stage().name());
  return labels;
}

TEST(SoundRender, AGivenSoundReachesTheSinkSampleForSample) {
  for (const auto& [channels, start] : {std::pair<int64_t, double>{2, 0}, {2, 0.25}, {1, 0.1}}) {
    const AudioClip sound = Tones(channels);
    ClipRecorder clip(/*intermediates=*/false);
    ASSERT_THAT(RenderOn(Cpu(), TinyModel(), *Mesh::Single(), WithSound(Request(), sound, start), clip), IsOk());
    const int64_t samples = 16538, first = std::llround(start * 44100);  // 9/24 s
    EXPECT_EQ(clip.info_.audio_sample_rate, 44100);
    EXPECT_EQ(clip.info_.audio_channels, 2);
    EXPECT_EQ(clip.info_.audio_samples, samples);
    EXPECT_EQ(clip.info_.num_frames, 9);
    Floats heard;
    for (int64_t c = 0; c < 2; ++c) {
      const auto begin = sound.waveform.begin() + (channels == 1 ? 0 : c * sound.samples) + first;
      heard.insert(heard.end(), begin, begin + samples);
    }
    EXPECT_TRUE(clip.values_["waveform"] == heard) << channels << " channels from " << start;
    EXPECT_EQ(clip.rgb8_.size(), 9u * 64 * 128 * 3);
    EXPECT_TRUE(clip.ended_);
  }
}

TEST(SoundRender, ThePictureFollowsTheSoundInEveryRecipe) {
  for (const Recipe recipe :
       {Recipe::kOneStage, Recipe::kDistilled, Recipe::kTwoStage, Recipe::kDistilledTwoStage, Recipe::kHq}) {
    ClipRecorder low(false), high(false), again(false);
    const auto render = [&](float pitch, ClipRecorder& clip) {
      return RenderOn(Cpu(), TinyModelOfTwoStages(), *Mesh::Single(), WithSound(Request(recipe), Tones(2, pitch)),
                      clip);
    };
    ASSERT_THAT(render(440, low), IsOk()) << RecipeName(recipe);
    ASSERT_THAT(render(2000, high), IsOk());
    ASSERT_THAT(render(440, again), IsOk());
    EXPECT_FALSE(low.rgb8_ == high.rgb8_) << RecipeName(recipe);
    EXPECT_TRUE(low.rgb8_ == again.rgb8_) << RecipeName(recipe);
  }
}

TEST(SoundRender, RendersTheSamePixelsOnGuidanceAndTokenRanks) {
  for (const GenerationRequest& request : {WithSound(Request(Recipe::kTwoStage), Tones(2)), SoundAlone()}) {
    ClipRecorder one(false);
    ASSERT_THAT(RenderOn(Cpu(), TinyModelOfTwoStages(), *Mesh::Single(), request, one), IsOk());
    for (const MeshShape& shape : {MeshShape{.guidance = 2}, {.tokens = 2}, {.guidance = 2, .tokens = 2}}) {
      ClipRecorder clip(false);
      const absl::Status status = RunThreadRanks(
          shape, [&](const Mesh& mesh) { return RenderOn(Cpu(), TinyModelOfTwoStages(), mesh, request, clip); });
      ASSERT_THAT(status, IsOk()) << shape.ToString();
      EXPECT_TRUE(clip.rgb8_ == one.rgb8_) << shape.ToString();
      EXPECT_TRUE(clip.values_["waveform"] == one.values_["waveform"]) << shape.ToString();
    }
  }
}

TEST(SoundRender, EqualsTheReferenceOnRanksOfEveryAxis) {
  for (const char* name : {"pipeline_sound", "pipeline_sound_two_stage", "pipeline_sound_alone"}) {
    Golden golden(name);
    const PipelineOptions options = OptionsOf(golden, DType::kF32);
    const GenerationRequest request = RequestOf(golden);
    for (const MeshShape& shape : {MeshShape{.guidance = 2}, {.tokens = 2}, {.tensor = 2}}) {
      ClipRecorder clip;
      const absl::Status status =
          RunThreadRanks(shape, [&](const Mesh& mesh) { return RenderOn(Cpu(), options, mesh, request, clip); });
      ASSERT_THAT(status, IsOk()) << name << " on " << shape.ToString();
      ExpectRender(clip, golden, FloatTolerances(Cpu()));
    }
  }
}

TEST(SoundRender, ThePlanNamesItsStagesAndPassesOverWhatIsComputed) {
  const auto mesh = Mesh::Single();
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan given, Pipeline::Plan(TinyModel(), *mesh, WithSound(Request(), Tones(2))));
  EXPECT_THAT(Labels(given), ElementsAre("encode", "encode_audio", "denoise", "decode_video"));
  EXPECT_EQ(given.audio_stage, 2u);
  EXPECT_EQ(given.given_sound.samples, 16538);
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan alone, Pipeline::Plan(TinyModel(), *mesh, SoundAlone()));
  EXPECT_THAT(Labels(alone), ElementsAre("encode", "denoise", "decode_audio"));
  EXPECT_EQ(alone.stages[1].tokens, 2 * 3 * 9);  // two steps of three passes; no isolated pass without video
  EXPECT_EQ(alone.stages[1].grid.tokens(), 0);
}

TEST(SoundRender, AGivenSoundTakesNoForwardPassWhileThePicturesPredictionIsHeld) {
  GenerationRequest request = WithSound(Request(), Tones(2));
  request.num_inference_steps = 4;
  request.video_guidance = GuidanceParams{.cfg_scale = 3};
  const auto mesh = Mesh::Single();
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan whole, Pipeline::Plan(TinyModel(), *mesh, request));
  request.video_guidance->skip_step = 1;
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan half, Pipeline::Plan(TinyModel(), *mesh, request));
  EXPECT_EQ(2 * half.stages[2].tokens, whole.stages[2].tokens);
  EXPECT_LT(half.stages[2].cost.flops, 0.6 * whole.stages[2].cost.flops);
}

TEST(SoundRender, TheSoundDecidesTheLengthAndAnUnreadOneIsPlannedWithTheDefault) {
  const auto mesh = Mesh::Single();
  GenerationRequest request = WithSound(Request(), Tones(2));
  request.num_frames = 0;
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan read, Pipeline::Plan(TinyModel(), *mesh, request));
  EXPECT_EQ(read.request.num_frames, 17);  // the sound has 24
  EXPECT_EQ(read.given_sound.samples, 31238);
  request.audio = AudioGuide{.input_id = "song"};
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan unread, Pipeline::Plan(TinyModel(), *mesh, request));
  EXPECT_EQ(unread.request.num_frames, 121);
}

TEST(SoundRender, SoundAloneIsAWaveformWithoutFrames) {
  for (const Recipe recipe : {Recipe::kOneStage, Recipe::kDistilled}) {
    ClipRecorder clip;
    ASSERT_THAT(RenderOn(Cpu(), TinyModel(), *Mesh::Single(), SoundAlone(recipe), clip), IsOk());
    EXPECT_EQ(clip.info_.width, 0);
    EXPECT_EQ(clip.info_.num_frames, 0);
    EXPECT_EQ(clip.info_.audio_channels, 2);
    EXPECT_TRUE(clip.rgb8_.empty());
    EXPECT_EQ(clip.values_["audio_latent"].size(), 9u * 128);  // 9/24 s at 25 per second
    EXPECT_EQ(clip.values_.count("video_latent"), 0u);
    EXPECT_EQ(static_cast<int64_t>(clip.values_["waveform"].size()), 2 * clip.info_.audio_samples);
    EXPECT_NEAR(static_cast<double>(clip.info_.audio_samples) / clip.info_.audio_sample_rate, 9.0 / 24, 0.05);
    EXPECT_TRUE(clip.ended_);
  }
}

// Whether a tensor of the single file is not needed for sound without video.
bool OfThePicture(const std::string& name) {
  if (name.starts_with("vae.") || name.starts_with("text_embedding_projection.video")) return true;
  if (!name.starts_with("model.diffusion_model.")) return false;
  if (name.find("audio_to_video_attn") != std::string::npos || name.find("video_to_audio_attn") != std::string::npos)
    return true;
  return name.find("audio") == std::string::npos;
}

// Copies the model with the video's weights set to NaN, so that a model that reads them cannot be loaded.
std::string WithoutPicture(const TemporaryDirectory& folder, int& spoiled, int64_t& spoiled_bytes) {
  const std::string from = TinyModel().files.paths[0];
  std::string path = folder.File("sound.safetensors");
  std::filesystem::copy_file(from, path);
  const auto file = SafetensorsFile::Open(from).value();
  std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header = 0;
  out.read(reinterpret_cast<char*>(&header), sizeof header);
  for (const TensorInfo& tensor : file->tensors()) {
    if (!OfThePicture(tensor.name)) continue;
    out.seekp(static_cast<int64_t>(sizeof header + header) + tensor.offset);
    out << std::string(tensor.bytes, '\xff');  // NaN in every format
    ++spoiled;
    spoiled_bytes += static_cast<int64_t>(tensor.bytes);
  }
  return path;
}

TEST(SoundRender, SoundAloneReadsAndHoldsNothingOfThePicture) {
  const auto mesh = Mesh::Single();
  PipelineOptions options = TinyModel();
  ClipRecorder whole(false), alone(false);
  ASSERT_THAT(RenderOn(Cpu(), options, *mesh, SoundAlone(), whole), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan both, Pipeline::Plan(options, *mesh, SoundAlone()));
  const TemporaryDirectory folder;
  int spoiled = 0;
  int64_t spoiled_bytes = 0;
  options.files.paths = {WithoutPicture(folder, spoiled, spoiled_bytes)};
  EXPECT_GT(spoiled, 200);
  EXPECT_FALSE(RenderOn(Cpu(), options, *mesh, SoundAlone(), alone).ok());
  options.modalities = Modalities::kSound;
  ASSERT_THAT(RenderOn(Cpu(), options, *mesh, SoundAlone(), alone), IsOk());
  EXPECT_TRUE(alone.values_["waveform"] == whole.values_["waveform"]);
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, Pipeline::Plan(options, *mesh, SoundAlone()));
  // Packed weights are padded, by how much depends on the instruction set, so they take at least the file's bytes.
  EXPECT_GE(both.weight_bytes - plan.weight_bytes, spoiled_bytes);
  EXPECT_EQ(plan.flops(), both.flops());  // video weights are not used in computation even if loaded
  EXPECT_EQ(plan.arena_bytes, both.arena_bytes);
  EXPECT_THAT(Pipeline::Plan(options, *mesh, Request()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("audio_only: must be set: this model generates no video")));
}

TEST(SoundRender, SoundAloneIsTheSameWithoutThePictureInBothGenerationsAndOnRanks) {
  for (const char* name : {"pipeline_one_stage", "pipeline_2_0"}) {
    PipelineOptions options = OptionsOf(Golden(name), DType::kBF16);
    for (const MeshShape& shape : {MeshShape{}, {.tokens = 2}, {.tensor = 2}}) {
      ClipRecorder clips[] = {ClipRecorder(false), ClipRecorder(false)};
      for (const Modalities modalities : {Modalities::kBoth, Modalities::kSound}) {
        options.modalities = modalities;
        ClipRecorder& clip = clips[modalities == Modalities::kSound ? 1 : 0];
        const absl::Status status =
            RunThreadRanks(shape, [&](const Mesh& mesh) { return RenderOn(Cpu(), options, mesh, SoundAlone(), clip); });
        ASSERT_THAT(status, IsOk()) << name << " on " << shape.ToString();
      }
      EXPECT_FALSE(clips[0].values_["waveform"].empty());
      EXPECT_TRUE(clips[0].values_["waveform"] == clips[1].values_["waveform"]) << name << " on " << shape.ToString();
    }
  }
}

TEST(SoundRender, ThePlanIsWhatARunUses) {
  const auto mesh = Mesh::Single();
  for (const GenerationRequest& request : {WithSound(Request(), Tones(1)), SoundAlone()}) {
    PipelineOptions options = TinyModel();
    KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan cost, Pipeline::Plan(options, *mesh, request));
    options.arena_bytes = cost.arena_bytes;
    KINORA_ASSERT_OK_AND_ASSIGN(const auto pipeline, Pipeline::Load(options, *mesh));
    KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, pipeline->Prepare(request));
    ClipRecorder clip(false);
    ASSERT_THAT(pipeline->Generate(plan, &clip, nullptr), IsOk());
    EXPECT_GE(pipeline->peak_arena_bytes(), 0.97 * static_cast<double>(cost.arena_bytes));
    EXPECT_LE(pipeline->peak_arena_bytes(), cost.arena_bytes);
  }
}

TEST(SoundRender, ASoundThatNobodyReadOrThatCannotBeHeardIsRefused) {
  const auto mesh = Mesh::Single();
  GenerationRequest request = Request();
  request.audio = AudioGuide{.input_id = "song"};
  ClipRecorder clip(false);
  EXPECT_THAT(RenderOn(Cpu(), TinyModel(), *mesh, request, clip),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("audio: its sound was not read")));
  request = WithSound(Request(), Tones(2));
  request.num_frames = 1;
  request.frame_rate = 60;
  EXPECT_THAT(Pipeline::Plan(TinyModel(), *mesh, request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("audio: 267 samples at 16000 Hz are too short")));
  request = WithSound(Request(), Tones(6));
  EXPECT_THAT(RenderOn(Cpu(), TinyModel(), *mesh, request, clip),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("audio: 6 channels")));
}

}  // namespace
}  // namespace kinora
