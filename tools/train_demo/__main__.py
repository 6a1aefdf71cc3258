"""Trains the demo model, one stage a command:

    python tools/train_demo STAGE --work FOLDER [--device cuda] [--minutes 60]

Stages, in order: video_vae, audio_vae, vocoder, text_encoder, transformer, upsampler, distil; export writes
models/demo. Each resumes from its snapshot in FOLDER and is deterministic from --seed. header writes the metadata of
the published single file anew, and no weight.
"""

import argparse
import importlib
from pathlib import Path

import torch

import training

STAGES = ("video_vae", "audio_vae", "vocoder", "text_encoder", "transformer", "upsampler", "distil", "export", "header")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--work", type=Path, required=True, help="snapshots and caches")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="default: the stage's own")
    parser.add_argument("--minutes", type=float, default=0, help="stop after these many; the same command goes on")
    parser.add_argument("--batch", type=int, default=0, help="default: the stage's own")
    parser.add_argument("--published", action="store_true", help="begin with the published weights, not with new ones")
    parser.add_argument("--threads", type=int, default=2)
    args = vars(parser.parse_args())
    torch.set_num_threads(args.pop("threads"))
    torch.set_float32_matmul_precision("high")
    importlib.import_module(f"stages.{args.pop('stage')}").train(training.Options(**args))


if __name__ == "__main__":
    main()
