"""Writes the trained parts as users get them: Lightricks' single file, the text encoder's folder, the upsampler and the
distilled LoRA, all bfloat16; and a plot of every stage's losses.
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch

import flow
import model
import plot
import published
import text
import training
from golden import configs, safetensors_file, tiny
from stages import distil

LARGEST = 24_000_000  # bytes, of everything


def parts(work: Path) -> dict[str, torch.nn.Module]:
    """The components of the single file."""
    builders = {"video_vae": model.video_vae, "audio_vae": model.audio_vae, "vocoder": model.vocoder}
    denoiser = training.load_averaged(work, "transformer", flow.Denoiser())
    found = {"transformer": denoiser.transformer, "connectors": denoiser.connectors}
    return found | {name: training.load_averaged(work, name, build()) for name, build in builders.items()}


def write_text_encoder(work: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    encoder = text.trained(work, "cpu")
    state = encoder.gemma.state_dict()
    tensors = {name: state[key].bfloat16() for name, key in published.names_in_file("gemma", state).items()}
    safetensors_file.save(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(configs.gemma_file(model.GEMMA, tiny.VISION), indent=2) + "\n")
    for name in ("tokenizer.model", "tokenizer_config.json"):
        shutil.copyfile(encoder.folder / name, folder / name)


def write_upsampler(work: Path, file: Path) -> None:
    module = training.load_averaged(work, "upsampler", model.upsampler())
    tensors = {name: value.bfloat16() for name, value in module.state_dict().items()}
    safetensors_file.save(tensors, file, {"config": json.dumps(model.UPSAMPLER)})


def write_lora(work: Path, file: Path) -> None:
    """`diffusion_model.<module of the single file>.lora_A.weight` and `.lora_B.weight`; fused as W + B·A."""
    student = training.load_averaged(work, "distil", distil.adapt(flow.Denoiser()))
    base = training.load_averaged(work, "transformer", flow.Denoiser()).transformer.proj_out.weight
    if not torch.equal(student.transformer.proj_out.parametrizations.weight.original, base):
        raise SystemExit("distil.pt is of another transformer: run the stage distil again")
    layers = {
        name.removesuffix(".parametrizations.weight.0") + ".weight": layer
        for name, layer in student.transformer.named_modules()
        if isinstance(layer, distil.LowRank)
    }
    tensors = {}
    for name, key in published.names_in_file("transformer", layers).items():
        a, b = (published.lora_name(name, factor) for factor in "AB")
        tensors |= {a: layers[key].a.bfloat16(), b: layers[key].b.bfloat16()}
    safetensors_file.save(tensors, file, {"format": "pt"})


def write(work: Path, output: Path) -> None:
    """Replaces the files under `output` only when all are written and small enough."""
    with tempfile.TemporaryDirectory(dir=output.parent) as temporary:
        folder = Path(temporary) / output.name
        write_text_encoder(work, folder / "gemma")
        safetensors_file.save(tiny.single_file(parts(work)), folder / published.FILE.name, model.metadata())
        write_upsampler(work, folder / published.UPSAMPLER_FILE.name)
        if (work / "transformer.pt").exists():
            write_lora(work, folder / published.LORA_FILE.name)
        else:  # that of the published transformer
            shutil.copyfile(published.LORA_FILE, folder / published.LORA_FILE.name)
        shutil.copyfile(output / "README.md", folder / "README.md")
        size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
        print(f"{size} bytes")
        if size > LARGEST:
            raise SystemExit(f"larger than {LARGEST} bytes")
        shutil.rmtree(output)
        shutil.copytree(folder, output)


def write_plots(work: Path, folder: Path) -> None:
    """A picture of every stage's recorded numbers, of those that were trained in this work folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in work.glob("*.json"):
        (folder / f"{file.stem}.svg").write_text(plot.losses(json.loads(file.read_text())))


def train(options: training.Options) -> None:
    """Trains nothing: writes models/demo and the plots from the work folder."""
    write(options.work, model.FOLDER)
    write_plots(options.work, model.FOLDER.parents[1] / "docs" / "training")
