"""Writes the trained parts as users get them: Lightricks' single file, and the text encoder's folder, all bfloat16."""

import json
import shutil
from pathlib import Path

import torch

import flow
import model
import training
from golden import configs, layouts, safetensors_file, tiny
from stages.text_encoder import Student

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
    """The trained components of the single file."""
    denoiser = training.load_averaged(work, "transformer", flow.Denoiser())
    return {
        "transformer": denoiser.transformer,
        "connectors": denoiser.connectors,
        "video_vae": training.load_averaged(work, "video_vae", model.video_vae()),
        "audio_vae": training.load_averaged(work, "audio_vae", model.audio_vae()),
        "vocoder": training.load_averaged(work, "vocoder", model.vocoder()),
    }


def write(work: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    metadata = {"config": json.dumps(model.config()), "model_version": configs.ltx_2_3()["model_version"]}
    safetensors_file.save(tiny.single_file(parts(work)), output / MODEL_FILE, metadata)
    folder = output / "gemma"
    folder.mkdir(exist_ok=True)
    student = training.load_averaged(work, "text_encoder", Student())
    state = layouts.single_file_names("gemma", student.gemma.state_dict())
    safetensors_file.save({k: v.bfloat16() for k, v in state.items()}, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(gemma_config(), indent=2) + "\n")
    for name in ("tokenizer.model", "tokenizer_config.json"):
        shutil.copyfile(work / "gemma" / name, folder / name)


def train(options: training.Options) -> None:
    """Trains nothing: writes models/demo, or `--work`'s files into it."""
    output = Path(__file__).resolve().parents[3] / "models" / "demo"
    write(options.work, output)
    size = sum(f.stat().st_size for f in output.rglob("*") if f.is_file())
    print(f"{output}: {size} bytes")
    if size > LARGEST:
        raise SystemExit(f"larger than {LARGEST} bytes")
