#include "server/frontend/api/request_validation.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/common/status_details.h"
#include "server/frontend/api/message_check.h"
#include "server/request/model_conversion.h"
#include "tests/request/descriptions.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// DISTILLED has its own defaults.
v1::ModelInfo Model() {
  ModelDescription model =
      DescribeModel({.max_width = 1536, .max_height = 1024, .max_frames = 257, .max_tokens = 20'000});
  GenerationRequest& distilled = model.recipes[1].defaults;
  distilled.width = 640;
  distilled.num_frames = 97;
  distilled.frame_rate = 25;
  return ToModelInfo(model, "m");
}

uint64_t Seven() { return 7; }

absl::StatusOr<v1::Generation> Validate(const v1::CreateVideoRequest& request) {
  return ValidateRequest(request, Model(), {}, &Seven);
}
absl::StatusOr<v1::Generation> Validate(const std::string& text) {
  return Validate(Parse<v1::CreateVideoRequest>(text));
}

TEST(ValidateRequest, FillsEveryDefaultOfTheModelsRecipe) {
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation effective, Validate("generation { prompt: 'x' }"));
  EXPECT_EQ(effective.recipe(), v1::Generation::ONE_STAGE);
  EXPECT_EQ(effective.width(), 768);
  EXPECT_EQ(effective.height(), 512);
  EXPECT_EQ(effective.num_frames(), 121);
  EXPECT_EQ(effective.frame_rate(), 24);
  EXPECT_EQ(effective.num_inference_steps(), 30);
  EXPECT_EQ(effective.seed(), 7u);
  EXPECT_EQ(effective.negative_prompt(), "blurry");
  EXPECT_EQ(effective.video_guidance().stg_blocks(0), 28);
  EXPECT_EQ(effective.audio_guidance().cfg_scale(), 7);
}

TEST(ValidateRequest, FillsTheDefaultsOfAnotherRecipeAndLeavesGuidanceOut) {
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation effective, Validate("generation { recipe: DISTILLED seed: 0 }"));
  EXPECT_EQ(effective.width(), 640);
  EXPECT_EQ(effective.num_inference_steps(), 8);
  EXPECT_EQ(effective.seed(), 0u);  // given, not drawn
  EXPECT_FALSE(effective.has_video_guidance());
  EXPECT_FALSE(effective.has_negative_prompt());
}

TEST(ValidateRequest, AGuidanceThatKeepsTheDefaultsChangesTheTermsItNames) {
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation defaults, Validate("generation { prompt: 'x' }"));
  KINORA_ASSERT_OK_AND_ASSIGN(
      const v1::Generation effective,
      Validate("generation { prompt: 'x' video_guidance { cfg_scale: 5 stg_blocks: 3 keep_defaults: true } }"));
  EXPECT_EQ(effective.video_guidance().cfg_scale(), 5);
  EXPECT_EQ(effective.video_guidance().stg_scale(), defaults.video_guidance().stg_scale());
  EXPECT_EQ(effective.video_guidance().modality_scale(), defaults.video_guidance().modality_scale());
  EXPECT_EQ(effective.video_guidance().rescale(), defaults.video_guidance().rescale());
  EXPECT_THAT(effective.video_guidance().stg_blocks(), testing::ElementsAre(3));
  EXPECT_FALSE(effective.video_guidance().keep_defaults());
  EXPECT_EQ(effective.audio_guidance().SerializeAsString(), defaults.audio_guidance().SerializeAsString());
  // Sound without video: the recipe's default for clips is dropped.
  KINORA_ASSERT_OK_AND_ASSIGN(
      const v1::Generation sound,
      Validate("generation { prompt: 'x' audio_only: true audio_guidance { cfg_scale: 2 keep_defaults: true } }"));
  EXPECT_EQ(sound.audio_guidance().cfg_scale(), 2);
  EXPECT_EQ(sound.audio_guidance().modality_scale(), 1);
}

