"""Parameter names of the Lightricks single-file layout, derived from those of the reference modules."""

import re

import torch

PREFIX = {  # prefix of a module's names in the single file
    "transformer": "model.diffusion_model.",
    "connectors": "",  # its parts have two prefixes, so its names are complete
    "video_vae": "vae.",
    "audio_vae": "audio_vae.",
    "vocoder": "vocoder.",
    "latent_upsampler": "",  # a separate file
    "gemma": "",
    "duration_head": "duration_head.",
}

_RULES = {  # (pattern, replacement), applied in order
    "transformer": [
        (r"^(audio_)?proj_in\.", r"\1patchify_proj."),
        (r"^(audio_)?time_embed\.", r"\1adaln_single."),
        (r"^(audio_)?prompt_adaln\.", r"\1prompt_adaln_single."),
        (r"^av_cross_attn_(video|audio)_scale_shift\.", r"av_ca_\1_scale_shift_adaln_single."),
        (r"^av_cross_attn_video_a2v_gate\.", "av_ca_a2v_gate_adaln_single."),
        (r"^av_cross_attn_audio_v2a_gate\.", "av_ca_v2a_gate_adaln_single."),
        (r"\.(video|audio)_a2v_cross_attn_scale_shift_table$", r".scale_shift_table_a2v_ca_\1"),
        (r"\.norm_([qk])\.", r".\1_norm."),
    ],
    "connectors": [
        (r"^text_proj_in\.", "text_embedding_projection.aggregate_embed."),
        (r"^(video|audio)_text_proj_in\.", r"text_embedding_projection.\1_aggregate_embed."),
        (r"^(video|audio)_connector\.", r"model.diffusion_model.\1_embeddings_connector."),
        (r"\.transformer_blocks\.", ".transformer_1d_blocks."),
        (r"\.norm_([qk])\.", r".\1_norm."),
    ],
    "video_vae": [
        (r"^latents_mean$", "per_channel_statistics.mean-of-means"),
        (r"^latents_std$", "per_channel_statistics.std-of-means"),
        (r"^encoder\.down_blocks\.(\d+)\.resnets\.", lambda m: f"encoder.down_blocks.{2 * int(m[1])}.res_blocks."),
        (r"^encoder\.down_blocks\.(\d+)\.downsamplers\.0\.", lambda m: f"encoder.down_blocks.{2 * int(m[1]) + 1}."),
        (r"^encoder\.mid_block\.resnets\.", "encoder.down_blocks.{mid}.res_blocks."),
        (r"^decoder\.mid_block\.resnets\.", "decoder.up_blocks.0.res_blocks."),
        (r"^decoder\.up_blocks\.(\d+)\.upsamplers\.0\.", lambda m: f"decoder.up_blocks.{2 * int(m[1]) + 1}."),
        (r"^decoder\.up_blocks\.(\d+)\.resnets\.", lambda m: f"decoder.up_blocks.{2 * int(m[1]) + 2}.res_blocks."),
    ],
    "audio_vae": [
        (r"^latents_mean$", "per_channel_statistics.mean-of-means"),
        (r"^latents_std$", "per_channel_statistics.std-of-means"),
    ],
    "vocoder": [
        (r"(^|\.)upsamplers\.", r"\1ups."),
        (r"(^|\.)resnets\.", r"\1resblocks."),
        (r"(^|\.)conv_in\.", r"\1conv_pre."),
        (r"(^|\.)conv_out\.", r"\1conv_post."),
        (r"(^|\.)act_out\.", r"\1act_post."),
        (r"\.downsample\.filter$", ".downsample.lowpass.filter"),
    ],
    "latent_upsampler": [],
    "duration_head": [],
    "gemma": [
        (r"^model\.language_model\.", "language_model.model."),
        (r"^model\.vision_tower\.", "vision_tower.vision_model."),
        (r"^model\.multi_modal_projector\.", "multi_modal_projector."),
    ],
}


def single_file_names(module: str, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns the same tensors under the names of the single file, without PREFIX[module]."""
    levels = 1 + max((int(m[1]) for k in state if (m := re.match(r"encoder\.down_blocks\.(\d+)", k))), default=0)
    renamed = {}
    for name, tensor in state.items():
        if name == "lm_head.weight":  # tied to embed_tokens, not in the published files
            continue
        for pattern, replacement in _RULES[module]:
            name = re.sub(pattern, replacement, name)
        renamed[name.replace("{mid}", str(2 * levels))] = tensor
    return renamed
