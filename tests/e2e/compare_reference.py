#!/usr/bin/env python3
"""Renders prompts with the demo model in the engine and in diffusers, from the same noise and sigmas, and compares.

    python tests/e2e/compare_reference.py [--build build/release] [--prompts 3] [--threshold 60]

Both compute in float32 from the published bfloat16 files. Needs torch, diffusers 0.42.1, transformers, sentencepiece.
Prints, for each prompt, the PSNR of picture and sound, both against full scale.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.ltx2.pipeline_ltx2 import LTX2Pipeline
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "train_demo"))
import flow  # noqa: E402
import model  # noqa: E402
import published  # noqa: E402
import text  # noqa: E402
import training  # noqa: E402
from world import grammar, scene  # noqa: E402

STEPS = 12


def pipeline() -> LTX2Pipeline:
    nowhere = Path("/nonexistent")  # no work folder: uses the published files
    encoder = text.trained(nowhere, "cpu")
    denoiser = training.load_averaged(nowhere, "transformer", flow.Denoiser())
    pipe = LTX2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=False, shift_terminal=None),
        vae=training.load_averaged(nowhere, "video_vae", model.video_vae()),
        audio_vae=training.load_averaged(nowhere, "audio_vae", model.audio_vae()),
        text_encoder=encoder.gemma,
        tokenizer=encoder.tokenizer,
        connectors=denoiser.connectors,
        transformer=denoiser.transformer,
        vocoder=training.load_averaged(nowhere, "vocoder", model.vocoder()),
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def noise(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns noise as the reference's pipeline draws it: one generator, video first."""
    generator = torch.Generator().manual_seed(seed)
    cells = model.SIDE // 32
    video = torch.randn(1, model.LATENT_CHANNELS, (model.FRAMES - 1) // 8 + 1, cells, cells, generator=generator)
    return video, torch.randn(1, 8, flow.audio_tokens(model.FRAMES), 16, generator=generator)


def in_diffusers(pipe: LTX2Pipeline, prompt: str, seed: int, sigmas: list[float]):
    """Returns frames [F, H, W, 3] and waveform [2, samples]."""
    guidance = {"guidance_scale": model.GUIDANCE, "stg_scale": 0.0, "modality_scale": 1.0, "guidance_rescale": 0.0}
    frames, sound = pipe(
        prompt=prompt,
        negative_prompt=model.NEGATIVE_PROMPT,
        width=model.SIDE,
        height=model.SIDE,
        num_frames=model.FRAMES,
        frame_rate=float(model.FPS),
        sigmas=sigmas[:-1],
        num_inference_steps=len(sigmas) - 1,
        generator=torch.Generator().manual_seed(seed),
        max_sequence_length=model.TEXT_ROWS,
        output_type="np",
        return_dict=False,
        **guidance,
        **{f"audio_{key}": value for key, value in guidance.items()},
    )
    return torch.from_numpy(frames[0]), sound[0]


def in_engine(build: Path, folder: Path, prompt: str, seed: int, sigmas: list[float]):
    video, audio = noise(seed)
    save_file({"video_noise": video, "audio_noise": audio}, folder / "noise.safetensors")
    command = [
        build / "bin" / "kinora-render",
        f"--model={published.FILE}",
        f"--model=text_encoder={model.FOLDER / 'gemma'}",
        f"--prompt={prompt}",
        f"--sigmas={','.join(map(repr, sigmas))}",
        f"--video-guidance={json.dumps({'cfgScale': model.GUIDANCE})}",
        f"--audio-guidance={json.dumps({'cfgScale': model.GUIDANCE})}",
        f"--noise={folder / 'noise.safetensors'}",
        f"--dump={folder / 'dump.safetensors'}",
        f"--output={folder / 'out.mp4'}",
        "--precision=f32",
        "--quiet",
    ]
    subprocess.run(command, check=True)
    found = load_file(folder / "dump.safetensors")
    return found["frames"].float(), found["waveform"].float()


def psnr(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Returns dB, against full scale."""
    return float(-10 * torch.log10((ours.reshape(theirs.shape) - theirs).square().mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threshold", type=float, default=60.0, help="dB that picture and sound must reach")
    args = parser.parse_args()
    rng, pipe, enough = random.Random(args.seed), pipeline(), True
    sigmas = flow.schedule(STEPS)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(args.prompts):
            prompt = grammar.describe(scene.sample(rng, "held_out"), rng).prompt
            seed = args.seed * 1000 + i
            frames, sound = in_diffusers(pipe, prompt, seed, sigmas)
            ours, heard = in_engine(args.build, Path(folder), prompt, seed, sigmas)
            picture = psnr(ours, frames)
            waves = psnr(heard, sound)
            enough = enough and picture >= args.threshold and waves >= args.threshold  # false for NaN too
            print(f"picture {picture:.1f} dB, sound {waves:.1f} dB: {prompt}", flush=True)
    if not enough:
        raise SystemExit(f"less than {args.threshold} dB")


if __name__ == "__main__":
    main()
