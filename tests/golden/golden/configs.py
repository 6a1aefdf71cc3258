"""Tiny models in the format of the `config` metadata of Lightricks' single files.

That is {transformer, vae, audio_vae, vocoder, scheduler}.

Every key of the released files exists here (the reference configurators require many of them), every width is tiny,
widths that could be confused differ where possible, and every feature of the generation is on. The video VAE's (8, 32,
32) compression and the audio latent's 128 packed channels are those of the released models, because the vocoder's input
(2 x 64 mel bins) and the shapes between modules are fixed by them.
"""

import copy

GEMMA = {  # Gemma-3's text_config, as in google/gemma-3-*-it
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 64,
    "initializer_range": 0.02,
    "intermediate_size": 96,
    "max_position_embeddings": 131072,
    "model_type": "gemma3_text",
    "num_attention_heads": 4,
    "num_hidden_layers": 6,
    "num_key_value_heads": 2,
    "query_pre_attn_scalar": 16,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "rope_theta": 1000000.0,
    "sliding_window": 64,
    "sliding_window_pattern": 6,
    "use_cache": True,
    "vocab_size": 1040,
}


def gemma_file(text: dict, vision: dict) -> dict:
    """Returns the config.json of a text encoder folder, as Google publishes Gemma-3's."""
    return {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "boi_token_index": 6,
        "eoi_token_index": 7,
        "eos_token_id": [1, 106],
        "image_token_index": 8,
        "initializer_range": 0.02,
        "mm_tokens_per_image": 4,
        "model_type": "gemma3",
        "text_config": text,
        "torch_dtype": "bfloat16",
        "vision_config": vision,
    }


GEMMA4 = {  # Gemma-4's text_config, as in Lightricks' text encoder files; full layers are not every sixth
    "attention_bias": False,
    "attention_k_eq_v": True,
    "final_logit_softcapping": 30.0,
    "global_head_dim": 32,
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 48,
    "intermediate_size": 64,
    "layer_types": [f"{kind}_attention" for kind in ("sliding", "full", "sliding", "full")],
    "max_position_embeddings": 262144,
    "model_type": "gemma4_unified_text",
    "num_attention_heads": 4,
    "num_global_key_value_heads": 1,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "num_kv_shared_layers": 0,
    "rms_norm_eps": 1e-06,
    "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
    "sliding_window": 16,
    "use_bidirectional_attention": "vision",
    "use_double_wide_mlp": False,
    "vocab_size": 160,
}


def gemma4_file(text: dict) -> dict:
    """Returns `gemma_config` of a text encoder's metadata, with towers as small as they may be."""
    return {
        "architectures": ["Gemma4UnifiedForConditionalGeneration"],
        "gemma_version": "gemma4-12b-ltx-v1",
        "model_type": "gemma4_unified",
        "text_config": dict(text),
    }


_TRANSFORMER = {  # shared by 2.0 and 2.3
    "_class_name": "AVTransformer3DModel",
    "_diffusers_version": "0.25.1",
    "activation_fn": "gelu-approximate",
    "attention_bias": True,
    "attention_type": "default",
    "double_self_attention": False,
    "dropout": 0.0,
    "in_channels": 16,
    "out_channels": 16,
    "norm_elementwise_affine": False,
    "norm_eps": 1e-06,
    "norm_num_groups": 32,
    "num_attention_heads": 4,
    "attention_head_dim": 16,
    "cross_attention_dim": 64,
    "num_embeds_ada_norm": 1000,
    "num_layers": 2,
    "num_vector_embeds": None,
    "only_cross_attention": False,
    "cross_attention_norm": True,
    "upcast_attention": False,
    "use_linear_projection": False,
    "qk_norm": "rms_norm",
    "standardization_norm": "rms_norm",
    "positional_embedding_type": "rope",
    "positional_embedding_theta": 10000.0,
    "positional_embedding_max_pos": [20, 2048, 2048],
    "timestep_scale_multiplier": 1000,
    "causal_temporal_positioning": True,
    "use_middle_indices_grid": True,
    "rope_type": "split",
    "frequencies_precision": "float64",
    "share_ff": False,
    "audio_in_channels": 128,
    "audio_out_channels": 128,
    "audio_num_attention_heads": 4,
    "audio_attention_head_dim": 8,
    "audio_cross_attention_dim": 32,
    "audio_positional_embedding_max_pos": [20],
    "use_audio_video_cross_attention": True,
    "av_cross_ada_norm": True,
    "av_ca_timestep_scale_multiplier": 1000.0,
    "use_embeddings_connector": True,
    "connector_num_layers": 2,
    "connector_num_learnable_registers": 128,
    "connector_positional_embedding_max_pos": [4096],
    "connector_norm_output": True,
}

