// The bytes of a CreateVideoRequest as they come over the wire, through what the frontend does with them before it
// stores a job: parse, check, validate against a model, fingerprint. First byte: which model. What is admitted must
// convert on the worker, and admitting it again must change nothing.
#include <google/protobuf/text_format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"
#include "engine/base/check.h"
#include "server/common/request_conversion.h"
#include "server/frontend/api/message_check.h"
#include "server/frontend/api/request_validation.h"
#include "server/frontend/jobs/job_record.h"

namespace kinora {
namespace {

constexpr char kDev[] = R"pb(
  id: "dev"
  kind: "dev"
  recipes: ONE_STAGE
  recipes: DISTILLED
  defaults {
    recipe: ONE_STAGE
    width: 768
    height: 512
    num_frames: 121
    frame_rate: 24
    num_inference_steps: 30
    negative_prompt: "bad"
    video_guidance { cfg_scale: 3 stg_scale: 1 stg_blocks: 28 modality_scale: 3 rescale: 0.7 }
  }
  limits {
    recipe: ONE_STAGE
    size_multiple: 32
    frame_multiple: 8
    max_width: 4096
    max_height: 4096
    max_frames: 497
    max_tokens: 20000
  }
)pb";
constexpr char kUnknown[] = R"pb(
  id: "unknown"
  recipes: DISTILLED
  limits { recipe: DISTILLED size_multiple: 32 frame_multiple: 8 max_width: 1536 max_height: 1024 max_frames: 257 }
)pb";
constexpr char kNothing[] = R"pb(id: "nothing")pb";

v1::ModelInfo Parse(const char* text) {
  v1::ModelInfo model;
  KINORA_CHECK(google::protobuf::TextFormat::ParseFromString(text, &model));
  return model;
}

uint64_t Seven() { return 7; }

void CheckAdmitted(const v1::CreateVideoRequest& request, const v1::Generation& effective, const v1::ModelInfo& model) {
  KINORA_CHECK(effective.has_seed() && effective.width() >= 0 && std::isfinite(effective.frame_rate()));
  const absl::Status general = CheckGeneration(effective);
  KINORA_CHECK(general.ok()) << general.ToString() << " " << effective.ShortDebugString();
  const auto converted = ToGenerationRequest(effective);
  KINORA_CHECK(converted.ok()) << converted.status().ToString() << " " << effective.ShortDebugString();
  v1::CreateVideoRequest again = request;
  *again.mutable_generation() = effective;
  const auto same = ValidateRequest(again, model, {}, &Seven);
  KINORA_CHECK(same.ok()) << same.status().ToString() << " " << effective.ShortDebugString();
  KINORA_CHECK(same->SerializeAsString() == effective.SerializeAsString()) << same->ShortDebugString();
  again.set_request_id("another");
  KINORA_CHECK(Fingerprint(again) == Fingerprint([&] {
                 v1::CreateVideoRequest other = request;
                 *other.mutable_generation() = effective;
                 return other;
               }()));
}

}  // namespace
}  // namespace kinora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  static const v1::ModelInfo models[] = {Parse(kDev), Parse(kUnknown), Parse(kNothing)};
  if (size < 1) return 0;
  v1::CreateVideoRequest request;
  if (!ParseMessage(std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1), request).ok()) return 0;
  KINORA_CHECK(CheckMessage(request).size() <= 20);
  (void)ChooseModel({models[0], models[1]}, request.model());
  const v1::ModelInfo& model = models[data[0] % 3];
  const auto effective = ValidateRequest(request, model, {}, &Seven);
  if (effective.ok()) CheckAdmitted(request, *effective, model);
  KINORA_CHECK(effective.ok() || effective.status().code() != absl::StatusCode::kInternal);
  return 0;
}
