// A request, resolved for a model, written as fields and read again: the same request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/request/request_rules.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/request/request_conversion.h"
#include "tests/server/gateway/mapping_fixtures.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

absl::StatusOr<v1::Generation> Resolved(v1::Generation generation, const ModelDescription& model) {
  if (!generation.has_seed()) generation.set_seed(7);
  KINORA_RETURN_IF_ERROR(KeepGuidanceDefaults(model, generation));
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest request, ToGenerationRequest(generation));
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest effective, ResolveRequest(model, request));
  return ToGeneration(effective);
}

TEST(WrittenFieldsTest, AnEffectiveRequestSentAgainIsTheSame) {
  const std::string id(64, 'a');
  const std::string requests[] = {
      R"({"prompt": "a fox"})",
      R"({"prompt": "", "seconds": 2, "size": "64x96", "fps": 25, "seed": 18446744073709551615,
          "recipe": "distilled"})",
      R"({"prompt": "a", "guidance_scale": 4, "video_stg_blocks": [3, 5], "audio_rescale_scale": 0.25,
          "video_skip_step": 1, "num_inference_steps": 9, "negative_prompt": "", "schedule_tokens": -1})",
      R"({"prompt": "rain", "audio_only": true, "seconds": 3})",
      R"({"prompt": "rain", "seconds": "auto", "max_seconds": 12})",
      R"({"prompt": "a", "sigmas": [1, 0.5, 0], "num_inference_steps": 2})",
      R"({"prompt": "a", "conditions": [{"image": ")" + id +
          R"(", "strength": 0.5, "append": true, "crf": 0}, {"clip": ")" + id + R"(", "frame": 40}]})",
      R"({"prompt": "a", "num_frames": 49, "audio_reference": {"file_id": ")" + id + R"(", "start_seconds": 1.5}})",
      R"({"prompt": "a", "num_frames": 49, "retake": {"clip": ")" + id +
          R"(", "start_seconds": 0.5, "end_seconds": 1, "keep_audio": true}})"};
  ModelDescription model = DescribeModel({});
  model.parts.duration_head = true;
  for (const std::string& request : requests) {
    KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields created, Create(request));
    KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation effective, Resolved(created.request.generation(), model));
    const std::string written = ToFields(effective, created.request.output()).dump();
    KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields again, Create(written));
    KINORA_ASSERT_OK_AND_ASSIGN(const v1::Generation same, Resolved(again.request.generation(), model));
    std::string difference;
    google::protobuf::util::MessageDifferencer differencer;
    differencer.ReportDifferencesToString(&difference);
    EXPECT_TRUE(differencer.Compare(effective, same)) << request << "\n" << written << "\n" << difference;
  }
}

TEST(WrittenFieldsTest, LorasAndOutputsAreWrittenWhole) {
  KINORA_ASSERT_OK_AND_ASSIGN(
      const CreateFields created,
      Create(R"({"prompt": "a", "lora": [{"id": "kite", "strength": 0.5, "strength_stage2": 0, "digest": "sha256:x"}],
                "container": "webm", "generate_sound": false, "output_crf": 0, "embed_parameters": true,
                "embed_prompt": true, "ttl_seconds": 1.5, "preview_every_steps": 2, "thumbnail": true, "trace": true,
                "upsampler": "x2"})"));
  const std::string written = ToFields(created.request.generation(), created.request.output()).dump();
  KINORA_ASSERT_OK_AND_ASSIGN(const CreateFields again, Create(written));
  EXPECT_EQ(created.request.DebugString(), again.request.DebugString()) << written;
}

}  // namespace
}  // namespace kinora
