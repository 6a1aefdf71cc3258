"""Trained parts in bfloat16 under their single-file names: what is committed while the model is not whole yet.

A stage that needs an earlier one takes its weights from the work folder, or else from here.
"""

from pathlib import Path

import torch
from safetensors import safe_open

import model  # noqa: F401  (it finds golden)
from golden import layouts, safetensors_file

FILE = Path(__file__).resolve().parent / "snapshot.safetensors"


def names_in_file(part: str, module: torch.nn.Module) -> dict[str, str]:
    """{name in the file: name in the module}, without what the published files leave out."""
    names = layouts.single_file_names(part, {key: key for key in module.state_dict()})
    return {layouts.PREFIX[part] + name: key for name, key in names.items()}


def save(parts: dict[str, torch.nn.Module], file: Path = FILE) -> None:
    tensors = {}
    for part, module in parts.items():
        state = module.state_dict()
        tensors |= {name: state[key].bfloat16() for name, key in names_in_file(part, module).items()}
    safetensors_file.save(tensors, file, {"parts": ",".join(parts)})


def load(part: str, module: torch.nn.Module, file: Path = FILE) -> bool:
    """False if the file does not hold the part."""
    if not file.exists():
        return False
    with safe_open(file, "pt") as f:
        if part not in f.metadata()["parts"].split(","):
            return False
        names = names_in_file(part, module)
        module.load_state_dict({key: f.get_tensor(name).float() for name, key in names.items()})
    return True