TEST(ValidateRequest, AGivenGuidanceIsOffWhereItSaysNothing) {
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation effective,
                              Validate("generation { video_guidance { stg_scale: 1 } audio_guidance {} }"));
  EXPECT_EQ(effective.video_guidance().cfg_scale(), 1);
  EXPECT_EQ(effective.video_guidance().modality_scale(), 1);
  EXPECT_EQ(effective.video_guidance().stg_blocks(0), 28);  // the model's
  EXPECT_FALSE(effective.has_negative_prompt());            // no guidance term uses it
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation empty, Validate("generation { negative_prompt: '' }"));
  EXPECT_TRUE(empty.has_negative_prompt());
  EXPECT_EQ(empty.negative_prompt(), "");
}

TEST(ValidateRequest, ExplicitSigmasSetTheNumberOfSteps) {
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation effective,
                              Validate("generation { sigmas: 1 sigmas: 0.5 sigmas: 0 }"));
  EXPECT_EQ(effective.num_inference_steps(), 2);
}

struct BadCase {
  const char* request;
  const char* field;
  const char* says;
};

class BadRequests : public testing::TestWithParam<BadCase> {};

TEST_P(BadRequests, NameTheFieldAndTheNearestValue) {
  const absl::Status status = Validate(GetParam().request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  bool found = false;
  for (const FieldViolation& violation : Violations(status)) {
    found |= violation.field == GetParam().field && violation.description.find(GetParam().says) != std::string::npos;
  }
  EXPECT_TRUE(found) << status;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadRequests,
    testing::Values(
        BadCase{"generation { width: 100 }", "generation.width", "nearest: 96"},
        BadCase{"generation { width: 112 }", "generation.width", "nearest: 128"},
        BadCase{"generation { width: 1 }", "generation.width", "nearest: 32"},
        BadCase{"generation { width: -64 }", "generation.width", "nearest: 32"},
        BadCase{"generation { width: 2147483647 }", "generation.width", "too large; nearest: 1536"},
        BadCase{"generation { height: -2147483648 }", "generation.height", "nearest: 32"},
        BadCase{"generation { num_frames: 120 }", "generation.num_frames", "nearest: 121"},
        BadCase{"generation { num_frames: 2 }", "generation.num_frames", "nearest: 1"},
        BadCase{"generation { num_frames: 999 }", "generation.num_frames", "nearest: 257"},
        BadCase{"generation { width: 1536 height: 1024 }", "generation.num_frames", "nearest at this size: 97 frames"},
        BadCase{"generation { frame_rate: -1 }", "generation.frame_rate", "1..240; nearest: 1"},
        BadCase{"generation { frame_rate: 500 }", "generation.frame_rate", "1..240; nearest: 240"},
        BadCase{"generation { frame_rate: nan }", "generation.frame_rate", "finite"},
        BadCase{"generation { frame_rate: inf }", "generation.frame_rate", "finite"},
        BadCase{"generation { num_inference_steps: -1 }", "generation.num_inference_steps", "nearest: 1"},
        BadCase{"generation { num_inference_steps: 5000 }", "generation.num_inference_steps", "nearest: 999"},
        BadCase{"generation { recipe: DISTILLED num_inference_steps: 9 }", "generation.num_inference_steps",
                "nearest: 8"},
        BadCase{"generation { sigmas: 1 sigmas: 0 num_inference_steps: 2 }", "generation.num_inference_steps",
                "nearest: 1"},
        BadCase{"generation { sigmas: 0 }", "generation.sigmas", "2 to 1000"},
        BadCase{"generation { sigmas: 0.5 sigmas: 0.5 sigmas: 0 }", "generation.sigmas[1]", "less than"},
        BadCase{"generation { sigmas: 1.5 sigmas: 0 }", "generation.sigmas[0]", "1e-06..1"},
        BadCase{"generation { sigmas: 1 sigmas: 0.1 }", "generation.sigmas[1]", "nearest: 0"},
        BadCase{"generation { sigmas: nan sigmas: 0 }", "generation.sigmas[0]", "finite"},
        BadCase{"generation { schedule_tokens: -2 }", "generation.schedule_tokens", "nearest: -1"},
        BadCase{"generation { recipe: DISTILLED video_guidance { cfg_scale: 3 } }", "generation.video_guidance",
                "no guidance"},
        BadCase{"generation { video_guidance { rescale: 1.5 } }", "generation.video_guidance.rescale", "nearest: 1"},
        BadCase{"generation { audio_guidance { skip_step: -1 } }", "generation.audio_guidance.skip_step", "nearest: 0"},
        BadCase{"generation { video_guidance { skip_step: 5000 } }", "generation.video_guidance.skip_step",
                "0..999; nearest: 999"},
        BadCase{"generation { video_guidance { stg_blocks: 77 } }", "generation.video_guidance.stg_blocks[0]",
                "0..47; nearest: 47"},
        BadCase{"generation { schedule_tokens: 300000 }", "generation.schedule_tokens", "nearest: "},
        BadCase{"generation { audio_guidance { cfg_scale: nan } }", "generation.audio_guidance.cfg_scale", "finite"},
        BadCase{"generation { video_guidance { stg_blocks: -1 } }", "generation.video_guidance.stg_blocks[0]",
                "not a block"},
        BadCase{"generation { conditions {} }", "generation.conditions[0]", "image"},
        BadCase{"generation { audio {} }", "generation.audio", "needs a sound"},
        BadCase{"generation { audio_only: true width: 64 }", "generation.width", "there is no picture"},
        BadCase{"output { crf: 52 }", "output.crf", "nearest: 51"},
        BadCase{"output { ttl { seconds: 0 } }", "output.ttl", "greater than 0"},
        BadCase{"output { ttl { seconds: 99999999 } }", "output.ttl", "720h"},
        BadCase{"output { preview_every_steps: -1 }", "output.preview_every_steps", "0 or more"},
        BadCase{"generation { audio_only: true } output { preview_every_steps: 1 }", "output.preview_every_steps",
                "there is no picture"},
        BadCase{"generation { audio_only: true } output { thumbnail: true }", "output.thumbnail",
                "there is no picture"},
        BadCase{"scheduling { deadline { seconds: -5 } }", "scheduling.deadline", "greater than 0"},
        BadCase{"scheduling { deadline { nanos: 2000000000 } }", "scheduling.deadline", "greater than 0"},
        BadCase{"scheduling { priority: 99 }", "scheduling.priority", "nearest: 10"},
        BadCase{"labels { key: '' value: 'x' }", "labels", "empty"}));

TEST(ValidateRequest, ALoraMeansTheFileThatItIsNow) {
  const std::string ink(64, 'a'), other(64, 'b');
  v1::ModelInfo model = Model();
  model.add_loras("ink");
  model.add_loras("oil");  // its digest is unknown
  (*model.mutable_digests())["lora/ink"] = "sha256:" + ink;
  const auto validate = [&](const std::string& loras) {
    return ValidateRequest(Parse<v1::CreateVideoRequest>("generation { prompt: 'x' " + loras + " }"), model, {},
                           &Seven);
  };
  KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation effective, validate("loras { id: 'ink' } loras { id: 'oil' }"));
  EXPECT_EQ(effective.loras(0).digest(), "sha256:" + ink);
  EXPECT_EQ(effective.loras(1).digest(), "");
  EXPECT_THAT(validate("loras { id: 'ink' digest: 'sha256:" + ink + "' }"), IsOk());
  EXPECT_THAT(validate("loras { id: 'ink' digest: 'sha256:" + other + "' }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("generation.loras[0].digest: the file of ink is sha256:" + ink)));
}

TEST(ValidateRequest, AModelOfUnknownKindNeedsARecipe) {
  v1::ModelInfo model = Model();
  model.clear_kind();
  model.mutable_defaults()->clear_recipe();
  v1::CreateVideoRequest request;
  EXPECT_THAT(
      ValidateRequest(request, model, {}, &Seven),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("generation.recipe"), HasSubstr("kind=dev"))));
  request.mutable_generation()->set_recipe(v1::Generation::DISTILLED);
  EXPECT_THAT(ValidateRequest(request, model, {}, &Seven), IsOk());
}

