"""The trained parts as they are published in models/demo: where a stage finds an earlier one that its work folder lacks."""

import torch
from safetensors import safe_open

import model
from golden import layouts

FILE = model.FOLDER / "ltx-2.3-demo-dev.safetensors"


def names_in_file(part: str, module: torch.nn.Module) -> dict[str, str]:
    """{name in the file: name in the module}, without what the published files leave out."""
    names = layouts.single_file_names(part, {key: key for key in module.state_dict()})
    return {layouts.PREFIX[part] + name: key for name, key in names.items()}


def load(stage: str, module: torch.nn.Module) -> bool:
    """The weights that `stage` left in the single file, in `module`. False if they are not there."""
    if not FILE.exists() or stage not in layouts.PREFIX:
        return False
    parts = {stage: module}
    if stage == "transformer":
        parts = {"transformer": module.transformer, "connectors": module.connectors}
    with safe_open(FILE, "pt") as f:
        for part, weights in parts.items():
            names = names_in_file(part, weights)
            weights.load_state_dict({key: f.get_tensor(name).float() for name, key in names.items()})
    return True
