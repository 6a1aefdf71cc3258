// The bytes that clients which nobody here wrote send: openai 3.54.0, LiteLLM 1.110.2 (hosted_vllm) and AIPerf,
// recorded from their runs or, for the JSON of AIPerf, from its code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/gateway/mapping_fixtures.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;

constexpr char kBoundary[] = "4b5f1fab4afe26def5e7a1b4eb99036b";

std::string TextPart(const std::string& name, const std::string& value) {
  return absl::StrCat("--", kBoundary, "\r\nContent-Disposition: form-data; name=\"", name, "\"\r\n\r\n", value,
                      "\r\n");
}

std::string Closed(const std::string& parts) { return absl::StrCat(parts, "--", kBoundary, "--\r\n"); }

absl::StatusOr<CreateFields> CreateFrom(const std::string& body, ReadBody* out = nullptr) {
  KINORA_ASSIGN_OR_RETURN(const std::string boundary,
                          MultipartBoundary(absl::StrCat("multipart/form-data; boundary=", kBoundary)));
  KINORA_ASSIGN_OR_RETURN(ReadBody read, ReadMultipart(body, boundary, 4096));
  absl::StatusOr<CreateFields> created = ToCreateRequest(read.fields, DevModel(), {});
  if (out != nullptr) *out = std::move(read);
  return created;
}

// client.videos.create(prompt="a fox", model="ltx", seconds="4", size="768x512")
TEST(ClientRequestsTest, OpenAiSendsMultipartAlsoWithoutAFile) {
  const std::string body = Closed(TextPart("prompt", "a fox") + TextPart("model", "ltx") + TextPart("seconds", "4") +
                                  TextPart("size", "768x512"));
  ASSERT_EQ(body.size(), 400u) << "its Content-Length";
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, CreateFrom(body));
  const v1::Generation& generation = created.request.generation();
  EXPECT_EQ(created.request.model(), "ltx");
  EXPECT_EQ(generation.prompt(), "a fox");
  EXPECT_EQ(generation.width(), 768);
  EXPECT_EQ(generation.height(), 512);
  EXPECT_EQ(generation.num_frames(), 97) << "4 s at 24 frames per second";
  EXPECT_TRUE(created.inputs.empty());
}

// … input_reference=("first.png", …, "image/png"), extra_body={"seed": 7, "generate_sound": False, "sigmas": [1, 0.5,
// 0], "lora": {"name": "kite", "scale": 0.5}, "extra_params": {"video_cfg_scale": 3.0, "video_stg_blocks": [28, 29]}}
TEST(ClientRequestsTest, OpenAiFlattensItsExtraBodyIntoBrackets) {
  const std::string png = "\x89PNG\r\n\x1a\n..";
  const std::string body = Closed(
      TextPart("prompt", "a fox") + TextPart("model", "ltx") + TextPart("seconds", "4") + TextPart("size", "768x512") +
      TextPart("seed", "7") + TextPart("generate_sound", "false") + TextPart("sigmas[]", "1") +
      TextPart("sigmas[]", "0.5") + TextPart("sigmas[]", "0") + TextPart("lora[name]", "kite") +
      TextPart("lora[scale]", "0.5") + TextPart("extra_params[video_cfg_scale]", "3.0") +
      TextPart("extra_params[video_stg_blocks][]", "28") + TextPart("extra_params[video_stg_blocks][]", "29") +
      absl::StrCat("--", kBoundary,
                   "\r\nContent-Disposition: form-data; name=\"input_reference\"; filename=\"first.png\"\r\n"
                   "Content-Type: image/png\r\n\r\n",
                   png, "\r\n"));
  ReadBody read;
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, CreateFrom(body, &read));
  const v1::Generation& generation = created.request.generation();
  EXPECT_EQ(generation.seed(), 7u);
  EXPECT_TRUE(created.request.output().without_audio());
  EXPECT_THAT(generation.sigmas(), ElementsAre(1, 0.5, 0));
  ASSERT_EQ(generation.loras_size(), 1);
  EXPECT_EQ(generation.loras(0).id(), "kite");
  EXPECT_EQ(generation.loras(0).strength(), 0.5);
  EXPECT_EQ(generation.video_guidance().cfg_scale(), 3);
  EXPECT_THAT(generation.video_guidance().stg_blocks(), ElementsAre(28, 29));
  EXPECT_TRUE(generation.video_guidance().keep_defaults());
  EXPECT_FALSE(generation.has_audio_guidance());
  ASSERT_EQ(created.inputs.size(), 1u);
  EXPECT_EQ(created.inputs[0].source, PendingInput::Source::kPart);
  EXPECT_EQ(created.inputs[0].value, "input_reference");
  EXPECT_EQ(read.files["input_reference"], png);
  EXPECT_EQ(read.headers.back().content_type, "image/png");
}