TEST(ValidateRequest, ARecipeThatTheModelLacksIsRefused) {
  v1::ModelInfo model = Model();
  model.mutable_limits()->RemoveLast();
  v1::CreateVideoRequest request;
  request.mutable_generation()->set_recipe(v1::Generation::DISTILLED);
  EXPECT_THAT(ValidateRequest(request, model, {}, &Seven),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not one of this model's recipes")));
}

TEST(ValidateRequest, ListsEveryFieldThatIsWrongAtOnce) {
  const absl::Status status = Validate("generation { width: 1 height: 1 num_frames: 2 } output { crf: 99 }").status();
  EXPECT_EQ(Violations(status).size(), 4u);
  EXPECT_EQ(ErrorReason(status), "");
}

TEST(ValidateRequest, ASizeBeyondTheModelCarriesItsLimits) {
  EXPECT_EQ(ErrorReason(Validate("generation { width: 4096 }").status()), "SHAPE_TOO_LARGE");
  EXPECT_EQ(ErrorReason(Validate("generation { width: 1536 height: 1024 }").status()), "SHAPE_TOO_LARGE");
}

TEST(ValidateRequest, LimitsAllTextsAndLists) {
  v1::CreateVideoRequest request;
  request.mutable_generation()->set_prompt(std::string(16 << 10, 'p'));
  EXPECT_THAT(Validate(request), IsOk());
  request.mutable_generation()->set_negative_prompt(std::string((16 << 10) + 1, 'p'));
  EXPECT_THAT(Validate(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generation.negative_prompt")));
  request.Clear();
  request.set_request_id(std::string(129, 'x'));
  EXPECT_THAT(Validate(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("request_id")));
  request.Clear();
  for (int i = 0; i < 65; ++i) (*request.mutable_labels())[std::to_string(i)] = "x";
  EXPECT_THAT(Validate(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("labels")));
  request.Clear();
  for (int i = 0; i < 1002; ++i) request.mutable_generation()->add_sigmas(1 - i / 1001.0);
  EXPECT_THAT(Validate(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generation.sigmas")));
}

TEST(ValidateRequest, RefusesUnknownEnumNumbersAndFields) {
  v1::CreateVideoRequest request;
  request.mutable_generation()->set_recipe(static_cast<v1::Generation::Recipe>(42));
  request.mutable_output()->set_container(static_cast<v1::Output::Container>(9));
  EXPECT_THAT(Validate(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                          AllOf(HasSubstr("generation.recipe: 42"), HasSubstr("output.container: 9"))));
  request.Clear();
  auto* guidance = request.mutable_generation()->mutable_video_guidance();
  guidance->GetReflection()->MutableUnknownFields(guidance)->AddVarint(99, 1);
  EXPECT_THAT(Validate(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("generation.video_guidance.#99")));
}

TEST(ValidateRequest, AnEffectiveGenerationAskedForAgainIsTheSame) {
  for (const char* text : {"generation { prompt: 'x' }", "generation { recipe: DISTILLED }",
                           "generation { video_guidance { stg_scale: 2 } }", "generation { sigmas: 1 sigmas: 0 }"}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation effective, Validate(text));
    v1::CreateVideoRequest again;
    *again.mutable_generation() = effective;
    KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation same, Validate(again));
    EXPECT_EQ(same.DebugString(), effective.DebugString());
  }
}

TEST(ValidateRequest, RefusesTextThatIsNotUtf8) {
  v1::CreateVideoRequest request;
  request.mutable_generation()->set_prompt("\xC0\x80");
  (*request.mutable_labels())["team"] = "\xff";
  EXPECT_THAT(Validate(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("generation.prompt: invalid UTF-8"), HasSubstr("labels[0].value"))));
}

TEST(ChooseModel, TheOnlyOneTheNamedOneOrAnErrorThatListsThem) {
  v1::ModelInfo a, b;
  a.set_id("a");
  b.set_id("b");
  EXPECT_EQ(ChooseModel({a}, "", "")->id(), "a");
  EXPECT_EQ(ChooseModel({a, b}, "b", "")->id(), "b");
  EXPECT_THAT(ChooseModel({a, b}, "", ""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"a\", \"b\"")));
  EXPECT_THAT(ChooseModel({a}, "c", ""), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("\"a\"")));
  EXPECT_THAT(ChooseModel({}, "a", ""), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(ChooseModel, WithoutAnyItSaysWhyAndWhetherToTryAgain) {
  const absl::Status loads = ChooseModel({}, "", "", {.why = "group 0 is loading", .passes = true}).status();
  EXPECT_THAT(loads, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("yet: group 0 is loading")));
  EXPECT_TRUE(loads.GetPayload("type.googleapis.com/google.rpc.RetryInfo").has_value());
  const absl::Status failed = ChooseModel({}, "", "", {.why = "group 0 is failed (no file)", .passes = false}).status();
  EXPECT_THAT(failed, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("group 0 is failed (no file)")));
  EXPECT_FALSE(failed.GetPayload("type.googleapis.com/google.rpc.RetryInfo").has_value());
  EXPECT_EQ(ErrorReason(failed), "NO_MODEL");
}

