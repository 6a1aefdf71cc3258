"""The demo model: its architecture as the `config` metadata of Lightricks' single files, and the reference modules.

A small LTX-2.3 with every feature of the released one. Widths are chosen for 24 MB in bfloat16 and training on two cores.
"""

import copy
import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "golden"))
from golden import configs, reference  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "models" / "demo"  # where it is published
SIDE, FRAMES, FPS = 128, 25, 24
SIDES = (SIDE, SIDE // 2)  # that the transformer is trained on; the second for the first stage of two
TEXT_ROWS = 64  # tokens of a prompt, a multiple of the registers
AUDIO_CHANNELS = 128  # of a packed row of audio latents, 8 x 16
LATENT_CHANNELS = 64  # also the encoder's first width: the reference module ties the two

GUIDANCE = 4.0
NEGATIVE_PROMPT = (
    "blurry, low quality, noisy, distorted shapes, wrong colours, flickering, jittery motion, static hum, crackling sound"
)

GEMMA = configs.GEMMA | {
    "head_dim": 32,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "query_pre_attn_scalar": 32,
}

_TRANSFORMER = {
    "in_channels": LATENT_CHANNELS,
    "out_channels": LATENT_CHANNELS,
    "num_layers": 5,
    "num_attention_heads": 4,
    "attention_head_dim": 40,
    "cross_attention_dim": 160,
    "audio_num_attention_heads": 4,
    "audio_attention_head_dim": 24,
    "audio_cross_attention_dim": 96,
    "caption_channels": GEMMA["hidden_size"],
    "connector_num_attention_heads": 4,
    "connector_attention_head_dim": 40,
    "connector_num_layers": 1,
    "connector_num_learnable_registers": TEXT_ROWS,
    "audio_connector_num_attention_heads": 4,
    "audio_connector_attention_head_dim": 24,
    "audio_connector_num_layers": 1,
}

_VAE = {
    "latent_channels": LATENT_CHANNELS,
    "encoder_base_channels": LATENT_CHANNELS,
    "decoder_base_channels": 32,
    "encoder_blocks": [
        ["res_x", {"num_layers": 0}],
        ["compress_space_res", {"multiplier": 1}],
        ["res_x", {"num_layers": 1}],
        ["compress_time_res", {"multiplier": 1}],
        ["res_x", {"num_layers": 1}],
        ["compress_all_res", {"multiplier": 1}],
        ["res_x", {"num_layers": 1}],
        ["compress_all_res", {"multiplier": 2}],
        ["res_x", {"num_layers": 1}],
    ],
    "decoder_blocks": [
        ["res_x", {"num_layers": 1}],
        ["compress_space", {"multiplier": 1}],
        ["res_x", {"num_layers": 2}],
        ["compress_time", {"multiplier": 1}],
        ["res_x", {"num_layers": 2}],
        ["compress_all", {"multiplier": 1}],
        ["res_x", {"num_layers": 2}],
        ["compress_all", {"multiplier": 2}],
        ["res_x", {"num_layers": 2}],
    ],
}

_AUDIO_VAE = {"ch": 16, "ch_mult": [1, 2, 4], "num_res_blocks": 1}

_VOCODER = {
    "upsample_initial_channel": 128,
    "upsample_rates": [5, 8, 4],
    "upsample_kernel_sizes": [11, 16, 8],
    "resblock_kernel_sizes": [7],
    "resblock_dilation_sizes": [[1, 3]],
}

# A hop of 10 ms as the base generator's: with the released 5 ms the extension could follow multiples of 200 Hz only. Windows
# of half the released length: the file holds their Fourier bases, 0.8 MB less, and a tone is heard as well through them.
_EXTENSION = {
    "upsample_initial_channel": 64,
    "upsample_rates": [6, 10, 8],
    "upsample_kernel_sizes": [12, 20, 16],
    "resblock_kernel_sizes": [7],
    "resblock_dilation_sizes": [[1]],
    "hop_length": 160,
    "n_fft": 256,
    "win_size": 256,
}


def config() -> dict:
    """The `config` of the single file's metadata."""
    whole = copy.deepcopy(configs.ltx_2_3()["config"])
    whole["transformer"] |= _TRANSFORMER
    whole["vae"] |= _VAE
    whole["audio_vae"]["model"]["params"]["ddconfig"] |= _AUDIO_VAE
    whole["vocoder"]["vocoder"] |= _VOCODER
    whole["vocoder"]["bwe"] |= _EXTENSION
    whole["generation"] = {
        "width": SIDE,
        "height": SIDE,
        "num_frames": FRAMES,
        "trained_shapes": [[side, side, FRAMES] for side in SIDES],
        "frame_rate": FPS,
        "num_inference_steps": 30,
        "negative_prompt": NEGATIVE_PROMPT,
        "guidance_scale": GUIDANCE,
        "stg_scale": 0.0,
        "modality_scale": 1.0,
        "guidance_rescale": 0.0,
        "audio_guidance_scale": GUIDANCE,
        "audio_stg_scale": 0.0,
        "audio_modality_scale": 1.0,
        "audio_guidance_rescale": 0.0,
    }
    return whole


def metadata() -> dict[str, str]:
    """Of the single file."""
    return {"config": json.dumps(config()), "model_version": configs.ltx_2_3()["model_version"]}


def video_vae() -> torch.nn.Module:
    return reference.video_vae(config())


def audio_vae() -> torch.nn.Module:
    return reference.audio_vae(config())


def vocoder() -> torch.nn.Module:
    """With the bandwidth extension's Fourier and mel bases in place, rounded as the file holds them."""
    whole = config()
    module = reference.vocoder(whole)
    extension = whole["vocoder"]["bwe"]
    bases = reference.stft_bases(extension["n_fft"], extension["num_mels"], extension["input_sampling_rate"])
    stft = module.mel_stft
    for buffer, basis in zip((stft.stft_fn.forward_basis, stft.stft_fn.inverse_basis, stft.mel_basis), bases):
        buffer.copy_(basis.bfloat16().float())
    return module


def transformer() -> torch.nn.Module:
    return reference.transformer(config())


def connectors() -> torch.nn.Module:
    return reference.connectors(config(), GEMMA["num_hidden_layers"] + 1, GEMMA["hidden_size"])


UPSAMPLER = {  # the metadata's `config` of the upsampler's file
    "_class_name": "LatentUpsampler",
    "in_channels": LATENT_CHANNELS,
    "mid_channels": 64,  # its norms have 32 groups: with one channel each, a frame's brightness would be lost
    "num_blocks_per_stage": 1,
    "dims": 2,
    "spatial_upsample": True,
    "temporal_upsample": False,
    "spatial_scale": 2.0,
    "rational_resampler": False,
}


def upsampler() -> torch.nn.Module:
    """Twice the height and width of a latent, frame by frame."""
    from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel

    return LTX2LatentUpsamplerModel(
        in_channels=UPSAMPLER["in_channels"],
        mid_channels=UPSAMPLER["mid_channels"],
        num_blocks_per_stage=UPSAMPLER["num_blocks_per_stage"],
        dims=UPSAMPLER["dims"],
        spatial_upsample=UPSAMPLER["spatial_upsample"],
        temporal_upsample=UPSAMPLER["temporal_upsample"],
        use_rational_resampler=UPSAMPLER["rational_resampler"],
    )
