#!/usr/bin/env python3
"""Renders the demo model's other two recipes with the reference's modules (diffusers) and the published files.

    python tests/e2e/reference_recipes.py [--prompts 100] [--seed 1] [--keep clips.npz]

Eight steps: the distilled schedule, with the distilled LoRA and no guidance. Two stages: guided steps at half size, the
latent upsampler, then the last three distilled steps. Prints how well each follows prompt_following's prompts, and its
sharpness. Transformer and video decoder compute in bfloat16. Needs torch, diffusers 0.42.1, transformers and
sentencepiece; not the engine.
"""

import argparse
import copy
import dataclasses
import sys
from pathlib import Path

import numpy
import prompt_following
import torch
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "train_demo"))
import flow  # noqa: E402
import following  # noqa: E402
import model  # noqa: E402
import published  # noqa: E402
import text  # noqa: E402
import training  # noqa: E402
from stages import video_vae  # noqa: E402
from world import grammar, picture, scene  # noqa: E402

NOWHERE = Path("/nonexistent")  # no work folder: uses the published files
STEPS = 30
SECOND_STAGE = flow.DISTILLED[-4:]


def sharpness(video: torch.Tensor) -> float:
    """Returns the steepness of edges of [B, 3, F, H, W] in [-1, 1], in 8-bit levels per pixel over all three colours.

    It is the 99th percentile of a frame's gradients, which outlines of objects determine, averaged over the frames.
    """
    dy, dx = torch.gradient(video * 127.5, dim=(3, 4))
    steep = (dx.square() + dy.square()).sum(1).sqrt()
    return float(steep.flatten(2).quantile(0.99, dim=2).mean())


@dataclasses.dataclass
class Clips:
    """One clip per prompt: video [B, 3, F, SIDE, SIDE] in [-1, 1], sound [B, 2, samples]."""

    video: torch.Tensor
    sound: torch.Tensor


def enlarged(video: torch.Tensor) -> torch.Tensor:
    """Doubles height and width."""
    frames = (functional.interpolate(f, scale_factor=2, mode="bicubic") for f in video.unbind(2))
    return torch.stack(list(frames), 2).clamp(-1, 1)


def render(oracle: following.Oracle, seed: int) -> dict[str, Clips]:
    """Returns the clips of every recipe."""
    dev = training.load_averaged(NOWHERE, "transformer", flow.Denoiser())
    distilled = copy.deepcopy(dev)
    published.fuse_lora(distilled.transformer)
    half, schedule = model.SIDE // 2, flow.schedule(STEPS)

    one = oracle.denoise(dev, oracle.noise(seed=seed), schedule, model.GUIDANCE)
    eight = oracle.denoise(distilled, oracle.noise(seed=seed), flow.DISTILLED, 1.0)
    first = oracle.denoise(dev, oracle.noise(half, seed), schedule, model.GUIDANCE, half)
    upsampler, vae = training.load_averaged(NOWHERE, "upsampler", model.upsampler()), oracle.video_vae
    with torch.no_grad():
        z = upsampler(video_vae.denormalised(vae, flow.unpacked(first.video, half)))
    upsampled = flow.Pair(flow.packed(video_vae.normalised(vae, z)), first.audio)
    level = torch.full((len(oracle.scenes),), SECOND_STAGE[0])
    start = flow.blend(upsampled, oracle.noise(seed=seed + 1), level)
    two = oracle.denoise(distilled, start, SECOND_STAGE, 1.0)

    return {
        "one stage": Clips(oracle.picture(one.video), oracle.sound(one.audio)),
        "eight distilled steps": Clips(oracle.picture(eight.video), oracle.sound(eight.audio)),
        "half the size, enlarged": Clips(enlarged(oracle.picture(first.video, half)), oracle.sound(first.audio)),
        "half the size, upsampler alone": Clips(oracle.picture(upsampled.video), oracle.sound(first.audio)),
        "two stages": Clips(oracle.picture(two.video), oracle.sound(two.audio)),
    }


def follow(prompted: list[tuple[scene.Scene, grammar.Said]], clips: Clips) -> None:
    tally = prompt_following.Tally()
    pictures = picture.pixels(clips.video)
    for i, ((shown, said), frames, waves) in enumerate(zip(prompted, pictures, clips.sound.numpy(), strict=True)):
        wrong = tally.add(shown, prompt_following.answers(shown, said, frames, waves))
        print(f"{i:03d} {said.prompt}{wrong}")
    prompt_following.report(tally)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the prompts and of the noise")
    parser.add_argument("--keep", type=Path, help="file for the clips, numpy's npz; default: none is kept")
    args = parser.parse_args()
    options = training.Options(NOWHERE, "cpu", args.seed, steps=0, minutes=0, batch=0, published=False)
    prompted = prompt_following.prompts(args.prompts, args.seed)
    encode = text.trained(NOWHERE, "cpu")
    oracle = following.Oracle(options, encode, [(shown, said.prompt) for shown, said in prompted])
    recipes = render(oracle, args.seed)
    for name, clips in recipes.items():
        print(f"\n## {name}")
        follow(prompted, clips)
    drawn = sharpness(picture.render(oracle.scenes, model.SIDE, model.FRAMES))
    print(f"\n| clips | edges, levels per pixel | share |\n|---|---:|---:|\n| the scenes as drawn | {drawn:.1f} | 1.00 |")
    for name, clips in recipes.items():
        edges = sharpness(clips.video.clamp(-1, 1))
        print(f"| {name} | {edges:.1f} | {edges / drawn:.2f} |")
    if args.keep:
        numpy.savez_compressed(args.keep, **{name: picture.pixels(clips.video) for name, clips in recipes.items()})


if __name__ == "__main__":
    main()
