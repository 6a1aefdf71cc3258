#include "server/gateway/media_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "server/common/status_details.h"
#include "tests/server/gateway/mapping_fixtures.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
const std::string kId(64, 'a');

v1::Input Uploaded(const std::string& media_type) {
  v1::Input input;
  input.set_id(kId);
  input.set_media_type(media_type);
  return input;
}

absl::StatusOr<CreateFields> CreateWithFile(const std::string& name, const std::string& fields) {
  RequestFields request;
  KINORA_RETURN_IF_ERROR(request.AddText("prompt", ""));
  KINORA_RETURN_IF_ERROR(request.AddText("extra_params", fields));
  KINORA_RETURN_IF_ERROR(request.AddFile(name));
  KINORA_RETURN_IF_ERROR(request.Merge());
  return ToCreateRequest(request, DevModel(), {});
}

TEST(MediaFieldsTest, TheFirstAndTheLastPictureArePartsOfTheBody) {
  RequestFields fields;
  ASSERT_THAT(fields.AddText("prompt", "a fox"), IsOk());
  ASSERT_THAT(fields.AddFile("first"), IsOk());
  ASSERT_THAT(fields.AddText("conditions", R"([{"image": "part:first"}, {"image": "part:last", "frame": 96}])"),
              IsOk());
  ASSERT_THAT(fields.AddFile("last"), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(CreateFields created, ToCreateRequest(fields, DevModel(), {}));
  ASSERT_EQ(created.inputs.size(), 2u);
  EXPECT_EQ(created.inputs[1].value, "last");
  EXPECT_EQ(created.inputs[1].field, "conditions[1].image");
  ASSERT_THAT(SetInput(created.inputs[1], Uploaded("image/png"), created.request), IsOk());
  EXPECT_EQ(created.request.generation().conditions(0).image().input_id(), "");
  EXPECT_EQ(created.request.generation().conditions(1).image().input_id(), kId);
  EXPECT_EQ(created.request.generation().conditions(1).frame(), 96);
  EXPECT_THAT(SetInput(created.inputs[0], Uploaded("video/mp4"), created.request),
              StatusIs(kInvalid, HasSubstr("conditions[0].image: is video/mp4; must be an image")));
}

TEST(MediaFieldsTest, AReferenceIsAPictureOrAClip) {
  KINORA_ASSERT_OK_AND_ASSIGN(CreateFields created, CreateWithFile("input_reference", R"({"image_crf": 20})"));
  ASSERT_EQ(created.inputs.size(), 1u);
  v1::CreateVideoRequest with_clip = created.request;
  ASSERT_THAT(SetInput(created.inputs[0], Uploaded("image/jpeg"), created.request), IsOk());
  EXPECT_EQ(created.request.generation().conditions(0).image().input_id(), kId);
  EXPECT_EQ(created.request.generation().conditions(0).crf(), 20);
  ASSERT_THAT(SetInput(created.inputs[0], Uploaded("video/webm"), with_clip), IsOk());
  EXPECT_EQ(with_clip.generation().conditions(0).clip().input_id(), kId);
  EXPECT_FALSE(with_clip.generation().conditions(0).has_crf()) << "a clip has no H.264 pass";
  EXPECT_THAT(SetInput(created.inputs[0], Uploaded("audio/wav"), created.request),
              StatusIs(kInvalid, HasSubstr("must be an image or a clip")));
}

TEST(MediaFieldsTest, ASoundAndARetakeHaveTheirOwnPlaces) {
  KINORA_ASSERT_OK_AND_ASSIGN(CreateFields sound, CreateWithFile("audio_reference", "{}"));
  ASSERT_THAT(SetInput(sound.inputs[0], Uploaded("audio/flac"), sound.request), IsOk());
  EXPECT_EQ(sound.request.generation().audio().media().input_id(), kId);
  KINORA_ASSERT_OK_AND_ASSIGN(
      CreateFields retake,
      CreateWithFile("old", R"({"retake": {"clip": "part:old", "start_seconds": 1, "end_seconds": 2}})"));
  ASSERT_THAT(SetInput(retake.inputs[0], Uploaded("video/mp4"), retake.request), IsOk());
  EXPECT_EQ(retake.request.generation().retake().clip().input_id(), kId);
}

TEST(MediaFieldsTest, AnIdOfUnknownTypeIsLookedUp) {
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created,
                              Create("{\"prompt\": \"\", \"input_reference\": \"" + kId + "\"}"));
  ASSERT_EQ(created.inputs.size(), 1u);
  EXPECT_EQ(created.inputs[0].source, PendingInput::Source::kStored);
  EXPECT_EQ(created.inputs[0].value, kId);
}

