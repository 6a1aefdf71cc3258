// Frontend and engine agree: the engine's ResolveRequest accepts what the frontend admits for a described model, and
// rejects, for the same field, what the frontend rejects. Tests 100,000 requests, converted to messages and back.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/request/request_rules.h"
#include "server/common/status_details.h"
#include "server/frontend/api/request_validation.h"
#include "server/request/model_conversion.h"
#include "server/request/request_conversion.h"
#include "tests/request/descriptions.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

constexpr int kRequests = 100'000;

// Generates requests with a few fields, most of them valid or near a limit.
class Requests {
 public:
  v1::Generation Next() {
    v1::Generation generation;
    const int fields = Up(5);
    for (int i = 0; i < fields; ++i) Set(generation);
    if (Up(10) > 0) return generation;
    std::string bytes = generation.SerializeAsString();
    for (int flips = Up(3) + 1; flips > 0 && !bytes.empty(); --flips) bytes[Up(bytes.size())] ^= 1 << Up(8);
    v1::Generation damaged;
    if (!damaged.ParseFromString(bytes)) return generation;
    damaged.DiscardUnknownFields();  // lost in conversion: the engine sees no unknown fields
    return damaged;
  }

 private:
  int Up(size_t end) { return static_cast<int>(random_() % end); }  // 0 … end − 1

  int32_t Int() {
    constexpr int32_t kValues[] = {0,   1,    -1,   2,    8,    9,    25,   31,      32,        33,        64,  96,
                                   97,  100,  121,  128,  256,  257,  480,  497,     505,       512,       768, 998,
                                   999, 1000, 1536, 2048, 4096, 4097, 4128, 300'000, INT32_MAX, INT32_MIN, -2,  47};
    return Up(4) > 0 ? kValues[Up(std::size(kValues))] : static_cast<int32_t>(random_()) >> Up(32);
  }
  int32_t Side() { return 32 * (Up(48) + 1); }

  double Double() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kValues[] = {0,     0.5,  1,     -1,   0.7,  1.5,  3,     24,    30,
                                  0.999, 240,  241,   500,  1000, 1001, -1000, -1001, 1e-60,
                                  1e300, kInf, -kInf, -0.0, NAN,  1e-9, 0.25,  7,     1 - 1e-12};
    return Up(4) > 0 ? kValues[Up(std::size(kValues))] : std::uniform_real_distribution<>(-2, 300)(random_);
  }

  std::string Text() {
    constexpr const char* kTexts[] = {"", "a fox", "\xc3\xbc", "\xff", "a\xed\xa0\x80", "x2", "x1.5", "style"};
    if (Up(50) == 0) return std::string(kMaxPromptBytes + Up(2), 'p');
    return Up(20) == 0 ? std::string("a\0b", 3) : kTexts[Up(std::size(kTexts))];
  }

  void SetGuidance(v1::Guidance& guidance) {
    if (Up(2)) guidance.set_cfg_scale(Double());
    if (Up(3) == 0) guidance.set_stg_scale(Double());
    if (Up(3) == 0) guidance.set_modality_scale(Double());
    if (Up(3) == 0) guidance.set_rescale(Double());
    if (Up(3) == 0) guidance.set_skip_step(Int());
    for (int i = Up(4) - 1; i > 0; --i) guidance.add_stg_blocks(Up(3) ? Up(48) : Int());
  }

  void SetSigmas(v1::Generation& g) {
    const int count = Up(3) ? Up(12) + 1 : Up(1005) + 1;
    for (int i = 0; i < count; ++i) g.add_sigmas(1 - i / std::max(1.0, count - 1.0));
    if (Up(3) == 0) g.set_sigmas(Up(count), Double());
    if (Up(3) == 0) g.set_num_inference_steps(Up(2) ? count - 1 : Int());
  }

  void SetInput(v1::Generation& g) {
    switch (Up(5)) {
      case 0: {
        v1::Condition& condition = *g.add_conditions();
        if (Up(3)) condition.mutable_image()->set_input_id(Text());
        if (Up(3) == 0) condition.mutable_clip()->set_input_id(Text());
        if (Up(3) == 0) condition.set_frame(Int());
        if (Up(3) == 0) condition.set_strength(Double());
        if (Up(3) == 0) condition.set_crf(Int());
        condition.set_append(Up(2));
        return;
      }
      case 1:
        g.add_loras()->set_id(Text());
        if (Up(3) == 0) g.mutable_loras(0)->set_strength(Double());
        if (Up(3) == 0) g.mutable_loras(0)->set_strength_stage2(Double());
        return;
      case 2:
        g.mutable_retake()->set_start_seconds(Double());
        if (Up(3)) g.mutable_retake()->set_end_seconds(Double());
        g.mutable_retake()->mutable_clip()->set_input_id(Text());
        return;
      case 3:
        g.mutable_audio()->set_start_seconds(Double());
        g.mutable_audio()->mutable_media()->set_input_id(Text());
        return;
      default:
        if (Up(2)) g.set_upsampler(Text());
        g.set_audio_only(Up(2));
    }
  }

