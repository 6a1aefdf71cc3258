#include "server/gateway/create_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "server/gateway/foreign_fields.h"
#include "tests/server/gateway/mapping_fixtures.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
const std::string& Id(char c) {
  static const std::string a(64, 'a'), b(64, 'b');
  return c == 'a' ? a : b;
}

// "FIELD: …" of every violation.
std::vector<std::string> WrongFields(const absl::StatusOr<CreateFields>& created) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : Violations(created.status())) fields.push_back(violation.field);
  return fields;
}

v1::Generation GenerationOf(const std::string& json) {
  const auto created = Create(json);
  EXPECT_THAT(created, IsOk()) << json;
  return created.ok() ? created->request.generation() : v1::Generation();
}

// A field with a value, and whether the request has what it asks for.
struct Sample {
  std::string name, value;
  std::function<bool(const v1::CreateVideoRequest&)> arrives;
};

std::vector<Sample> Samples() {
  using R = v1::CreateVideoRequest;
  const std::string id = "\"" + Id('a') + "\"";
  const auto g = [](auto test) { return [test](const R& r) { return test(r.generation()); }; };
  const auto o = [](auto test) { return [test](const R& r) { return test(r.output()); }; };
  const auto image = g([](const auto& x) { return x.conditions(0).image().input_id() == Id('a'); });
  const auto clip = g([](const auto& x) { return x.conditions(0).clip().input_id() == Id('a'); });
  return {
      {"prompt", "\"a fox\"", g([](const auto& x) { return x.prompt() == "a fox"; })},
      {"negative_prompt", "\"\"", g([](const auto& x) { return x.has_negative_prompt(); })},
      {"model", "\"ltx\"", [](const R& r) { return r.model() == "ltx"; }},
      {"n", "1", g([](const auto&) { return true; })},
      {"seconds", "\"2\"", g([](const auto& x) { return x.num_frames() == 49; })},
      {"min_seconds", "2, \"seconds\": \"Auto\"", g([](const auto& x) { return x.auto_length().min_seconds() == 2; })},
      {"max_seconds", "\"9.5\", \"seconds\": \"auto\"",
       g([](const auto& x) { return x.auto_length().max_seconds() == 9.5 && x.num_frames() == 0; })},
      {"size", "\"64X96\"", g([](const auto& x) { return x.width() == 64 && x.height() == 96; })},
      {"width", "64", g([](const auto& x) { return x.width() == 64; })},
      {"height", "64", g([](const auto& x) { return x.height() == 64; })},
      {"fps", "29.97", g([](const auto& x) { return x.frame_rate() == 29.97; })},
      {"num_frames", "96", g([](const auto& x) { return x.num_frames() == 96; })},
      {"seed", "18446744073709551615", g([](const auto& x) { return x.seed() == UINT64_MAX; })},
      {"num_inference_steps", "20", g([](const auto& x) { return x.num_inference_steps() == 20; })},
      {"recipe", "\"Distilled-Two-Stage\"",
       g([](const auto& x) { return x.recipe() == v1::Generation::DISTILLED_TWO_STAGE; })},
      {"upsampler", "\"x2\"", g([](const auto& x) { return x.upsampler() == "x2"; })},
      {"sigmas", "[1, \"0.5\", 0]", g([](const auto& x) { return x.sigmas(1) == 0.5 && x.sigmas_size() == 3; })},
      {"schedule_tokens", "-1", g([](const auto& x) { return x.schedule_tokens() == -1; })},
      {"guidance_scale", "4",
       g([](const auto& x) { return x.video_guidance().cfg_scale() == 4 && x.audio_guidance().cfg_scale() == 4; })},
      {"video_cfg_scale", "4",
       g([](const auto& x) { return x.video_guidance().cfg_scale() == 4 && !x.has_audio_guidance(); })},
      {"audio_cfg_scale", "4",
       g([](const auto& x) { return x.audio_guidance().cfg_scale() == 4 && !x.has_video_guidance(); })},
      {"video_stg_scale", "2", g([](const auto& x) { return x.video_guidance().stg_scale() == 2; })},
      {"audio_stg_scale", "2", g([](const auto& x) { return x.audio_guidance().stg_scale() == 2; })},
      {"video_modality_scale", "2", g([](const auto& x) { return x.video_guidance().modality_scale() == 2; })},
      {"audio_modality_scale", "2", g([](const auto& x) { return x.audio_guidance().modality_scale() == 2; })},
      {"video_rescale_scale", "0.5", g([](const auto& x) { return x.video_guidance().rescale() == 0.5; })},
      {"audio_rescale_scale", "0.5", g([](const auto& x) { return x.audio_guidance().rescale() == 0.5; })},
      {"video_stg_blocks", "[3]", g([](const auto& x) { return x.video_guidance().stg_blocks(0) == 3; })},
      {"audio_stg_blocks", "[3]", g([](const auto& x) { return x.audio_guidance().stg_blocks(0) == 3; })},
      {"video_skip_step", "1", g([](const auto& x) { return x.video_guidance().skip_step() == 1; })},
      {"audio_skip_step", "1", g([](const auto& x) { return x.audio_guidance().skip_step() == 1; })},
      {"input_reference", "\"data:image/png;base64,iVBORw0KGgo=\"",
       g([](const auto& x) { return x.conditions_size() == 1; })},
      {"image_reference", "{\"file_id\": " + id + "}", image},
      {"reference_url", id, image},
      {"video_reference", "{\"file_id\": " + id + "}", clip},
      {"video_url", id, clip},
      {"audio_reference", "{\"file_id\": " + id + ", \"start_seconds\": 2}",
       g([](const auto& x) { return x.audio().media().input_id() == Id('a') && x.audio().start_seconds() == 2; })},
      {"conditions", "[{\"image\": " + id + ", \"frame\": 96, \"strength\": 0.5, \"append\": true, \"crf\": 20}]",
       g([](const auto& x) {
         const v1::Condition& c = x.conditions(0);
         return c.image().input_id() == Id('a') && c.frame() == 96 && c.strength() == 0.5 && c.append() &&
                c.crf() == 20;
       })},
      {"image_crf", "20, \"reference_url\": " + id, g([](const auto& x) { return x.conditions(0).crf() == 20; })},
      {"retake", "{\"clip\": " + id + ", \"start_seconds\": 0.5, \"end_seconds\": 1, \"keep_audio\": true}",
       g([](const auto& x) {
         return x.retake().clip().input_id() == Id('a') && x.retake().end_seconds() == 1 && x.retake().keep_audio();
       })},
      {"lora", "[\"kite\", {\"id\": \"b\", \"strength\": 0.5, \"strength_stage2\": 0.2, \"digest\": \"sha256:x\"}]",
       g([](const auto& x) {
         return x.loras(0).id() == "kite" && !x.loras(0).has_strength() && x.loras(1).strength_stage2() == 0.2 &&
                x.loras(1).digest() == "sha256:x";
       })},
      {"generate_sound", "false", o([](const auto& x) { return x.without_audio(); })},
      {"audio_only", "true", g([](const auto& x) { return x.audio_only(); })},
      {"container", "\"webm\"", o([](const auto& x) { return x.container() == v1::Output::WEBM; })},
      {"output_crf", "30", o([](const auto& x) { return x.crf() == 30; })},
      {"embed_parameters", "true", o([](const auto& x) { return x.embed_parameters(); })},
      {"embed_prompt", "true", o([](const auto& x) { return x.embed_prompt(); })},
      {"ttl_seconds", "1.5", o([](const auto& x) { return x.ttl().seconds() == 1 && x.ttl().nanos() == 500'000'000; })},
      {"preview_every_steps", "2", o([](const auto& x) { return x.preview_every_steps() == 2; })},
      {"thumbnail", "true", o([](const auto& x) { return x.thumbnail(); })},
      {"trace", "true", o([](const auto& x) { return x.trace(); })},
      {"priority", "-3", [](const R& r) { return r.scheduling().priority() == -3; }},
      {"deadline_seconds", "60", [](const R& r) { return r.scheduling().deadline().seconds() == 60; }},
      {"labels", "{\"a\": \"b\"}", [](const R& r) { return r.labels().at("a") == "b"; }},
      {"metadata", "{\"a\": \"b\"}", [](const R& r) { return r.labels().at("a") == "b"; }},
      {"user", "\"me\"", [](const R& r) { return r.labels().at("user") == "me"; }},
      {"request_id", "\"key\"", [](const R& r) { return r.request_id() == "key"; }}};
}

