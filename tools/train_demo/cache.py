"""What one stage needs of another's network, for many clips: made once, in pieces that survive a stop."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

SAVE_EVERY = 60  # seconds


def _mark(makers: list[torch.nn.Module]) -> str:
    digest = hashlib.sha256()
    for maker in makers:
        for value in maker.state_dict().values():
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


@torch.no_grad()
def pieces(
    file: Path, makers: list[torch.nn.Module], count: int, make: Callable[[int], dict[str, torch.Tensor]]
) -> dict[str, torch.Tensor]:
    """make(0) to make(count - 1), joined, bfloat16. A file that other makers left is begun anew."""
    mark = _mark(makers)
    state: dict = torch.load(file, weights_only=True) if file.exists() else {}
    if state.get("mark") != mark:
        state = {"mark": mark, "pieces": []}
    made, saved = state["pieces"], time.monotonic()
    while len(made) < count:
        made.append({name: value.bfloat16().cpu() for name, value in make(len(made)).items()})
        if len(made) == count or time.monotonic() - saved > SAVE_EVERY:
            temporary = file.with_suffix(".part")
            torch.save(state, temporary)
            os.replace(temporary, file)
            saved = time.monotonic()
            print(f"{file.name}: {len(made)} of {count} pieces", flush=True)
    return {name: torch.cat([piece[name] for piece in made[:count]]) for name in made[0]}
