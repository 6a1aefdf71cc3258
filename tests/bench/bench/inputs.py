"""Random inputs of a model part for model_bench and matmul_bench, with the names of tests/bench/model_parts.h."""

import array
import json
import random
import struct
from pathlib import Path

from bench import programs

_FPS, _AUDIO_LATENTS = 24.0, 25.0  # per second


def config(model: Path) -> dict:
    """Returns the configuration in a single file's metadata."""
    with model.open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return json.loads(header["__metadata__"]["config"])


def write(part: str, shape: tuple[int, ...], model: dict, path: Path) -> None:
    """`shape` is that of programs.cases; `model` is the configuration."""
    tensors = {"transformer": _transformer, "gemma": _gemma}.get(part, _video)(part, shape, model)
    header, offset = {}, 0
    for name, (dims, values) in tensors.items():
        size = len(values) * values.itemsize
        dtype = "F32" if values.typecode == "f" else "I64"
        header[name] = {"dtype": dtype, "shape": dims, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            values.tofile(file)


def _normal(draw: random.Random, *dims: int) -> tuple[list[int], array.array]:
    count = 1
    for dim in dims:
        count *= dim
    return list(dims), array.array("f", (draw.gauss(0, 1) for _ in range(count)))


def _transformer(_part: str, shape: tuple[int, ...], model: dict) -> dict:
    frames, height, width = shape
    t, draw = model["transformer"], random.Random(5)
    audio = round((8 * (frames - 1) + 1) / _FPS * _AUDIO_LATENTS)
    cells = [(f, y, x) for f in range(frames) for y in range(height) for x in range(width)]
    seconds = [(max(0, 8 * f - 7) + 8 * f + 1) / 2 / _FPS for f, _, _ in cells]  # the first covers one frame
    heard = [(max(0, 4 * i - 3) + 4 * i + 1) / 2 / 4 / _AUDIO_LATENTS for i in range(audio)]  # four mel rows each
    rows, columns = ([32 * (cell[axis] + 0.5) for cell in cells] for axis in (1, 2))
    return {
        "video": _normal(draw, len(cells), t["in_channels"]),
        "audio": _normal(draw, audio, t["audio_in_channels"]),
        "video_context": _normal(draw, programs.TEXT_ROWS, t["cross_attention_dim"]),
        "audio_context": _normal(draw, programs.TEXT_ROWS, t["audio_cross_attention_dim"]),
        "sigma": ([1], array.array("f", [0.725])),
        "video_positions": ([3, len(cells)], array.array("f", seconds + rows + columns)),
        "audio_positions": ([1, audio], array.array("f", heard)),
    }


def _video(part: str, shape: tuple[int, ...], model: dict) -> dict:
    frames, height, width = shape
    draw = random.Random(6)
    if part == "video_encoder":
        dims = [8 * (frames - 1) + 1, 32 * height, 32 * width, 3]
        count = dims[0] * dims[1] * dims[2] * dims[3]
        return {"pixels": (dims, array.array("f", (2 * draw.random() - 1 for _ in range(count))))}
    return {"latent": _normal(draw, frames, height, width, model["vae"]["latent_channels"])}


def _gemma(_part: str, shape: tuple[int, ...], _model: dict) -> dict:
    draw = random.Random(7)
    return {"input_ids": (list(shape), array.array("q", (draw.randrange(8, 1000) for _ in range(shape[0] * shape[1]))))}