  void Set(v1::Generation& g) {
    switch (Up(16)) {
      case 0:
        return g.set_prompt(Text());
      case 1:
        return g.set_negative_prompt(Text());
      case 2:
      case 3:
        return g.set_width(Up(2) ? Side() : Int());
      case 4:
      case 5:
        return g.set_height(Up(2) ? Side() : Int());
      case 6:
        return g.set_num_frames(Up(2) ? 8 * Up(64) + 1 : Int());
      case 7:
        return g.set_frame_rate(Up(2) ? 1 + Up(240) : Double());
      case 8:
        return g.set_recipe(static_cast<v1::Generation::Recipe>(Up(10) ? Up(6) : Int()));
      case 9:
        return g.set_num_inference_steps(Up(2) ? Up(60) : Int());
      case 10:
        return SetSigmas(g);
      case 11:
        return SetGuidance(*g.mutable_video_guidance());
      case 12:
        return SetGuidance(*g.mutable_audio_guidance());
      case 13:
        return g.set_schedule_tokens(Int());
      case 14:
        return g.set_seed(random_());
      default:
        return SetInput(g);
    }
  }

  std::mt19937_64 random_{11};
};

uint64_t Seven() { return 7; }

// Returns a model's description as the frontend has it after transfer and storage.
v1::ModelInfo Stored(const ModelDescription& model) {
  v1::ModelInfo info;
  EXPECT_TRUE(info.ParseFromString(ToModelInfo(model, "m").SerializeAsString()));
  return info;
}

absl::StatusOr<v1::Generation> AskFrontend(const v1::ModelInfo& model, const v1::Generation& generation) {
  v1::CreateVideoRequest request;
  *request.mutable_generation() = generation;
  return ValidateRequest(request, model, {}, &Seven);
}

absl::StatusOr<GenerationRequest> AskEngine(const ModelDescription& model, v1::Generation generation) {
  if (!generation.has_seed()) generation.set_seed(Seven());
  KINORA_RETURN_IF_ERROR(KeepGuidanceDefaults(model, generation));
  absl::StatusOr<GenerationRequest> request = ToGenerationRequest(generation);
  return request.ok() ? ResolveRequest(model, *request) : request;
}

// Checks everything that the engine divides by, indexes with or allocates, independently of the rules.
void ExpectSound(const ModelDescription& model, const GenerationRequest& r) {
  const RecipeDescription& d = model.recipes[0];
  EXPECT_TRUE(r.audio_only ? r.width == 0 : r.width % 32 == 0 && r.width >= d.min_size && r.width <= d.max_width);
  EXPECT_TRUE(r.audio_only ? r.height == 0 : r.height % 32 == 0 && r.height >= d.min_size && r.height <= d.max_height);
  EXPECT_TRUE((r.num_frames == 0 && r.audio.has_value()) || r.num_frames % 8 == 1);
  EXPECT_TRUE(r.num_frames >= 0 && r.num_frames <= model.recipes[0].max_frames);
  EXPECT_TRUE(r.frame_rate >= 1 && r.frame_rate <= 240);
  EXPECT_TRUE(r.num_inference_steps >= 1 && r.num_inference_steps <= 999);
  EXPECT_TRUE(r.recipe == Recipe::kOneStage || r.recipe == Recipe::kDistilled);
  EXPECT_TRUE(r.sigmas.empty() || r.sigmas.size() == static_cast<size_t>(r.num_inference_steps) + 1);
  for (const auto& guidance : {r.video_guidance, r.audio_guidance}) {
    if (!guidance.has_value()) continue;
    EXPECT_TRUE(r.recipe == Recipe::kOneStage || (guidance->cfg_scale == 1 && guidance->stg_scale == 0));
    EXPECT_TRUE(guidance->skip_step >= 0 && guidance->skip_step <= 999);
    for (const int32_t block : guidance->stg_blocks) EXPECT_TRUE(block >= 0 && block < model.blocks);
  }
}

TEST(Admission, ADescriptionComesThroughItsMessageUnchanged) {
  for (const ModelDescription& model : Descriptions()) {
    KINORA_ASSERT_OK_AND_ASSIGN(const ModelDescription back, ToModelDescription(Stored(model)));
    EXPECT_EQ(back, model);
  }
}

