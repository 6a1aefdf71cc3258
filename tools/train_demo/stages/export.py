"""Writes the trained parts as users get them: Lightricks' single file, and the text encoder's folder, all bfloat16.

While there is no transformer yet, the other parts go to the snapshot beside these tools.
"""

import json
import shutil
from pathlib import Path

import torch

import flow
import model
import snapshot
import text
import training
from golden import configs, safetensors_file, tiny

MODEL_FILE = "ltx-2.3-demo-dev.safetensors"
LARGEST = 24_000_000  # bytes, of everything


def gemma_config() -> dict:
    """config.json as Google publishes Gemma-3's."""
    return {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "boi_token_index": 6,
        "eoi_token_index": 7,
        "eos_token_id": [1, 106],
        "image_token_index": 8,
        "initializer_range": 0.02,
        "mm_tokens_per_image": 4,
        "model_type": "gemma3",
        "text_config": model.GEMMA,
        "torch_dtype": "bfloat16",
        "vision_config": tiny.VISION,
    }


def parts(work: Path) -> dict[str, torch.nn.Module]:
    """The trained components of the single file, as far as there are any."""
    builders = {
        "transformer": flow.Denoiser,
        "video_vae": model.video_vae,
        "audio_vae": model.audio_vae,
        "vocoder": model.vocoder,
    }
    found = {}
    for name, build in builders.items():
        module = build()
        if (work / f"{name}.pt").exists():
            found[name] = training.load_averaged(work, name, module)
        elif snapshot.load(name, module):
            found[name] = module
    if "transformer" in found:
        denoiser = found.pop("transformer")
        found |= {"transformer": denoiser.transformer, "connectors": denoiser.connectors}
    return found


def write_text_encoder(work: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    encoder = text.trained(work, "cpu")
    state = encoder.gemma.state_dict()
    tensors = {name: state[key].bfloat16() for name, key in snapshot.names_in_file("gemma", encoder.gemma).items()}
    safetensors_file.save(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(gemma_config(), indent=2) + "\n")
    for name in ("tokenizer.model", "tokenizer_config.json"):
        if encoder.folder != folder:
            shutil.copyfile(encoder.folder / name, folder / name)


def write(work: Path, output: Path) -> None:
    write_text_encoder(work, output / "gemma")
    found = parts(work)
    if "transformer" not in found:
        snapshot.save(found)
        print(f"no trained transformer yet: {', '.join(found)} written to {snapshot.FILE}")
        return
    metadata = {"config": json.dumps(model.config()), "model_version": configs.ltx_2_3()["model_version"]}
    safetensors_file.save(tiny.single_file(found), output / MODEL_FILE, metadata)
    size = sum(f.stat().st_size for f in output.rglob("*") if f.is_file())
    print(f"{output}: {size} bytes")
    if size > LARGEST:
        raise SystemExit(f"larger than {LARGEST} bytes")


def train(options: training.Options) -> None:
    """Trains nothing: writes models/demo from the work folder."""
    write(options.work, model.FOLDER)
