"""models/tiny: the modules of the committed random-weight LTX-2.3, rebuilt from their seeds."""

from pathlib import Path

import torch

from golden import configs, layouts, redraw, reference

SEED = 20260101
FILE = "ltx-2.3-tiny-dev.safetensors"
FOLDER = Path(__file__).resolve().parents[3] / "models" / "tiny"
VISION = {
    "hidden_size": 16,
    "image_size": 28,
    "intermediate_size": 16,
    "model_type": "siglip_vision_model",
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "patch_size": 14,
    "vision_use_head": False,
}


def modules(config: dict, seed: int = SEED) -> dict[str, torch.nn.Module]:
    """Returns the five components of the single file with redrawn weights."""
    text = configs.GEMMA
    decoder = {"decoder.conv_out.conv.weight": 0.3}
    return {
        "transformer": redraw.redraw(reference.transformer(config), seed),
        "connectors": redraw.redraw(
            reference.connectors(config, text["num_hidden_layers"] + 1, text["hidden_size"]), seed + 1
        ),
        "video_vae": redraw.redraw(reference.video_vae(config), seed + 2, gain=1.3, gains=decoder),
        "audio_vae": redraw.redraw(reference.audio_vae(config), seed + 3, gain=1.3),
        "vocoder": redraw.redraw_vocoder(reference.vocoder(config), config, seed + 4),
    }


def single_file(parts: dict[str, torch.nn.Module]) -> dict[str, torch.Tensor]:
    """Returns the file's tensors, given the result of modules()."""
    tensors = {}
    for name, module in parts.items():
        state = layouts.single_file_names(name, module.state_dict())
        tensors |= {layouts.PREFIX[name] + key: value.bfloat16() for key, value in state.items()}
    stats = "vae.per_channel_statistics."  # statistics that the published files contain and nothing reads
    std = tensors[stats + "std-of-means"]
    tensors[stats + "mean-of-stds"] = std * 0.1
    tensors[stats + "mean-of-stds_over_std-of-means"] = torch.full_like(std, 0.1)
    tensors[stats + "channel"] = torch.arange(std.numel()).bfloat16()
    return tensors


def gemma() -> torch.nn.Module:
    return redraw.redraw(reference.gemma(configs.GEMMA, VISION), SEED + 5)
