"""The trained parts as they are published in models/demo: where a stage finds an earlier one that its work folder lacks."""

from collections.abc import Iterable

import torch
from safetensors import safe_open
from safetensors.torch import load_file

import model
from golden import layouts

FILE = model.FOLDER / "ltx-2.3-demo-dev.safetensors"
UPSAMPLER_FILE = model.FOLDER / "ltx-2.3-demo-spatial-upscaler-x2.safetensors"
LORA_FILE = model.FOLDER / "ltx-2.3-demo-distilled-lora.safetensors"


def names_in_file(part: str, keys: Iterable[str]) -> dict[str, str]:
    """{name in the file: name in the module's state}, without what the published files leave out."""
    names = layouts.single_file_names(part, {key: key for key in keys})
    return {layouts.PREFIX[part] + name: key for name, key in names.items()}


def lora_name(name_in_file: str, factor: str) -> str:
    """Of the factor ("A", "B") that the LoRA's file has for a weight of the single file."""
    return f"{name_in_file.removeprefix('model.').removesuffix('.weight')}.lora_{factor}.weight"


@torch.no_grad()
def fuse_lora(transformer: torch.nn.Module) -> None:
    """Adds B·A of the distilled LoRA to every weight that it has factors of, on the CPU."""
    state = transformer.state_dict()
    with safe_open(LORA_FILE, "pt") as f:
        left = set(f.keys())
        for name, key in names_in_file("transformer", state).items():
            a, b = (lora_name(name, factor) for factor in "AB")
            if a in left:
                state[key] += f.get_tensor(b).float() @ f.get_tensor(a).float()
                left -= {a, b}
    if left:
        raise ValueError(f"{LORA_FILE}: {min(left)} belongs to no weight of the transformer")


def load(stage: str, module: torch.nn.Module) -> bool:
    """The weights that `stage` left, in `module`. False if they are not there."""
    if stage == "upsampler" and UPSAMPLER_FILE.exists():
        module.load_state_dict({key: value.float() for key, value in load_file(UPSAMPLER_FILE).items()})
        return True
    if not FILE.exists() or stage not in layouts.PREFIX:
        return False
    parts = {stage: module}
    if stage == "transformer":
        parts = {"transformer": module.transformer, "connectors": module.connectors}
    with safe_open(FILE, "pt") as f:
        for part, weights in parts.items():
            names = names_in_file(part, weights.state_dict())
            weights.load_state_dict({key: f.get_tensor(name).float() for name, key in names.items()})
    return True
