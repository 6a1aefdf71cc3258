#!/usr/bin/env python3
"""Writes tests/golden/data: one safetensors file per case (see tests/golden/README.md).

    python tests/golden/export.py [--lightricks CHECKOUT] [--only PATTERN] [--output FOLDER]

Needs torch, diffusers 0.42.1, transformers, sentencepiece, protobuf. Cases in which diffusers and Lightricks differ are
only written with --lightricks, a checkout of Lightricks/LTX-2 (which needs einops and scipy).
"""

import argparse
import fnmatch
import json
from importlib.metadata import version
from pathlib import Path

import torch

from golden import (
    ancestral_cases,
    audio_cases,
    case,
    condition_cases,
    diffusion_cases,
    diffusion_decoder_cases,
    encoder_cases,
    gemma4_cases,
    given_noise_cases,
    kept_cases,
    lightricks,
    lightricks_cases,
    lora_cases,
    ltx_2_5_cases,
    pipeline_2_5_cases,
    pipeline_cases,
    released_heads_cases,
    res2s_cases,
    sound_cases,
    text_cases,
    transformer_cases,
    two_stage_cases,
    upsampler_cases,
    video_vae_cases,
)

GROUPS = [
    transformer_cases,
    video_vae_cases,
    text_cases,
    audio_cases,
    diffusion_cases,
    pipeline_cases,
    lora_cases,
    two_stage_cases,
    released_heads_cases,
    upsampler_cases,
    encoder_cases,
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "data")
    parser.add_argument("--only", default="*", help="shell pattern of case names")
    parser.add_argument("--lightricks", type=Path, help="checkout of Lightricks/LTX-2")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    versions = {name: version(name) for name in ("torch", "diffusers", "transformers", "sentencepiece")}
    groups = list(GROUPS)
    if args.lightricks:
        lightricks.enable(args.lightricks)
        groups += [
            lightricks_cases,
            ancestral_cases,
            gemma4_cases,
            ltx_2_5_cases,
            diffusion_decoder_cases,
            pipeline_2_5_cases,
            res2s_cases,
            condition_cases,
            kept_cases,
            given_noise_cases,
            sound_cases,
        ]
    for group in groups:
        for item in group.cases():
            if fnmatch.fnmatch(item.name, args.only):
                size, shapes = case.write(item, args.output, versions)
                print(f"{item.name}: {size} bytes")
                for name, shape in shapes.items():
                    print(f"    {name} {json.dumps(shape)}")


if __name__ == "__main__":
    main()