// input_reference=b"…": httpx calls the file "upload"
TEST(ClientRequestsTest, OpenAiSendsBytesWithoutAName) {
  const std::string body =
      Closed(TextPart("prompt", "a fox") + TextPart("model", "ltx") +
             absl::StrCat("--", kBoundary,
                          "\r\nContent-Disposition: form-data; name=\"input_reference\"; filename=\"upload\"\r\n"
                          "Content-Type: application/octet-stream\r\n\r\n\x89PNG\r\n\x1a\n\r\n"));
  ReadBody read;
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, CreateFrom(body, &read));
  EXPECT_EQ(created.inputs.size(), 1u);
  EXPECT_EQ(read.files["input_reference"], "\x89PNG\r\n\x1a\n");
}

// litellm.video_generation(model="hosted_vllm/ltx", …): nested values are JSON text
TEST(ClientRequestsTest, LiteLlmSendsNestedValuesAsJsonText) {
  const std::string body = Closed(
      TextPart("model", "ltx") + TextPart("prompt", "a fox") + TextPart("seconds", "4") + TextPart("size", "768x512") +
      TextPart("user", "me") + TextPart("fps", "24") + TextPart("generate_sound", "true") +
      TextPart("image_reference", R"({"image_url": "data:image/png;base64,iVBORw0KGgo="})") +
      TextPart("lora", R"({"name": "kite", "scale": 0.5})") +
      TextPart("extra_params", R"({"video_cfg_scale": 3.0, "video_stg_blocks": [28, 29]})") +
      TextPart("enable_frame_interpolation", "false"));
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, CreateFrom(body));
  EXPECT_EQ(created.request.labels().at("user"), "me");
  EXPECT_FALSE(created.request.output().without_audio());
  EXPECT_THAT(created.request.generation().video_guidance().stg_blocks(), ElementsAre(28, 29));
  EXPECT_EQ(created.request.generation().loras(0).id(), "kite");
  ASSERT_EQ(created.inputs.size(), 1u);
  EXPECT_EQ(created.inputs[0].source, PendingInput::Source::kData);
  EXPECT_EQ(created.inputs[0].value, "\x89PNG\r\n\x1a\n");
}

// aiperf profile --endpoint-type video_generation --extra-inputs …
TEST(ClientRequestsTest, AiPerfSendsJson) {
  KINORA_ASSERT_OK_AND_ASSIGN(
      const CreateFields created,
      Create(R"({"prompt": "a fox", "model": "ltx", "size": "1280x704", "seconds": 4, "seed": 42,
                                         "num_inference_steps": 20, "guidance_scale": 4.5, "negative_prompt": "blurry",
                                         "fps": 25, "num_frames": 49})"));
  const v1::Generation& generation = created.request.generation();
  EXPECT_EQ(generation.num_frames(), 49) << "num_frames takes precedence over seconds";
  EXPECT_EQ(generation.frame_rate(), 25);
  EXPECT_EQ(generation.seed(), 42u);
  EXPECT_EQ(generation.num_inference_steps(), 20);
  EXPECT_EQ(generation.video_guidance().cfg_scale(), 4.5);
  EXPECT_EQ(generation.audio_guidance().cfg_scale(), 4.5);
  EXPECT_EQ(generation.negative_prompt(), "blurry");
}

// curl -F prompt=… -F input_reference=@first.png
TEST(ClientRequestsTest, CurlSendsDashesBeforeItsBoundary) {
  const std::string content_type = "multipart/form-data; boundary=------------------------d74496d66958873e";
  KINORA_ASSERT_OK_AND_ASSIGN(const std::string boundary, MultipartBoundary(content_type));
  const std::string body = Lines(
      "--------------------------d74496d66958873e\nContent-Disposition: form-data; name=\"prompt\"\n\na fox\n"
      "--------------------------d74496d66958873e\nContent-Disposition: form-data; name=\"input_reference\"; "
      "filename=\"first.png\"\nContent-Type: image/png\n\nPNG\n--------------------------d74496d66958873e--\n");
  KINORA_ASSERT_OK_AND_ASSIGN(const ReadBody read, ReadMultipart(body, boundary, 7));
  EXPECT_EQ(read.files.at("input_reference"), "PNG");
}

}  // namespace
}  // namespace kinora
