"""The reference modules (diffusers, transformers), built from a `config` in the format of Lightricks' metadata."""

import math

import torch
from diffusers.models.autoencoders.autoencoder_kl_ltx2 import AutoencoderKLLTX2Video, LTX2VideoEncoder3d
from diffusers.models.autoencoders.autoencoder_kl_ltx2_audio import AutoencoderKLLTX2Audio
from diffusers.models.transformers.transformer_ltx2 import LTX2VideoTransformer3DModel
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder, LTX2VocoderWithBWE
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

_STRIDE = {"compress_space": "spatial", "compress_time": "temporal", "compress_all": "spatiotemporal"}


def transformer(config: dict) -> LTX2VideoTransformer3DModel:
    t = config["transformer"]
    gated, modulated = t.get("apply_gated_attention", False), t.get("cross_attention_adaln", False)
    return LTX2VideoTransformer3DModel(
        in_channels=t["in_channels"],
        out_channels=t["out_channels"],
        num_attention_heads=t["num_attention_heads"],
        attention_head_dim=t["attention_head_dim"],
        cross_attention_dim=t["cross_attention_dim"],
        gated_attn=gated,
        cross_attn_mod=modulated,
        audio_in_channels=t["audio_in_channels"],
        audio_out_channels=t["audio_out_channels"],
        audio_num_attention_heads=t["audio_num_attention_heads"],
        audio_attention_head_dim=t["audio_attention_head_dim"],
        audio_cross_attention_dim=t["audio_cross_attention_dim"],
        audio_gated_attn=gated,
        audio_cross_attn_mod=modulated,
        num_layers=t["num_layers"],
        norm_eps=t["norm_eps"],
        caption_channels=t["caption_channels"],
        rope_theta=t["positional_embedding_theta"],
        rope_double_precision=t["frequencies_precision"] == "float64",
        timestep_scale_multiplier=t["timestep_scale_multiplier"],
        cross_attn_timestep_scale_multiplier=int(t["av_ca_timestep_scale_multiplier"]),
        rope_type=t["rope_type"],
        use_prompt_embeddings=not t.get("caption_proj_before_connector", False),
        ff_bias=t.get("ff_bias", True),
        audio_ff_bias=t.get("audio_ff_bias", True),
        use_keyframes_abs_pos_embedding=t.get("use_keyframes_abs_pos_embedding", False),
        perturbed_attn=True,  # Lightricks can perturb any generation; it has no effect without a perturbation
    ).eval()


def connectors(config: dict, text_states: int, text_width: int) -> LTX2TextConnectors:
    t = config["transformer"]
    per_modality = t.get("caption_proj_before_connector", False)
    gated = t.get("connector_apply_gated_attention", False)
    audio = {
        k: t.get(f"audio_connector_{k}", t[f"connector_{k}"])
        for k in ("num_attention_heads", "attention_head_dim", "num_layers")
    }
    return LTX2TextConnectors(
        caption_channels=text_width,
        text_proj_in_factor=text_states,
        video_connector_num_attention_heads=t["connector_num_attention_heads"],
        video_connector_attention_head_dim=t["connector_attention_head_dim"],
        video_connector_num_layers=t["connector_num_layers"],
        video_connector_num_learnable_registers=t["connector_num_learnable_registers"],
        video_gated_attn=gated,
        audio_connector_num_attention_heads=audio["num_attention_heads"],
        audio_connector_attention_head_dim=audio["attention_head_dim"],
        audio_connector_num_layers=audio["num_layers"],
        audio_connector_num_learnable_registers=t["connector_num_learnable_registers"],
        audio_gated_attn=gated,
        connector_rope_base_seq_len=t["connector_positional_embedding_max_pos"][0],
        rope_theta=t["positional_embedding_theta"],
        rope_double_precision=t["frequencies_precision"] == "float64",
        rope_type=t["rope_type"],
        per_modality_projections=per_modality,
        video_hidden_dim=t["num_attention_heads"] * t["attention_head_dim"],
        audio_hidden_dim=t["audio_num_attention_heads"] * t["audio_attention_head_dim"],
        proj_bias=per_modality,
    ).eval()


def video_vae(config: dict) -> AutoencoderKLLTX2Video:
    v = config["vae"]
    down = [(name.removesuffix("_res"), p["multiplier"]) for name, p in v["encoder_blocks"] if name != "res_x"]
    widths, width = [], v["encoder_base_channels"]
    for _, multiplier in down:
        width *= multiplier
        widths.append(width)
    up = [(name, p) for name, p in v["decoder_blocks"] if name != "res_x"]  # lowest resolution last
    decoder_widths, width = [], v["decoder_base_channels"]
    for _, p in up:
        width *= p["multiplier"]
        decoder_widths.append(width)
    padding = v.get("spatial_padding_mode")
    encoder = {
        "block_out_channels": tuple(widths),
        "down_block_types": ("LTX2VideoDownBlock3D",) * len(down),
        "layers_per_block": tuple(p["num_layers"] for name, p in v["encoder_blocks"] if name == "res_x"),
        "spatio_temporal_scaling": (True,) * len(down),
        "downsample_type": tuple(_STRIDE[name] for name, _ in down),
        "patch_size": v["patch_size"],
    }
    vae = AutoencoderKLLTX2Video(
        latent_channels=v["latent_channels"],
        decoder_block_out_channels=tuple(decoder_widths),
        decoder_layers_per_block=tuple(p["num_layers"] for name, p in v["decoder_blocks"] if name == "res_x"),
        decoder_spatio_temporal_scaling=(True,) * len(up),
        decoder_inject_noise=(False,) * (len(up) + 1),
        upsample_type=tuple(_STRIDE[name] for name, _ in reversed(up)),
        upsample_residual=tuple(p.get("residual", False) for _, p in up),
        upsample_factor=tuple(p["multiplier"] for _, p in up),
        decoder_causal=False,
        encoder_spatial_padding_mode=padding or "zeros",
        decoder_spatial_padding_mode=padding or "reflect",
        spatial_compression_ratio=32,
        temporal_compression_ratio=8,
        **encoder,
    )
    if v["encoder_base_channels"] != v["latent_channels"]:  # the class confuses the two
        conv_out = vae.encoder.conv_out
        vae.encoder = LTX2VideoEncoder3d(
            out_channels=v["encoder_base_channels"], spatial_padding_mode=padding or "zeros", **encoder
        )
        vae.encoder.conv_out = conv_out
    return vae.eval()