TEST(Admission, FrontendAndEngineDecideAlike) {
  const std::vector<ModelDescription> models = Descriptions();
  std::vector<v1::ModelInfo> infos;
  infos.reserve(models.size());
  for (const ModelDescription& model : models) infos.push_back(Stored(model));
  Requests requests;
  std::map<absl::StatusCode, int> answers;
  for (int i = 0; i < kRequests && !testing::Test::HasFailure(); ++i) {
    const size_t m = static_cast<size_t>(i) % models.size();
    const v1::Generation asked = requests.Next();
    const absl::StatusOr<v1::Generation> admitted = AskFrontend(infos[m], asked);
    const absl::StatusOr<GenerationRequest> resolved = AskEngine(models[m], asked);
    const std::string both =
        absl::StrCat(asked.ShortDebugString().substr(0, 500), "\nmodel ", m,
                     "\nfrontend: ", admitted.status().ToString(), "\nengine: ", resolved.status().ToString());
    ++answers[admitted.status().code()];
    ASSERT_EQ(admitted.status().code(), resolved.status().code()) << both;
    for (const FieldViolation& violation : Violations(admitted.status())) {
      const std::string field = violation.field.substr(std::string("generation.").size());
      // An unknown enum number has no plain form, so the engine does not see it.
      if (field != "recipe" && !v1::Generation::Recipe_IsValid(asked.recipe())) continue;
      ASSERT_NE(resolved.status().message().find(field + ": "), absl::string_view::npos) << field << "\n" << both;
    }
    if (absl::IsUnimplemented(admitted.status())) {
      ASSERT_EQ(admitted.status().message(), absl::StrCat("generation.", resolved.status().message()));
    }
    if (!admitted.ok()) continue;
    ExpectSound(models[m], *resolved);
    ASSERT_EQ(admitted->SerializeAsString(), ToGeneration(*resolved).SerializeAsString()) << both;
    // Resolving the request on the worker, or again, does not change it.
    KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest worker, AskEngine(models[m], *admitted));
    ASSERT_TRUE(worker == *resolved) << both;
    KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation again, AskFrontend(infos[m], *admitted));
    ASSERT_EQ(again.SerializeAsString(), admitted->SerializeAsString()) << both;
  }
  // Both answers are frequent.
  EXPECT_GT(answers[absl::StatusCode::kOk], kRequests / 10);
  EXPECT_GT(answers[absl::StatusCode::kInvalidArgument], kRequests / 10);
}

// Descriptions stored by an older build are incomplete: they must not decide anything or cause a crash.
TEST(Admission, AModelThatAnOlderBuildDescribedIsNotKnownYet) {
  const v1::ModelInfo whole = Stored(Descriptions()[0]);
  const auto cleared = [&](auto clear) {
    v1::ModelInfo info = whole;
    clear(info);
    return info;
  };
  const std::pair<const char*, v1::ModelInfo> older[] = {
      {"blocks", cleared([](auto& m) { m.clear_blocks(); })},
      {"pixels_per_token", cleared([](auto& m) { m.clear_pixels_per_token(); })},
      {"frames_per_token", cleared([](auto& m) { m.clear_frames_per_token(); })},
      {"modalities", cleared([](auto& m) { m.clear_modalities(); })},
      {"parts", cleared([](auto& m) { m.clear_parts(); })},
      {"schedule", cleared([](auto& m) { m.clear_schedule(); })},
      {"limits", cleared([](auto& m) { m.clear_limits(); })},
      {"limits.size_multiple", cleared([](auto& m) { m.mutable_limits(0)->clear_size_multiple(); })},
      {"limits.frame_multiple", cleared([](auto& m) { m.mutable_limits(0)->clear_frame_multiple(); })},
      {"limits.needs", cleared([](auto& m) { m.mutable_limits(1)->clear_needs(); })},
      {"recipe_defaults", cleared([](auto& m) { m.clear_recipe_defaults(); })},
      {"defaults.recipe",
       cleared([](auto& m) { m.mutable_defaults()->set_recipe(static_cast<v1::Generation::Recipe>(77)); })},
  };
  for (const auto& [field, info] : older) {
    EXPECT_THAT(AskFrontend(info, {}), StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(field)));
    EXPECT_EQ(ErrorReason(AskFrontend(info, {}).status()), "NO_MODEL");
  }
  EXPECT_THAT(AskFrontend(whole, {}), IsOk());
}

}  // namespace
}  // namespace kinora
