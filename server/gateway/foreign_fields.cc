#include "server/gateway/foreign_fields.h"

namespace kinora {
namespace {

constexpr std::string_view kSglang = "SGLang", kOmni = "vLLM-Omni", kBoth = "SGLang, vLLM-Omni";
constexpr std::string_view kPaths = "a server does not read or write paths that clients name";
constexpr std::string_view kExperts = "LTX models have one transformer, not one for each range of noise";

constexpr ForeignField kForeignFields[] = {
    {"guidance_scale_2", kBoth, "", kExperts},
    {"boundary_ratio", kOmni, "", kExperts},
    {"true_cfg_scale", kBoth, "", "LTX models have no distilled guidance beside guidance_scale; send guidance_scale"},
    {"flow_shift", kBoth, "",
     "LTX models shift their schedule by the number of tokens; send schedule_tokens or sigmas"},
    {"max_sequence_length", kSglang, "", "the model sets the number of tokens of a prompt"},
    {"enable_teacache", kSglang, "false", "results do not depend on a cache that skips steps; send fewer steps"},
    {"enable_frame_interpolation", kBoth, "false", "send recipe two_stage with upsampler temporal_x2, or a higher fps"},
    {"frame_interpolation_exp", kBoth, "1", "there is no frame interpolation after the render"},
    {"frame_interpolation_scale", kBoth, "1|1.0", "there is no frame interpolation after the render"},
    {"frame_interpolation_model_path", kBoth, "", "there is no frame interpolation after the render"},
    {"enable_upscaling", kSglang, "false", "send recipe two_stage, which renders at half size and upsamples latents"},
    {"upscaling_scale", kSglang, "", "there is no upscaling after the render; send the size of the clip"},
    {"upscaling_model_path", kSglang, "", kPaths},
    {"output_quality", kSglang, "\"default\"", "send output_crf, the quality of the video encoder"},
    {"output_compression", kSglang, "", "send output_crf, the quality of the video encoder"},
    {"output_path", kSglang, "", kPaths},
    {"video_path", kSglang, "", "a server does not read paths that clients name; send video_reference"},
    {"diffusers_kwargs", kSglang, "", "no part of diffusers is here; send the field itself"},
    {"task", kSglang, "", "the inputs say what is asked for: input_reference, audio_reference, conditions, retake"},
    {"target", kSglang, "", "the inputs say what is asked for: input_reference, audio_reference, conditions, retake"},
    {"sound_duration", kOmni, "", "the sound is as long as the clip; send seconds or num_frames"},
    {"control_reference", kOmni, "", "no control model is served; send a LoRA with conditions"},
    {"control_type", kOmni, "", "no control model is served; send a LoRA with conditions"},
    {"video_params", kOmni, "", "send width, height, num_frames and fps at the top level"},
    {"aspect_ratio", "LiteLLM", "", "send size, or width and height"},
    {"characters", "OpenAI", "", "no characters are stored; send input_reference"},
    {"quality", "OpenAI", "\"standard\"|\"default\"|\"auto\"", "send output_crf, num_inference_steps or recipe"},
    {"response_format", kBoth, "\"url\"", "the answer is a job; GET /v1/videos/{id}/content sends the clip"},
    {"extra_headers", "LiteLLM", "{}", "headers are not part of a body"}};

}  // namespace

absl::Span<const ForeignField> ForeignFields() { return kForeignFields; }

const ForeignField* FindForeignField(std::string_view name) {
  for (const ForeignField& field : kForeignFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

}  // namespace kinora
