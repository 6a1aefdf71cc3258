#include "server/request/request_conversion.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/request/defaults.h"
#include "engine/request/not_available.h"
#include "engine/request/request_rules.h"

namespace kinora {
namespace {

absl::Status Bad(const std::string& field, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
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

absl::Status CheckNoDefaultsKept(const char* field, const v1::Guidance& guidance) {
  if (!guidance.keep_defaults()) return absl::OkStatus();
  return Bad(absl::StrCat(field, ".keep_defaults"), "the recipe's defaults are unknown here; set every term");
}

void FromGuidance(const GuidanceParams& params, v1::Guidance& guidance) {
  guidance.set_cfg_scale(params.cfg_scale);
  guidance.set_stg_scale(params.stg_scale);
  guidance.mutable_stg_blocks()->Assign(params.stg_blocks.begin(), params.stg_blocks.end());
  guidance.set_modality_scale(params.modality_scale);
  guidance.set_rescale(params.rescale);
  guidance.set_skip_step(params.skip_step);
}

ConditionInput ToCondition(const v1::Condition& condition) {
  using Media = ConditionInput::Media;
  ConditionInput input{.frame = condition.frame(), .append = condition.append()};
  if (condition.has_image()) {
    input.media = Media::kImage;
    input.input_id = condition.image().input_id();
  } else if (condition.has_clip()) {
    input.media = Media::kClip;
    input.input_id = condition.clip().input_id();
  }
  if (condition.has_strength()) input.strength = condition.strength();
  if (condition.has_crf()) input.crf = condition.crf();
  return input;
}

void FromCondition(const ConditionInput& input, v1::Condition& condition) {
  if (input.media == ConditionInput::Media::kImage) condition.mutable_image()->set_input_id(input.input_id);
  if (input.media == ConditionInput::Media::kClip) condition.mutable_clip()->set_input_id(input.input_id);
  condition.set_frame(input.frame);
  condition.set_strength(input.strength);
  condition.set_append(input.append);
  if (input.crf.has_value()) condition.set_crf(*input.crf);
}

// Conditions, LoRAs, retake and sound: a request's inputs besides numbers and text.
void ToInputs(const v1::Generation& generation, GenerationRequest& request) {
  for (const v1::Condition& condition : generation.conditions()) request.conditions.push_back(ToCondition(condition));
  for (const v1::LoraRef& lora : generation.loras()) {
    LoraInput& input = request.loras.emplace_back(LoraInput{.id = lora.id()});
    if (lora.has_strength()) input.strength = lora.strength();
    if (lora.has_strength_stage2()) input.strength_stage2 = lora.strength_stage2();
    input.digest = lora.digest();
  }
  if (generation.has_retake()) {
    const v1::Retake& retake = generation.retake();
    request.retake = RetakeInput{.input_id = retake.clip().input_id(),
                                 .start_seconds = retake.start_seconds(),
                                 .end_seconds = retake.end_seconds(),
                                 .keep_video = retake.keep_video(),
                                 .keep_audio = retake.keep_audio()};
  }
  if (generation.has_audio()) {
    request.audio = AudioGuide{.input_id = generation.audio().media().input_id(),
                               .start_seconds = generation.audio().start_seconds()};
  }
}

void FromInputs(const GenerationRequest& request, v1::Generation& generation) {
  for (const ConditionInput& input : request.conditions) FromCondition(input, *generation.add_conditions());
  for (const LoraInput& input : request.loras) {
    v1::LoraRef& lora = *generation.add_loras();
    lora.set_id(input.id);
    lora.set_strength(input.strength);
    if (input.strength_stage2.has_value()) lora.set_strength_stage2(*input.strength_stage2);
    lora.set_digest(input.digest);
  }
  if (request.retake.has_value()) {
    v1::Retake& retake = *generation.mutable_retake();
    retake.mutable_clip()->set_input_id(request.retake->input_id);
    retake.set_start_seconds(request.retake->start_seconds);
    retake.set_end_seconds(request.retake->end_seconds);
    retake.set_keep_video(request.retake->keep_video);
    retake.set_keep_audio(request.retake->keep_audio);
  }
  if (request.audio.has_value()) {
    generation.mutable_audio()->mutable_media()->set_input_id(request.audio->input_id);
    generation.mutable_audio()->set_start_seconds(request.audio->start_seconds);
  }
}

std::string ToJson(const v1::Generation& generation, bool every_field) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = every_field;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(generation, &text, options);
  return status.ok() ? text : "{}";
}

void FillTerms(const std::optional<GuidanceParams>& defaults, v1::Guidance& guidance) {
  v1::Guidance filled;
  FromGuidance(defaults.value_or(GuidanceParams{}), filled);
  if (guidance.stg_blocks_size() > 0) filled.clear_stg_blocks();
  filled.MergeFrom(guidance);
  filled.clear_keep_defaults();
  guidance = filled;
}

}  // namespace

absl::Status KeepGuidanceDefaults(const ModelDescription& model, v1::Generation& generation) {
  const bool video = generation.video_guidance().keep_defaults(), audio = generation.audio_guidance().keep_defaults();
  if (!video && !audio) return absl::OkStatus();
  v1::Generation without = generation;
  without.clear_video_guidance();
  without.clear_audio_guidance();
  KINORA_ASSIGN_OR_RETURN(GenerationRequest defaults, ToGenerationRequest(without));
  defaults = WithDefaults(model, defaults);
  if (video) FillTerms(defaults.video_guidance, *generation.mutable_video_guidance());
  if (audio) FillTerms(defaults.audio_guidance, *generation.mutable_audio_guidance());
  return absl::OkStatus();
}

absl::StatusOr<GenerationRequest> ToGenerationRequest(const v1::Generation& generation) {
  if (!v1::Generation::Recipe_IsValid(generation.recipe())) {
    return Bad("recipe", absl::StrCat(static_cast<int>(generation.recipe()), " is not a value of Recipe"));
  }
  if (!generation.has_seed()) return Bad("seed", "is absent: draw one before the request is given to the engine");
  KINORA_RETURN_IF_ERROR(CheckNoDefaultsKept("video_guidance", generation.video_guidance()));
  KINORA_RETURN_IF_ERROR(CheckNoDefaultsKept("audio_guidance", generation.audio_guidance()));
  GenerationRequest request;
  request.prompt = generation.prompt();
  if (generation.has_negative_prompt()) request.negative_prompt = generation.negative_prompt();
  request.width = generation.width();
  request.height = generation.height();
  request.num_frames = generation.num_frames();
  request.frame_rate = generation.frame_rate();
  request.seed = generation.seed();
  request.recipe = static_cast<Recipe>(generation.recipe());  // request.h has the proto's numbers
  request.num_inference_steps = generation.num_inference_steps();
  request.sigmas.assign(generation.sigmas().begin(), generation.sigmas().end());
  if (generation.has_video_guidance()) request.video_guidance = ToGuidance(generation.video_guidance());
  if (generation.has_audio_guidance()) request.audio_guidance = ToGuidance(generation.audio_guidance());
  request.schedule_tokens = generation.schedule_tokens();
  request.audio_only = generation.audio_only();
  request.upsampler = generation.upsampler();
  if (generation.has_auto_length()) {
    AutoLength& length = request.auto_length.emplace();
    if (generation.auto_length().has_min_seconds()) length.min_seconds = generation.auto_length().min_seconds();
    if (generation.auto_length().has_max_seconds()) length.max_seconds = generation.auto_length().max_seconds();
  }
  ToInputs(generation, request);
  return request;
}

v1::Generation ToGeneration(const GenerationRequest& request) {
  v1::Generation generation;
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
  generation.set_audio_only(request.audio_only);
  generation.set_upsampler(request.upsampler);
  if (request.auto_length.has_value()) {
    v1::AutoLength& length = *generation.mutable_auto_length();
    if (request.auto_length->min_seconds.has_value()) length.set_min_seconds(*request.auto_length->min_seconds);
    if (request.auto_length->max_seconds.has_value()) length.set_max_seconds(*request.auto_length->max_seconds);
  }
  FromInputs(request, generation);
  return generation;
}

absl::Status CheckGeneration(const v1::Generation& generation) {
  v1::Generation given = generation;  // some model could accept whatever the defaults are
  if (given.has_video_guidance()) given.mutable_video_guidance()->clear_keep_defaults();
  if (given.has_audio_guidance()) given.mutable_audio_guidance()->clear_keep_defaults();
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest request, ToGenerationRequest(given));
  const FieldViolations violations = ViolationsForAnyModel(request);
  return violations.empty() ? absl::OkStatus() : absl::InvalidArgumentError(JoinViolations(violations));
}