_AUDIO_VAE = {
    "model": {
        "params": {
            "ddconfig": {
                "double_z": True,
                "mel_bins": 64,
                "z_channels": 8,
                "resolution": 256,
                "downsample_time": False,
                "in_channels": 2,
                "out_ch": 2,
                "ch": 4,
                "ch_mult": [1, 2, 4],
                "num_res_blocks": 1,
                "attn_resolutions": [],
                "dropout": 0.0,
                "mid_block_add_attention": False,
                "norm_type": "pixel",
                "causality_axis": "height",
            },
            "sampling_rate": 16000,
        }
    },
    "preprocessing": {
        "audio": {"sampling_rate": 16000, "max_wav_value": 32768.0, "stereo": True, "causal_padding": True},
        "stft": {"filter_length": 1024, "hop_length": 160, "win_length": 1024, "causal": True},
        "mel": {"n_mel_channels": 64, "mel_fmin": 0, "mel_fmax": 8000},
    },
}

_VAE = {
    "_class_name": "CausalVideoAutoencoder",
    "dims": 3,
    "in_channels": 3,
    "out_channels": 3,
    "latent_channels": 16,
    "patch_size": 4,
    "norm_layer": "pixel_norm",
    "latent_log_var": "uniform",
    "use_quant_conv": False,
    "causal_decoder": False,
    "timestep_conditioning": False,
    "encoder_base_channels": 16,
    "decoder_base_channels": 4,
}

# The released files contain only the first four; the rest is the dev schedule as diffusers writes it.
_SCHEDULER = {
    "_class_name": "RectifiedFlowScheduler",
    "_diffusers_version": "0.25.1",
    "num_train_timesteps": 1000,
    "sampler": "LinearQuadratic",
    "use_dynamic_shifting": True,
    "base_shift": 0.95,
    "max_shift": 2.05,
    "base_image_seq_len": 1024,
    "max_image_seq_len": 4096,
    "shift_terminal": 0.1,
    "time_shift_type": "exponential",
}

_GENERATOR_2_3 = {
    "resblock": "AMP1",
    "resblock_kernel_sizes": [3, 7, 11],
    "resblock_dilation_sizes": [[1, 3, 5]] * 3,
    "stereo": True,
    "use_tanh_at_final": False,
    "activation": "snakebeta",
    "use_bias_at_final": False,
}


