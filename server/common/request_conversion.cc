#include "server/common/request_conversion.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

absl::Status Bad(const std::string& field, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
}

absl::Status NotYet(const std::string& field) { return absl::UnimplementedError(field + ": not available yet"); }

constexpr double kAny = std::numeric_limits<double>::max();

absl::Status CheckNumber(const std::string& field, double value, double minimum, double maximum) {
  if (!std::isfinite(value)) return Bad(field, "must be a finite number");
  if (value >= minimum && value <= maximum) return absl::OkStatus();
  if (maximum == kAny) return Bad(field, absl::StrCat(value, " is below ", minimum));
  return Bad(field, absl::StrCat(value, " is not within ", minimum, "..", maximum));
}

absl::Status CheckGuidance(const std::string& field, const v1::Guidance& guidance) {
  KINORA_RETURN_IF_ERROR(
      CheckNumber(field + ".cfg_scale", guidance.cfg_scale(), -kMaxGuidanceScale, kMaxGuidanceScale));
  KINORA_RETURN_IF_ERROR(
      CheckNumber(field + ".stg_scale", guidance.stg_scale(), -kMaxGuidanceScale, kMaxGuidanceScale));
  KINORA_RETURN_IF_ERROR(
      CheckNumber(field + ".modality_scale", guidance.modality_scale(), -kMaxGuidanceScale, kMaxGuidanceScale));
  KINORA_RETURN_IF_ERROR(CheckNumber(field + ".rescale", guidance.rescale(), 0, 1));
  KINORA_RETURN_IF_ERROR(CheckNumber(field + ".skip_step", guidance.skip_step(), 0, kAny));
  for (int i = 0; i < guidance.stg_blocks_size(); ++i) {
    KINORA_RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".stg_blocks[", i, "]"), guidance.stg_blocks(i), 0, kAny));
  }
  return absl::OkStatus();
}