OutputRequest ToOutputRequest(const v1::Output& output) {
  OutputRequest request{.preview_every_steps = output.preview_every_steps()};
  if (output.has_crf()) request.crf = output.crf();
  return request;
}

absl::Status CheckOutput(const v1::Output& output) {
  if (!v1::Output::Container_IsValid(output.container())) {
    return Bad("container", absl::StrCat(static_cast<int>(output.container()), " is not a value of Container"));
  }
  const OutputRequest request = ToOutputRequest(output);
  const FieldViolations violations = OutputViolations(request);
  if (!violations.empty()) return absl::InvalidArgumentError(JoinViolations(violations));
  const std::string unavailable = NotAvailable(request);
  return unavailable.empty() ? absl::OkStatus() : absl::UnimplementedError(unavailable + ": not available yet");
}

absl::Status ParseJson(const std::string& what, const std::string& json, google::protobuf::Message& message) {
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  if (status.ok()) return absl::OkStatus();
  return Bad(what, absl::StrCat("not a ", message.GetDescriptor()->name(), ": ", status.message().ToString()));
}

std::string EveryFieldJson(const v1::Generation& effective) { return ToJson(effective, /*every_field=*/true); }

std::string ParametersJson(const v1::Generation& effective) {
  v1::Generation parameters = effective;
  parameters.clear_prompt();
  parameters.clear_negative_prompt();
  return ToJson(parameters, /*every_field=*/false);
}

}  // namespace kinora