TEST(CreateFieldsTest, EveryFieldArrives) {
  std::set<std::string> sampled;
  for (const Sample& sample : Samples()) {
    sampled.insert(sample.name);
    const std::string prompt = sample.name == "prompt" ? "" : R"("prompt": "", )";
    const auto created = Create("{" + prompt + "\"" + sample.name + "\": " + sample.value + "}");
    ASSERT_THAT(created, IsOk()) << sample.name;
    EXPECT_TRUE(sample.arrives(created->request)) << sample.name << ": " << created->request.ShortDebugString();
  }
  const std::vector<std::string_view> names = CreateFieldNames();
  EXPECT_EQ(sampled, std::set<std::string>(names.begin(), names.end())) << "a field without a sample, or the reverse";
}

TEST(CreateFieldsTest, EveryFieldRejectsAWrongType) {
  for (const std::string_view view : CreateFieldNames()) {
    const std::string name(view);
    const std::string value = name == "prompt" || name == "user" ? "5" : "[[true]]";
    const std::string prompt = name == "prompt" ? "" : R"("prompt": "", )";
    const auto created = Create(absl::StrCat("{", prompt, "\"", name, "\": ", value, "}"));
    ASSERT_THAT(created, StatusIs(kInvalid, HasSubstr(name))) << name;
    ASSERT_EQ(WrongFields(created).size(), 1u) << created.status();
    EXPECT_THAT(WrongFields(created)[0], testing::StartsWith(name));
  }
}