TEST(MediaFieldsTest, WrongFilesAreRejectedByTheirField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("input_reference": "/etc/passwd")", "input_reference: must be a file part"},
      {R"("input_reference": "file:///etc/passwd")", "paths are never read"},
      {R"("input_reference": "part:nothing")", "input_reference: the body has no file part with the name nothing"},
      {R"("reference_url": "https://example.com/a.png")",
       "reference_url: this server does not fetch URLs of example.com"},
      {R"("image_reference": {"image_url": "http://169.254.169.254/"})",
       "image_reference.image_url: must be an https:// URL"},
      {R"("image_reference": {"image_url": "data:image/png;base64,"})", "its data: URL has no data"},
      {R"("image_reference": {"image_url": "data:image/png;base64,*"})", "the data of its data: URL is not base64"},
      {R"("image_reference": {"image_url": "data:image/png"})", "image_reference.image_url: must be a data: URL"},
      {R"("image_reference": {"image_url": "data:text/html,a"})", "is text/html; must be an image"},
      {R"("video_url": "data:image/png,a")", "video_url: is image/png; must be a clip"},
      {R"("audio_reference": "data:image/png,a")", "audio_reference: is image/png; must be"},
      {R"("input_reference": "data:audio/wav,a")", "input_reference: is audio/wav; must be an image or a clip"},
      {R"("image_reference": {})", "image_reference: must have exactly one of image_url and file_id"},
      {R"("image_reference": {"url": "x"})", "image_reference.url: is not a field"},
      {R"("image_reference": "data:image/png;base64,AAAA", "video_url": "data:video/mp4;base64,AAAA")",
       "video_url: only one reference can be given"},
      {R"("conditions": [{"image": "a", "clip": "b"}])", "conditions[0]: must have either image or clip"},
      {R"("conditions": [{"image": "data:image/png;base64,AAAA", "frame": -1}])",
       "conditions[0].frame: -1: must be within"},
      {R"("retake": {"clip": "data:video/mp4;base64,AAAA", "start_seconds": 1})", "retake.end_seconds: is missing"}};
  for (const auto& [fields, message] : cases) {
    EXPECT_THAT(Create(absl::StrCat("{\"prompt\": \"\", ", fields, "}")), StatusIs(kInvalid, HasSubstr(message)));
  }
}

TEST(MediaFieldsTest, AFileThatNoFieldUsesIsRejected) {
  EXPECT_THAT(CreateWithFile("picture", "{}"), StatusIs(kInvalid, HasSubstr("picture: no field uses this file")));
}

TEST(MediaFieldsTest, EveryFieldTakesDataUrlsInBothForms) {
  for (const char* field : {R"("input_reference": "URL")", R"("input_reference": {"image_url": "URL"})",
                            R"("image_reference": {"image_url": "URL"})", R"("image_reference": "URL")",
                            R"("reference_url": "URL")", R"("conditions": [{"image": "URL"}])"}) {
    for (const char* url : {"data:image/png;base64,YWJj", "data:image/png,a%62c", "data:;base64,YWJj", "data:,abc"}) {
      const std::string json = absl::StrCat("{\"prompt\": \"\", ", absl::StrReplaceAll(field, {{"URL", url}}), "}");
      KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, Create(json));
      ASSERT_EQ(created.inputs.size(), 1u) << json;
      EXPECT_EQ(created.inputs[0].source, PendingInput::Source::kData);
      EXPECT_EQ(created.inputs[0].value, "abc") << json;
    }
  }
  for (const char* field : {R"("video_reference": {"video_url": "data:video/mp4;base64,YWJj"})",
                            R"("video_url": "data:video/webm,abc")", R"("input_reference": "data:video/mp4,abc")",
                            R"("audio_reference": {"audio_url": "data:audio/wav;base64,YWJj"})",
                            R"("audio_reference": "data:video/mp4,abc")"}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, Create(absl::StrCat("{\"prompt\": \"\", ", field, "}")));
    EXPECT_EQ(created.inputs.at(0).value, "abc") << field;
  }
}

TEST(MediaFieldsTest, OnlyUrlsOfAllowedHostsAreFetched) {
  KINORA_ASSERT_OK_AND_ASSIGN(const AllowedHost host, ParseAllowedHost("media.example"));
  for (const char* field :
       {R"("input_reference": "URL")", R"("image_reference": {"image_url": "URL"})", R"("reference_url": "URL")",
        R"("video_reference": {"video_url": "URL"})", R"("video_url": "URL")",
        R"("audio_reference": {"audio_url": "URL"})", R"("conditions": [{"clip": "URL"}])",
        R"("retake": {"clip": "URL", "start_seconds": 0, "end_seconds": 1})"}) {
    const auto with = [&](const char* url, std::vector<AllowedHost> hosts) {
      return Create(absl::StrCat("{\"prompt\": \"\", ", absl::StrReplaceAll(field, {{"URL", url}}), "}"),
                    {.url_hosts = std::move(hosts)});
    };
    KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, with("https://media.example/a?b=c", {host}));
    ASSERT_EQ(created.inputs.size(), 1u) << field;
    EXPECT_EQ(created.inputs[0].source, PendingInput::Source::kUrl);
    EXPECT_EQ(created.inputs[0].value, "https://media.example/a?b=c");
    EXPECT_THAT(with("https://other.example/a", {host}), StatusIs(kInvalid, HasSubstr("--input-url-host"))) << field;
    EXPECT_THAT(with("https://media.example/a", {}), StatusIs(kInvalid, HasSubstr("--input-url-host"))) << field;
    EXPECT_THAT(with("http://media.example/a", {host}), StatusIs(kInvalid, HasSubstr("must be an https:// URL")));
  }
}

}  // namespace
}  // namespace kinora
