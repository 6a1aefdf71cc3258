"""Weights that no file holds: drawn from a seed, bit for bit the same here and in tests/testing/drawn_checkpoint.cc.

One generator, seeded once, draws all tensors in the order of their full single-file names. For each, u = torch.rand of
its shape (float32: the low 24 bits of a draw of mt19937), and the value is centre + width · (2u - 1) in float32,
rounded to bfloat16, where

    ….*_norm.weight and other ….weight of one dimension
                      centre 1, width 1/4
    other ….weight    centre 0, width sqrt(3 / inputs): variance 1 / inputs
    all others        centre 0, width 7/8: biases, tables, registers, with variance 1/4
"""

import math

import numpy
import torch

from golden import layouts


def _centre_and_width(name: str, shape: torch.Size) -> tuple[float, float]:
    if name.endswith("_norm.weight") or (name.endswith(".weight") and len(shape) == 1):
        return 1.0, 0.25
    if name.endswith(".weight"):
        return 0.0, math.sqrt(3 / shape[1])
    return 0.0, 0.875


def draw(modules: dict[str, torch.nn.Module], seed: int, base: str) -> dict:
    """Draws every tensor of `modules` (keys of layouts.PREFIX) in place. Returns the data needed to draw them again.

    `base` is the path in the repository of a single file that holds all other components of the model.
    """
    tensors = {}
    for kind, module in modules.items():
        state = layouts.single_file_names(kind, module.state_dict())
        tensors |= {layouts.PREFIX[kind] + name: tensor for name, tensor in state.items()}
    return draw_tensors(tensors, seed, base)


def draw_tensors(tensors: dict[str, torch.Tensor], seed: int, base: str) -> dict:
    """Like draw, for tensors under their full single-file names."""
    generator, position, checksum = torch.Generator().manual_seed(seed), 0, 0
    for name, tensor in sorted(tensors.items()):
        centre, width = _centre_and_width(name, tensor.shape)
        uniform = 2 * torch.rand(tensor.shape, generator=generator) - 1
        value = (centre + torch.tensor(width, dtype=torch.float32) * uniform).bfloat16()
        bits = value.view(torch.int16).numpy().view(numpy.uint16).reshape(-1).astype(numpy.uint64)
        places = numpy.arange(position, position + bits.size, dtype=numpy.uint64)
        checksum += int((bits * (places % numpy.uint64(1021) + numpy.uint64(1))).sum())
        position += bits.size
        tensor.copy_(value.float())
    shapes = {name: list(tensor.shape) for name, tensor in sorted(tensors.items())}
    return {"seed": seed, "base": base, "checksum": str(checksum), "tensors": shapes}