TEST(CreateFieldsTest, EveryFieldMayBeNull) {
  std::string json = R"({"prompt": "a")";
  for (const std::string_view name : CreateFieldNames()) {
    if (name != "prompt") absl::StrAppend(&json, ", \"", std::string(name), "\": null");
  }
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, Create(json + "}"));
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields bare, Create(R"({"prompt": "a"})"));
  EXPECT_EQ(created.request.SerializeAsString(), bare.request.SerializeAsString());
}

TEST(CreateFieldsTest, AllWrongFieldsAreReportedAtOnce) {
  const auto created = Create(R"({"width": "wide", "seed": -1, "promt": "a", "conditions": [{"frame": 1}, 7]})");
  EXPECT_THAT(WrongFields(created),
              testing::UnorderedElementsAre("width", "seed", "promt", "prompt", "conditions[0]", "conditions[1]"));
  EXPECT_THAT(created, StatusIs(kInvalid, HasSubstr("promt: is not a field; did you mean prompt?")));
}

TEST(CreateFieldsTest, SecondsAreRoundedToTheNearestLength) {
  const std::pair<const char*, int> cases[] = {{"4", 97},    {"\"4\"", 97}, {"1", 25},    {"0.01", 1},
                                               {"4.04", 97}, {"3.87", 89},  {"3.88", 97}, {"20", 481}};
  for (const auto& [seconds, frames] : cases) {
    EXPECT_EQ(GenerationOf(absl::StrCat(R"({"prompt": "", "seconds": )", seconds, "}")).num_frames(), frames)
        << seconds;
  }
  EXPECT_EQ(GenerationOf(R"({"prompt": "", "seconds": 4, "fps": 25})").num_frames(), 97);
  EXPECT_EQ(GenerationOf(R"({"prompt": "", "seconds": 4, "fps": 50})").num_frames(), 201);
  EXPECT_EQ(GenerationOf(R"({"prompt": "", "seconds": 4, "num_frames": 96})").num_frames(), 96) << "not rounded";
  EXPECT_TRUE(GenerationOf(R"({"prompt": "", "seconds": "auto"})").has_auto_length());
  EXPECT_FALSE(GenerationOf(R"({"prompt": "", "seconds": "auto", "num_frames": 9})").has_auto_length());
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "seconds": 4, "max_seconds": 9})")), ElementsAre("max_seconds"));
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "seconds": "auto", "num_frames": 9, "max_seconds": 9})")),
              ElementsAre("max_seconds"));
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "min_seconds": 1})")), ElementsAre("min_seconds"));
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "seconds": "automatic"})")), ElementsAre("seconds"));
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "seconds": 0})")), ElementsAre("seconds"));
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "seconds": 1e9})")), ElementsAre("seconds"));
}