def ltx_2_3() -> dict:
    """Returns a tiny LTX-2.3 as {"config", "model_version"}: gated attention, prompt AdaLN, v2 decoder, bandwidth
    extension."""
    transformer = dict(
        copy.deepcopy(_TRANSFORMER),
        apply_gated_attention=True,
        cross_attention_adaln=True,
        caption_channels=64,
        caption_proj_before_connector=True,
        caption_projection_first_linear=False,
        caption_proj_input_norm=False,
        caption_projection_second_linear=False,
        text_encoder_norm_type="per_token_rms",
        connector_apply_gated_attention=True,
        connector_num_attention_heads=4,
        connector_attention_head_dim=16,
        audio_connector_num_attention_heads=4,
        audio_connector_attention_head_dim=8,
        audio_connector_num_layers=2,
    )
    vae = dict(
        copy.deepcopy(_VAE),
        spatial_padding_mode="zeros",
        encoder_blocks=[
            ["res_x", {"num_layers": 1}],
            ["compress_space_res", {"multiplier": 1}],
            ["res_x", {"num_layers": 2}],
            ["compress_time_res", {"multiplier": 1}],
            ["res_x", {"num_layers": 1}],
            ["compress_all_res", {"multiplier": 1}],
            ["res_x", {"num_layers": 1}],
            ["compress_all_res", {"multiplier": 1}],
            ["res_x", {"num_layers": 1}],
        ],
        decoder_blocks=[
            ["res_x", {"num_layers": 2}],
            ["compress_space", {"multiplier": 1}],
            ["res_x", {"num_layers": 3}],
            ["compress_time", {"multiplier": 2}],
            ["res_x", {"num_layers": 1}],
            ["compress_all", {"multiplier": 1}],
            ["res_x", {"num_layers": 2}],
            ["compress_all", {"multiplier": 2}],
            ["res_x", {"num_layers": 1}],
        ],
    )
    vocoder = {
        "vocoder": dict(
            copy.deepcopy(_GENERATOR_2_3),
            upsample_initial_channel=32,
            upsample_rates=[5, 4, 4, 2],
            upsample_kernel_sizes=[11, 8, 8, 4],
        ),
        "bwe": dict(
            copy.deepcopy(_GENERATOR_2_3),
            upsample_initial_channel=16,
            upsample_rates=[6, 5, 4, 2],
            upsample_kernel_sizes=[12, 11, 8, 4],
            apply_final_activation=False,
            input_sampling_rate=16000,
            output_sampling_rate=48000,
            hop_length=80,
            n_fft=192,
            win_size=192,
            num_mels=64,
        ),
    }
    return {
        "model_version": "2.3.0",
        "config": {
            "transformer": transformer,
            "vae": vae,
            "audio_vae": copy.deepcopy(_AUDIO_VAE),
            "vocoder": vocoder,
            "scheduler": dict(_SCHEDULER),
        },
    }


def ltx_2_5() -> dict:
    """Returns a tiny LTX-2.5 as {"config", "model_version"}: no biases in the video's feed-forward, and the keyframe
    marker.

    The latent is narrower than that of ltx_2_3, so that files stay small. Keys that the released files leave out, as
    audio_ff_bias, are left out.
    """
    meta = ltx_2_3()
    transformer, vae = meta["config"]["transformer"], meta["config"]["vae"]
    transformer |= {
        "in_channels": 8,
        "out_channels": 8,
        "num_attention_heads": 2,
        "attention_head_dim": 24,
        "cross_attention_dim": 48,
        "audio_num_attention_heads": 2,
        "audio_attention_head_dim": 8,
        "audio_cross_attention_dim": 16,
        "caption_channels": 48,
        "connector_num_layers": 1,
        "connector_num_attention_heads": 2,
        "connector_attention_head_dim": 24,
        "audio_connector_num_layers": 1,
        "audio_connector_num_attention_heads": 2,
        "audio_connector_attention_head_dim": 8,
        "ff_bias": False,
        "use_keyframes_abs_pos_embedding": True,
        "text_encoder_norm_type": "PER_TOKEN_RMS",
    }
    vae |= {"latent_channels": 8, "encoder_base_channels": 8}
    meta["config"]["audio_vae"]["model"]["params"]["ddconfig"]["ch"] = 2
    vocoder = meta["config"]["vocoder"]
    vocoder["vocoder"]["upsample_initial_channel"] = 16
    return meta | {"model_version": "2.5.0"}