def audio_vae(config: dict) -> AutoencoderKLLTX2Audio:
    d = config["audio_vae"]["model"]["params"]["ddconfig"]
    vae = AutoencoderKLLTX2Audio(
        base_channels=d["ch"],
        output_channels=d["out_ch"],
        ch_mult=tuple(d["ch_mult"]),
        num_res_blocks=d["num_res_blocks"],
        in_channels=d["in_channels"],
        resolution=d["resolution"],
        latent_channels=d["z_channels"],
        mel_bins=d["mel_bins"],
        double_z=d["double_z"],
    ).eval()
    # The statistics are those of the packed latent; the reference sizes them by `ch`, which only fits the released
    # model.
    packed = d["z_channels"] * d["mel_bins"] // 2 ** (len(d["ch_mult"]) - 1)
    vae.latents_mean, vae.latents_std = torch.zeros(packed), torch.ones(packed)
    return vae


def _generator(g: dict) -> dict:
    snake = g.get("activation") == "snakebeta"
    return dict(
        hidden_channels=g["upsample_initial_channel"],
        upsample_kernel_sizes=g["upsample_kernel_sizes"],
        upsample_factors=g["upsample_rates"],
        resnet_kernel_sizes=g["resblock_kernel_sizes"],
        resnet_dilations=g["resblock_dilation_sizes"],
        act_fn="snakebeta" if snake else "leaky_relu",
        antialias=snake,
        final_act_fn="tanh" if g.get("use_tanh_at_final", True) else "clamp",
        final_bias=g.get("use_bias_at_final", True),
    )


def vocoder(config: dict) -> LTX2Vocoder | LTX2VocoderWithBWE:
    """For 2.3, with Lightricks' clamp of the base waveform, which diffusers omits."""
    v = config["vocoder"]
    if "bwe" not in v:
        return LTX2Vocoder(**_generator(v)).eval()
    b = v["bwe"]
    extension = {f"bwe_{k}": value for k, value in dict(_generator(b), final_act_fn=None).items()}
    return LTX2VocoderWithBWE(
        **_generator(v["vocoder"]),
        **extension,
        filter_length=b["n_fft"],
        hop_length=b["hop_length"],
        window_length=b["win_size"],
        num_mel_channels=b["num_mels"],
        input_sampling_rate=b["input_sampling_rate"],
        output_sampling_rate=b["output_sampling_rate"],
    ).eval()


def gemma(text_config: dict, vision_config: dict) -> Gemma3ForConditionalGeneration:
    config = Gemma3Config(text_config=dict(text_config), vision_config=dict(vision_config), mm_tokens_per_image=4)
    config._attn_implementation = "eager"
    return Gemma3ForConditionalGeneration(config).eval()


def stft_bases(n_fft: int, mel_bins: int, sample_rate: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns (forward basis [2·freqs, 1, n_fft], inverse basis with the same shape, mel basis [mel_bins, freqs]),
    float32.

    The bases are DFT rows (real, then imaginary) times a periodic Hann window; the mel bank has Slaney's scale and area
    norm.
    """
    n = torch.arange(n_fft, dtype=torch.float64)
    freqs = n_fft // 2 + 1
    angle = 2 * math.pi * torch.arange(freqs, dtype=torch.float64)[:, None] * n / n_fft
    window = 0.5 - 0.5 * torch.cos(2 * math.pi * n / n_fft)
    forward = torch.cat([torch.cos(angle), -torch.sin(angle)])[:, None] * window
    inverse = torch.linalg.pinv(torch.cat([torch.cos(angle), -torch.sin(angle)])).T[:, None] * window

    def hz_to_mel(f):
        f = torch.as_tensor(f, dtype=torch.float64)
        return torch.where(f < 1000, f * 3 / 200, 15 + 27 * torch.log(f.clamp(min=1000) / 1000) / math.log(6.4))

    def mel_to_hz(m):
        return torch.where(m < 15, m * 200 / 3, 1000 * torch.exp((m - 15) * math.log(6.4) / 27))

    edges = mel_to_hz(torch.linspace(0, float(hz_to_mel(sample_rate / 2)), mel_bins + 2, dtype=torch.float64))
    grid = torch.linspace(0, sample_rate / 2, freqs, dtype=torch.float64)
    up = (grid - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - grid) / (edges[2:] - edges[1:-1])[:, None]
    mel = torch.minimum(up, down).clamp(min=0) * (2 / (edges[2:] - edges[:-2]))[:, None]
    return forward.float(), inverse.float(), mel.float()