TEST(CreateFieldsTest, LengthsFollowTheRecipeAndItsUpsampler) {
  v1::ModelInfo model = DevModel();
  v1::ModelInfo::Limits& limits = *model.add_limits();
  limits.set_recipe(v1::Generation::TWO_STAGE);
  limits.set_upsampler("temporal_x2");
  limits.set_frame_multiple(16);
  model.add_recipes(v1::Generation::TWO_STAGE);
  model.add_recipe_defaults()->set_frame_rate(50);
  KINORA_ASSERT_OK_AND_ASSIGN(
      const RequestFields fields,
      RequestFields::FromJson(R"({"prompt": "", "seconds": 2, "recipe": "two_stage", "upsampler": "temporal_x2"})"));
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, ToCreateRequest(fields, model, {}));
  EXPECT_EQ(created.request.generation().num_frames(), 97) << "16k + 1 near 100";
}

TEST(CreateFieldsTest, SizeAndSidesMustAgree) {
  EXPECT_EQ(GenerationOf(R"({"prompt": "", "size": "768x512", "width": 768, "height": "512"})").width(), 768);
  EXPECT_EQ(GenerationOf(R"({"prompt": "", "size": "", "width": 768})").width(), 768);
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "size": "768x512", "width": 512, "height": 768})")),
              ElementsAre("width", "height"));
  for (const char* size : {"768", "768x", "x", "0x512", "-768x512", "768x512x3", "auto"}) {
    EXPECT_THAT(WrongFields(Create(absl::StrCat(R"({"prompt": "", "size": ")", size, "\"}"))), ElementsAre("size"));
  }
}

TEST(CreateFieldsTest, GuidanceReachesOnlyWhatIsGenerated) {
  const v1::Generation sound = GenerationOf(R"({"prompt": "", "guidance_scale": 4, "audio_only": true})");
  EXPECT_FALSE(sound.has_video_guidance());
  EXPECT_EQ(sound.audio_guidance().cfg_scale(), 4);
  const v1::Generation for_sound =
      GenerationOf(absl::StrCat(R"({"prompt": "", "guidance_scale": 4, "audio_reference": ")", Id('a'), "\"}"));
  EXPECT_FALSE(for_sound.has_audio_guidance());
  const v1::Generation both = GenerationOf(R"({"prompt": "", "guidance_scale": 4, "audio_cfg_scale": 7})");
  EXPECT_EQ(both.video_guidance().cfg_scale(), 4);
  EXPECT_EQ(both.audio_guidance().cfg_scale(), 7) << "the particular one takes precedence";
}

TEST(CreateFieldsTest, SoundAloneIsARouteOfItsOwn) {
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, Create(R"({"prompt": "rain"})", {.audio_only = true}));
  EXPECT_TRUE(created.request.generation().audio_only());
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "rain", "audio_only": false})", {.audio_only = true})),
              ElementsAre("audio_only"));
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "rain", "generate_sound": false})", {.audio_only = true})),
              ElementsAre("generate_sound"));
}

TEST(CreateFieldsTest, MoreThanOneClipIsAskedForByMoreRequests) {
  EXPECT_THAT(Create(R"({"prompt": "", "n": 2})"), StatusIs(kInvalid, HasSubstr("send 2 requests")));
}

