"""Writes safetensors files whose bytes depend only on their contents (the usual writer orders metadata randomly)."""

import json
from pathlib import Path

import torch

_NAMES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def _header_bytes(header: dict) -> bytes:
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def save(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
    header, offset = {"__metadata__": dict(sorted(metadata.items()))}, 0
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))  # keeps every tensor aligned
    for name, tensor in ordered:
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    with open(path, "wb") as f:
        f.write(_header_bytes(header))
        for _, tensor in ordered:
            f.write(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def replace_metadata(path: Path, metadata: dict[str, str]) -> None:
    """Replaces the metadata of a file written by save(). The bytes of its tensors do not change."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin]) | {"__metadata__": dict(sorted(metadata.items()))}
    part = path.with_name(path.name + ".part")
    part.write_bytes(_header_bytes(header) + content[begin:])
    part.replace(path)
