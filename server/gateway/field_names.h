// The names of the fields of a request, in tables that reading, writing and errors share.
#ifndef KINORA_SERVER_GATEWAY_FIELD_NAMES_H_
#define KINORA_SERVER_GATEWAY_FIELD_NAMES_H_

#include <string_view>

#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// All fields at the top level, in the order of the documentation.
inline constexpr std::string_view kFieldNames[] = {"prompt",
                                                   "negative_prompt",
                                                   "model",
                                                   "n",
                                                   "seconds",
                                                   "min_seconds",
                                                   "max_seconds",
                                                   "size",
                                                   "width",
                                                   "height",
                                                   "fps",
                                                   "num_frames",
                                                   "seed",
                                                   "num_inference_steps",
                                                   "recipe",
                                                   "upsampler",
                                                   "sigmas",
                                                   "schedule_tokens",
                                                   "guidance_scale",
                                                   "video_cfg_scale",
                                                   "audio_cfg_scale",
                                                   "video_stg_scale",
                                                   "audio_stg_scale",
                                                   "video_modality_scale",
                                                   "audio_modality_scale",
                                                   "video_rescale_scale",
                                                   "audio_rescale_scale",
                                                   "video_stg_blocks",
                                                   "audio_stg_blocks",
                                                   "video_skip_step",
                                                   "audio_skip_step",
                                                   "input_reference",
                                                   "image_reference",
                                                   "reference_url",
                                                   "video_reference",
                                                   "video_url",
                                                   "audio_reference",
                                                   "conditions",
                                                   "image_crf",
                                                   "retake",
                                                   "lora",
                                                   "generate_sound",
                                                   "audio_only",
                                                   "container",
                                                   "output_crf",
                                                   "embed_parameters",
                                                   "embed_prompt",
                                                   "ttl_seconds",
                                                   "preview_every_steps",
                                                   "thumbnail",
                                                   "trace",
                                                   "priority",
                                                   "deadline_seconds",
                                                   "labels",
                                                   "metadata",
                                                   "user",
                                                   "request_id"};

// What `seconds` says for a length that the model chooses.
inline constexpr std::string_view kAutoSeconds = "auto";

// The order of these words is that of the values of the enum, from 1.
inline constexpr std::string_view kRecipeWords[] = {"one_stage", "two_stage", "distilled", "distilled_two_stage", "hq"};
inline constexpr std::string_view kContainerWords[] = {"mp4", "webm", "png_frames", "wav"};

// The number terms of Guidance. The field of the picture is "video_" and the name, that of the sound "audio_".
struct GuidanceTerm {
  std::string_view name;   // "cfg_scale"
  std::string_view proto;  // its name in Guidance
  void (v1::Guidance::*set)(double);
  double (v1::Guidance::*get)() const;
  double off;
};
inline constexpr GuidanceTerm kGuidanceTerms[] = {
    {"cfg_scale", "cfg_scale", &v1::Guidance::set_cfg_scale, &v1::Guidance::cfg_scale, 1},
    {"stg_scale", "stg_scale", &v1::Guidance::set_stg_scale, &v1::Guidance::stg_scale, 0},
    {"modality_scale", "modality_scale", &v1::Guidance::set_modality_scale, &v1::Guidance::modality_scale, 1},
    {"rescale_scale", "rescale", &v1::Guidance::set_rescale, &v1::Guidance::rescale, 0}};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_FIELD_NAMES_H_