absl::Status CheckSigmas(const v1::Generation& generation) {
  const int count = generation.sigmas_size();
  if (count == 0) return absl::OkStatus();
  if (count < 2 || count > kMaxSigmas) {
    return Bad("sigmas", absl::StrCat(count, " values; 2..", kMaxSigmas, " are possible, the last one 0"));
  }
  for (int i = 0; i < count; ++i) {
    const std::string field = absl::StrCat("sigmas[", i, "]");
    KINORA_RETURN_IF_ERROR(CheckNumber(field, generation.sigmas(i), 0, 1));
    if (i > 0 && generation.sigmas(i) >= generation.sigmas(i - 1)) return Bad(field, "sigmas must descend");
  }
  if (generation.sigmas(count - 1) != 0) return Bad("sigmas", "the last one must be 0");
  if (generation.num_inference_steps() != 0 && generation.num_inference_steps() != count - 1) {
    return Bad("num_inference_steps", absl::StrCat(generation.num_inference_steps(), " with ", count,
                                                   " sigmas; leave it 0 or say ", count - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(const v1::Generation& generation) {
  const struct {
    const char* field;
    int32_t value, minimum;
  } sizes[] = {{"width", generation.width(), 0},
               {"height", generation.height(), 0},
               {"num_frames", generation.num_frames(), 0},
               {"num_inference_steps", generation.num_inference_steps(), 0},
               {"schedule_tokens", generation.schedule_tokens(), -1}};
  for (const auto& size : sizes) KINORA_RETURN_IF_ERROR(CheckNumber(size.field, size.value, size.minimum, kAny));
  return CheckNumber("frame_rate", generation.frame_rate(), 0, 1000);
}

absl::Status CheckInputs(const v1::Generation& generation) {
  if (generation.conditions_size() > kMaxConditions) {
    return Bad("conditions", absl::StrCat(generation.conditions_size(), " of them; ", kMaxConditions, " are possible"));
  }
  for (int i = 0; i < generation.conditions_size(); ++i) {
    const v1::Condition& condition = generation.conditions(i);
    const std::string field = absl::StrCat("conditions[", i, "]");
    if (condition.media_case() == v1::Condition::MEDIA_NOT_SET) return Bad(field, "needs an image or a clip");
    KINORA_RETURN_IF_ERROR(CheckNumber(field + ".frame", condition.frame(), 0, kAny));
    KINORA_RETURN_IF_ERROR(CheckNumber(field + ".strength", condition.strength(), 0, 1));
    KINORA_RETURN_IF_ERROR(CheckNumber(field + ".crf", condition.crf(), 0, 51));
    if (condition.append() && condition.frame() != 0) return Bad(field + ".append", "is for frame 0 only");
  }
  for (int i = 0; i < generation.loras_size(); ++i) {
    const std::string field = absl::StrCat("loras[", i, "]");
    if (generation.loras(i).id().empty()) return Bad(field + ".id", "is empty");
    KINORA_RETURN_IF_ERROR(CheckNumber(field + ".strength", generation.loras(i).strength(), -kAny, kAny));
    KINORA_RETURN_IF_ERROR(CheckNumber(field + ".strength_stage2", generation.loras(i).strength_stage2(), -kAny, kAny));
  }
  KINORA_RETURN_IF_ERROR(CheckNumber("audio.start_seconds", generation.audio().start_seconds(), 0, kAny));
  KINORA_RETURN_IF_ERROR(CheckNumber("retake.start_seconds", generation.retake().start_seconds(), 0, kAny));
  return CheckNumber("retake.end_seconds", generation.retake().end_seconds(), generation.retake().start_seconds(),
                     kAny);
}

// Bytes of the well-formed UTF-8 sequence that begins at text[i] (Unicode table 3-7); 0 if there is none.
int SequenceBytes(const std::string& text, size_t i) {
  const auto byte = [&](size_t at) { return at < text.size() ? static_cast<uint8_t>(text[at]) : 0; };
  const uint8_t first = byte(i);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const int bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;   // no overlong forms
  const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;  // no surrogates, nothing beyond U+10FFFF
  if (byte(i + 1) < low || byte(i + 1) > high) return 0;
  for (int k = 2; k < bytes; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
  }
  return bytes;
}

absl::Status CheckPrompt(const char* field, const std::string& prompt) {
  if (prompt.size() > kMaxPromptBytes) {
    return Bad(field, absl::StrCat(prompt.size(), " bytes; ", kMaxPromptBytes, " are possible"));
  }
  for (size_t i = 0; i < prompt.size();) {
    const int bytes = SequenceBytes(prompt, i);
    if (bytes == 0) return Bad(field, absl::StrCat("is not valid UTF-8 at byte ", i));
    i += bytes;
  }
  return absl::OkStatus();
}

// Valid requests whose parts are not built yet.
absl::Status CheckAvailable(const v1::Generation& generation) {
  if (generation.conditions_size() > 0) return NotYet("conditions");
  if (generation.loras_size() > 0) return NotYet("loras");
  if (generation.has_retake()) return NotYet("retake");
  if (generation.has_audio()) return NotYet("audio");
  if (generation.audio_only()) return NotYet("audio_only");
  if (!generation.upsampler().empty()) return NotYet("upsampler");
  switch (generation.recipe()) {
    case v1::Generation::TWO_STAGE:
    case v1::Generation::DISTILLED_TWO_STAGE:
    case v1::Generation::HQ:
      return NotYet("recipe");
    default:
      return absl::OkStatus();
  }
}

GuidanceParams ToGuidance(const v1::Guidance& guidance) {
  GuidanceParams params;
  if (guidance.has_cfg_scale()) params.cfg_scale = guidance.cfg_scale();
  if (guidance.has_stg_scale()) params.stg_scale = guidance.stg_scale();
  params.stg_blocks.assign(guidance.stg_blocks().begin(), guidance.stg_blocks().end());
  if (guidance.has_modality_scale()) params.modality_scale = guidance.modality_scale();
  if (guidance.has_rescale()) params.rescale = guidance.rescale();
  if (guidance.has_skip_step()) params.skip_step = guidance.skip_step();
  return params;
}

void FromGuidance(const GuidanceParams& params, v1::Guidance& guidance) {
  guidance.set_cfg_scale(params.cfg_scale);
  guidance.set_stg_scale(params.stg_scale);
  guidance.mutable_stg_blocks()->Assign(params.stg_blocks.begin(), params.stg_blocks.end());
  guidance.set_modality_scale(params.modality_scale);
  guidance.set_rescale(params.rescale);
  guidance.set_skip_step(params.skip_step);
}

}  // namespace

absl::Status CheckGeneration(const v1::Generation& generation) {
  if (!v1::Generation::Recipe_IsValid(generation.recipe())) {
    return Bad("recipe", absl::StrCat("there is no recipe number ", static_cast<int>(generation.recipe())));
  }
  KINORA_RETURN_IF_ERROR(CheckPrompt("prompt", generation.prompt()));
  KINORA_RETURN_IF_ERROR(CheckPrompt("negative_prompt", generation.negative_prompt()));
  KINORA_RETURN_IF_ERROR(CheckSizes(generation));
  KINORA_RETURN_IF_ERROR(CheckSigmas(generation));
  KINORA_RETURN_IF_ERROR(CheckGuidance("video_guidance", generation.video_guidance()));
  KINORA_RETURN_IF_ERROR(CheckGuidance("audio_guidance", generation.audio_guidance()));
  return CheckInputs(generation);
}

absl::StatusOr<GenerationRequest> ToGenerationRequest(const v1::Generation& generation) {
  KINORA_RETURN_IF_ERROR(CheckGeneration(generation));
  KINORA_RETURN_IF_ERROR(CheckAvailable(generation));
  if (!generation.has_seed()) return Bad("seed", "is absent: draw one before the request is given to the engine");
  GenerationRequest request;
  request.prompt = generation.prompt();
  if (generation.has_negative_prompt()) request.negative_prompt = generation.negative_prompt();
  request.width = generation.width();
  request.height = generation.height();
  request.num_frames = generation.num_frames();
  request.frame_rate = generation.frame_rate();
  request.seed = generation.seed();
  request.recipe = static_cast<Recipe>(generation.recipe());  // request.h keeps the proto's numbers
  request.num_inference_steps = generation.num_inference_steps();
  request.sigmas.assign(generation.sigmas().begin(), generation.sigmas().end());
  if (generation.has_video_guidance()) request.video_guidance = ToGuidance(generation.video_guidance());
  if (generation.has_audio_guidance()) request.audio_guidance = ToGuidance(generation.audio_guidance());
  request.schedule_tokens = generation.schedule_tokens();
  return request;
}

v1::Generation ToGeneration(const GenerationRequest& request, const v1::Generation& asked) {
  v1::Generation generation = asked;
  generation.set_prompt(request.prompt);
  if (request.negative_prompt.has_value()) generation.set_negative_prompt(*request.negative_prompt);
  generation.set_width(request.width);
  generation.set_height(request.height);
  generation.set_num_frames(request.num_frames);
  generation.set_frame_rate(request.frame_rate);
  generation.set_seed(request.seed);
  generation.set_recipe(static_cast<v1::Generation::Recipe>(request.recipe));
  generation.set_num_inference_steps(request.num_inference_steps);
  generation.mutable_sigmas()->Assign(request.sigmas.begin(), request.sigmas.end());
  if (request.video_guidance.has_value()) FromGuidance(*request.video_guidance, *generation.mutable_video_guidance());
  if (request.audio_guidance.has_value()) FromGuidance(*request.audio_guidance, *generation.mutable_audio_guidance());
  generation.set_schedule_tokens(request.schedule_tokens);
  return generation;
}

absl::Status CheckOutput(const v1::Output& output) {
  if (!v1::Output::Container_IsValid(output.container())) {
    return Bad("container", absl::StrCat("there is no container number ", static_cast<int>(output.container())));
  }
  return CheckNumber("crf", output.crf(), 0, 51);
}

absl::Status ParseJson(const std::string& what, const std::string& json, google::protobuf::Message& message) {
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  if (status.ok()) return absl::OkStatus();
  return Bad(what, absl::StrCat("not a ", message.GetDescriptor()->name(), ": ", status.message().ToString()));
}

std::string ParametersJson(const v1::Generation& effective) {
  v1::Generation parameters = effective;
  parameters.clear_prompt();
  parameters.clear_negative_prompt();
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(parameters, &text, options);
  return status.ok() ? text : "{}";
}

}  // namespace kinora
