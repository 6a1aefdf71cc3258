"""The demo model: its architecture as the `config` metadata of Lightricks' single files, and the reference modules.

A small LTX-2.3 with every feature of the released one. Widths are chosen for 24 MB in bfloat16 and training on two cores.
"""

import copy
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "golden"))
from golden import configs, reference  # noqa: E402

SIDE, FRAMES, FPS = 128, 25, 24
TEXT_ROWS = 128  # tokens of a prompt, a multiple of the registers
LATENT_CHANNELS = 32  # also the encoder's first width: the reference module ties the two

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
    "attention_head_dim": 48,
    "cross_attention_dim": 192,
    "audio_num_attention_heads": 4,
    "audio_attention_head_dim": 24,
    "audio_cross_attention_dim": 96,
    "caption_channels": GEMMA["hidden_size"],
    "connector_num_attention_heads": 4,
    "connector_attention_head_dim": 48,
    "connector_num_layers": 1,
    "connector_num_learnable_registers": 128,
    "audio_connector_num_attention_heads": 4,
    "audio_connector_attention_head_dim": 24,
    "audio_connector_num_layers": 1,
}

_VAE = {
    "latent_channels": LATENT_CHANNELS,
    "encoder_base_channels": LATENT_CHANNELS,
    "decoder_base_channels": 32,
    "encoder_blocks": [
        ["res_x", {"num_layers": 1}],
        ["compress_space_res", {"multiplier": 2}],
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


def config() -> dict:
    """The `config` of the single file's metadata."""
    whole = copy.deepcopy(configs.ltx_2_3()["config"])
    whole["transformer"] |= _TRANSFORMER
    whole["vae"] |= _VAE
    return whole


def video_vae() -> torch.nn.Module:
    return reference.video_vae(config())