TEST(CreateFieldsTest, FieldsOfOtherServersAreRejectedWithTheReason) {
  for (const ForeignField& field : ForeignFields()) {
    const std::string name(field.name);
    const auto created = Create("{\"prompt\": \"\", \"" + name + "\": 77}");
    ASSERT_THAT(created, StatusIs(kInvalid, HasSubstr(std::string(field.reason)))) << name;
    EXPECT_THAT(WrongFields(created), ElementsAre(name));
    EXPECT_THAT(Create("{\"prompt\": \"\", \"" + name + "\": null}"), IsOk()) << name;
    KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields relaxed,
                                Create("{\"prompt\": \"\", \"" + name + "\": 77}", {.ignore_unknown = true}));
    EXPECT_THAT(relaxed.ignored, ElementsAre(name));
  }
  EXPECT_THAT(Create(R"({"prompt": "", "enable_teacache": false, "enable_upscaling": "false", "quality": "standard"})"),
              IsOk());
  EXPECT_EQ(WrongFields(Create(R"({"prompt": "", "enable_teacache": true})")).size(), 1u);
}

TEST(CreateFieldsTest, UnknownFieldsAreIgnoredOnlyOnRequest) {
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "frobnicate": 1})")), ElementsAre("frobnicate"));
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields relaxed,
                              Create(R"({"prompt": "", "frobnicate": 1})", {.ignore_unknown = true}));
  EXPECT_THAT(relaxed.ignored, ElementsAre("frobnicate"));
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields hostile,
                              Create(R"({"prompt": "", "a\r\nSet-Cookie: b": 1})", {.ignore_unknown = true}));
  EXPECT_THAT(hostile.ignored, ElementsAre("a\\r\\nSet-Cookie: b")) << "it may be listed in a header";
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "seed": "x"})", {.ignore_unknown = true})), ElementsAre("seed"));
}

TEST(CreateFieldsTest, ErrorsStaySmallWhateverIsSent) {
  std::string body = R"({"prompt": "")";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&body, ", \"", std::string(10'000, 'n'), i, "\": 1");
  absl::StrAppend(&body, R"(, "recipe": ")", std::string(100'000, 'x'), R"(", "seed": ")", std::string(100'000, 'y'),
                  "\"}");
  const auto created = Create(body);
  EXPECT_EQ(WrongFields(created).size(), 20u);
  EXPECT_LT(created.status().message().size(), 4000u);
}

TEST(CreateFieldsTest, ExtraFieldsAreMerged) {
  KINORA_ASSERT_OK_AND_ASSIGN(
      const CreateFields created,
      Create(R"({"prompt": "", "width": "64", "extra_body": {"seed": 7, "extra_params": {"num_frames": 9}}})"));
  EXPECT_EQ(created.request.generation().seed(), 7u);
  EXPECT_EQ(created.request.generation().num_frames(), 9);
  EXPECT_EQ(
      GenerationOf(R"({"prompt": "", "width": "64", "extra_params": "{\"width\": 64, \"height\": 96}"})").height(), 96)
      << "the width is the same in both";
  EXPECT_THAT(Create(R"({"prompt": "", "seed": 1, "extra_body": {"seed": 2}})"), StatusIs(kInvalid, HasSubstr("seed")));
  EXPECT_THAT(Create(R"({"prompt": "", "extra_params": 3})"), StatusIs(kInvalid, HasSubstr("extra_params")));
  EXPECT_THAT(Create(R"({"prompt": "", "extra_params": "{"})"), StatusIs(kInvalid, HasSubstr("extra_params")));
}

TEST(CreateFieldsTest, LabelsComeFromThreeFields) {
  KINORA_ASSERT_OK_AND_ASSIGN(
      const CreateFields created,
      Create(R"({"prompt": "", "labels": {"a": "1"}, "metadata": {"b": "2", "a": "1"}, "user": "me"})"));
  EXPECT_EQ(created.request.labels_size(), 3);
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "labels": {"a": "1"}, "metadata": {"a": "2"}})")),
              ElementsAre("metadata.a"));
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "metadata": {"a": 1}})")), ElementsAre("metadata.a"));
}

TEST(CreateFieldsTest, ALoraIsNamedByItsIdAlone) {
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "lora": {"name": "a", "path": "/x", "int_id": 1}})")),
              ElementsAre("lora.path", "lora.int_id"));
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "lora": [{"scale": 1}, 5]})")), ElementsAre("lora[0]", "lora[1]"));
  EXPECT_THAT(WrongFields(Create(R"({"prompt": "", "lora": {"id": "a", "scale": 1, "strength": 2}})")),
              ElementsAre("lora.scale"));
}

}  // namespace
}  // namespace kinora