TEST(ChooseModel, TheDefaultIsThatOfARequestWithoutANameAndIsNeverReplacedByAnother) {
  v1::ModelInfo a, b;
  a.set_id("a");
  b.set_id("b");
  EXPECT_EQ(ChooseModel({a, b}, "", "b")->id(), "b");
  EXPECT_EQ(ChooseModel({a, b}, "a", "b")->id(), "a");
  EXPECT_THAT(ChooseModel({a}, "", "b"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("\"b\" is not loaded; loaded: \"a\"")));
}

TEST(ParseMessage, TellsBadTextFromBadBytesAndReadsTheRest) {
  v1::CreateVideoRequest request = Parse<v1::CreateVideoRequest>(
      "request_id: 'ü' generation { prompt: 'x' sigmas: 1 sigmas: 0 loras { id: 'y' } } labels { key: 'k' value: 'v' "
      "}");
  const std::string bytes = request.SerializeAsString();
  v1::CreateVideoRequest read;
  EXPECT_THAT(ParseMessage(bytes, read), IsOk());
  EXPECT_EQ(read.SerializeAsString(), bytes);
  for (size_t size = 1; size < bytes.size(); ++size) {  // never crashes; rejects a field that is cut
    (void)ParseMessage(std::string_view(bytes).substr(0, size), read);
  }
  EXPECT_THAT(ParseMessage(bytes.substr(0, bytes.size() - 1), read),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a message of type CreateVideoRequest")));
  std::string bad = bytes;
  bad.replace(bad.find('y'), 1, "\xff");
  bad.replace(bad.rfind('v'), 1, "\xfe");
  EXPECT_THAT(ParseMessage(bad, read),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("generation.loras[0].id: invalid"), HasSubstr("labels[0].value: invalid"))));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "\x1b";  // nested groups
  EXPECT_THAT(ParseMessage(deep, read), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CheckMessage, StopsAtTwentyProblems) {
  v1::CreateVideoRequest request;
  for (int i = 0; i < 1000; ++i) request.mutable_generation()->add_sigmas(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(CheckMessage(request).size(), 20u);
  EXPECT_THAT(CheckMessage(v1::CreateVideoRequest()), IsEmpty());
}

}  // namespace
}  // namespace kinora
