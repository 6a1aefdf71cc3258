// Every field of CreateVideoRequest can be set over HTTP, or stands here with the reason why it cannot.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/server/gateway/mapping_fixtures.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const std::map<std::string, std::string>& Unreachable() {
  static const std::map<std::string, std::string> reasons = {
      {"detach", "is of GenerateVideo alone; a job that HTTP creates never depends on a connection"}};
  return reasons;
}

// Values of the protobuf library and maps count as one field each.
bool IsLeaf(const FieldDescriptor& field) {
  return field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_map() ||
         absl::StartsWith(field.message_type()->full_name(), "google.protobuf.");
}

void ListLeaves(const Descriptor& message, const std::string& prefix, std::set<std::string>& out) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string path = prefix + field.name();
    IsLeaf(field) ? void(out.insert(path)) : ListLeaves(*field.message_type(), path + ".", out);
  }
}

void ListSetLeaves(const Message& message, const std::string& prefix, std::set<std::string>& out) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = prefix + field->name();
    if (IsLeaf(*field)) {
      out.insert(path);
    } else if (!field->is_repeated()) {
      ListSetLeaves(reflection.GetMessage(message, field), path + ".", out);
    } else {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        ListSetLeaves(reflection.GetRepeatedMessage(message, field, i), path + ".", out);
      }
    }
  }
}

// Each field of HTTP with a value that differs from the default of its field in the message.
const std::string kRequests[] = {
    R"({"prompt": "a", "negative_prompt": "b", "model": "ltx", "size": "64x96", "fps": 25, "seconds": 1, "seed": 7,
        "num_inference_steps": 9, "recipe": "two_stage", "upsampler": "x2", "sigmas": [1, 0],
        "schedule_tokens": -1, "request_id": "key", "user": "me", "priority": 1, "deadline_seconds": 60})",
    R"({"prompt": "a", "video_cfg_scale": 3, "video_stg_scale": 2, "video_stg_blocks": [3], "video_modality_scale": 2,
        "video_rescale_scale": 0.5, "video_skip_step": 1, "audio_cfg_scale": 3, "audio_stg_scale": 2,
        "audio_stg_blocks": [3], "audio_modality_scale": 2, "audio_rescale_scale": 0.5, "audio_skip_step": 1})",
    R"({"prompt": "a", "conditions": [{"image": "ID", "frame": 8, "strength": 0.5, "append": true, "crf": 20},
                                      {"clip": "ID", "frame": 16}],
        "audio_reference": {"file_id": "ID", "start_seconds": 2},
        "retake": {"clip": "ID", "start_seconds": 1, "end_seconds": 2, "keep_video": true, "keep_audio": true},
        "lora": {"id": "kite", "strength": 0.5, "strength_stage2": 0.2, "digest": "sha256:x"}})",
    R"({"prompt": "a", "container": "webm", "generate_sound": false, "output_crf": 30, "embed_parameters": true,
        "embed_prompt": true, "ttl_seconds": 60, "preview_every_steps": 2, "thumbnail": true, "trace": true})",
    R"({"prompt": "a", "audio_only": true, "seconds": "auto", "min_seconds": 2, "max_seconds": 9})"};

TEST(ReachableFieldsTest, EveryFieldOfTheMessageHasAFieldOfHttpOrAReason) {
  std::set<std::string> all, reached;
  ListLeaves(*v1::CreateVideoRequest::descriptor(), "", all);
  EXPECT_GT(all.size(), 50u);
  for (const std::string& request : kRequests) {
    const auto created = Create(absl::StrReplaceAll(request, {{"ID", std::string(64, 'a')}}));
    ASSERT_THAT(created, IsOk()) << request;
    ListSetLeaves(created->request, "", reached);
  }
  for (const std::string& path : all) {
    EXPECT_NE(reached.count(path), Unreachable().count(path)) << path << ": map it, or say why not; not both";
  }
  for (const auto& [path, reason] : Unreachable()) EXPECT_EQ(all.count(path), 1u) << path << ": " << reason;
}

// An error about a field names one that the client can send.
TEST(ReachableFieldsTest, EveryPathHasTheNameOfAFieldOfHttp) {
  const std::vector<std::string_view> names = CreateFieldNames();
  std::set<std::string> all;
  ListLeaves(*v1::CreateVideoRequest::descriptor(), "", all);
  for (const std::string& path : all) {
    // The mapping sets it; clients do not.
    if (Unreachable().count(path) > 0 || absl::EndsWith(path, "_guidance.keep_defaults")) continue;
    const std::string field = FieldOfPath(path);
    EXPECT_TRUE(std::count(names.begin(), names.end(), field.substr(0, field.find('.')))) << path << ": " << field;
  }
}

}  // namespace
}  // namespace kinora