def ltx_2_5_diffusion() -> dict:
    """Returns ltx_2_5 with the diffusion video decoder: a `vae` section with nested `encoder` and `decoder`.

    The encoder is that of ltx_2_5. Every key of the decoder differs from its default in the reference.
    """
    meta = ltx_2_5()
    flat = meta["config"]["vae"]
    encoder = {key: flat[key] for key in ("dims", "in_channels", "patch_size", "norm_layer", "spatial_padding_mode")}
    encoder |= {
        "out_channels": flat["latent_channels"],
        "base_channels": flat["encoder_base_channels"],
        "blocks": flat["encoder_blocks"],
        "latent_log_var": "constant",
    }
    meta["config"]["vae"] = {
        "_class_name": "CausalDiffusionVAE",
        "model_output_type": "x0",
        "encoder": encoder,
        "decoder": {
            "_class_name": "NADiffusionDecoder",
            "in_channels": flat["latent_channels"],
            "out_channels": 3,
            "patch_size": 4,
            "head_dim": 16,
            "stage_channels": [64, 32, 32, 32, 32],
            "stage_depths": [1, 1, 1, 1, 2],
            "stage_kernels": [[3, 3, 3], [3, 3, 3], [3, 3, 3], [3, 3, 3], [3, 5, 5]],
            "upsamples": [[[1, 2, 2], 2], [[2, 1, 1], 1], [[2, 2, 2], 1], [[2, 2, 2], 1]],
            "stage5_kernel": [3, 5, 5],
            "timestep_scale_multiplier": 1000,
            "default_num_inference_steps": 1,
            "t_emb_dim": 48,
            "resampler_kind": "linear",
        },
    }
    return meta

def ltx_2_0() -> dict:
    """Returns a tiny LTX-2.0 as {"config", "model_version"}: caption projections, v1 decoder, plain vocoder."""
    transformer = dict(
        copy.deepcopy(_TRANSFORMER),
        caption_channels=48,
        connector_num_attention_heads=3,
        connector_attention_head_dim=16,
    )  # as in the released file, the text encoder's width, in 3 (30) heads
    vae = dict(
        copy.deepcopy(_VAE),  # no spatial_padding_mode: encoder zeros, decoder reflect
        encoder_blocks=[
            ["res_x", {"num_layers": 1}],
            ["compress_space_res", {"multiplier": 1}],
            ["res_x", {"num_layers": 2}],
            ["compress_time_res", {"multiplier": 1}],
            ["res_x", {"num_layers": 1}],
            ["compress_all_res", {"multiplier": 1}],
            ["res_x", {"num_layers": 1}],
            ["compress_all_res", {"multiplier": 2}],
            ["res_x", {"num_layers": 1}],
        ],
        decoder_blocks=[
            ["res_x", {"num_layers": 2, "inject_noise": False}],
            ["compress_all", {"residual": True, "multiplier": 2}],
            ["res_x", {"num_layers": 1, "inject_noise": False}],
            ["compress_all", {"residual": True, "multiplier": 2}],
            ["res_x", {"num_layers": 2, "inject_noise": False}],
            ["compress_all", {"residual": True, "multiplier": 2}],
            ["res_x", {"num_layers": 1, "inject_noise": False}],
        ],
    )
    vocoder = {
        "resblock": "1",
        "resblock_kernel_sizes": [3, 7, 11],
        "resblock_dilation_sizes": [[1, 3, 5]] * 3,
        "upsample_rates": [6, 5, 4, 2],
        "upsample_kernel_sizes": [16, 15, 8, 4],
        "upsample_initial_channel": 32,
        "stereo": True,
    }
    return {
        "model_version": "2.0.0",
        "config": {
            "transformer": transformer,
            "vae": vae,
            "audio_vae": copy.deepcopy(_AUDIO_VAE),
            "vocoder": vocoder,
            "scheduler": dict(_SCHEDULER),
        },
    }


def ltx_2_0_small() -> dict:
    """Returns a smaller LTX-2.0 for a whole render: one block, one connector layer, the text encoder of models/tiny."""
    meta = ltx_2_0()
    config = meta["config"]
    config["transformer"] |= {
        "num_layers": 1,
        "num_attention_heads": 2,
        "audio_num_attention_heads": 2,
        "cross_attention_dim": 32,
        "audio_cross_attention_dim": 16,
        "caption_channels": 64,
        "connector_num_layers": 1,
        "connector_num_attention_heads": 4,
    }
    config["vae"]["decoder_base_channels"] = 8
    for i, multiplier in ((1, 1), (3, 1), (5, 2)):
        config["vae"]["decoder_blocks"][i][1]["multiplier"] = multiplier
    for i in (0, 4):
        config["vae"]["decoder_blocks"][i][1]["num_layers"] = 1
    config["vocoder"]["upsample_initial_channel"] = 16
    return meta
