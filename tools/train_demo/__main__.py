"""Trains the demo model, one stage a command:

    python tools/train_demo STAGE --work FOLDER [--device cuda] [--minutes 60]

Stages, in order: video_vae, audio_vae, vocoder, text_encoder, transformer, upsampler, distil; export writes
models/demo. Each resumes from its snapshot in FOLDER and is deterministic from --seed.
"""

import argparse
import datetime
import importlib
import multiprocessing
import tempfile
from pathlib import Path

import torch

import training

STAGES = ("video_vae", "audio_vae", "vocoder", "text_encoder", "transformer", "upsampler", "distil", "export")


def train(args: argparse.Namespace, rank: int, meeting: str) -> None:
    """The stage, as one of `args.processes`, which meet in the folder `meeting`."""
    options = vars(args) | {"rank": rank}
    stage, threads = options.pop("stage"), options.pop("threads")
    torch.set_num_threads(max(1, threads // args.processes))
    torch.set_float32_matmul_precision("high")
    if args.processes > 1:
        meet = f"file://{meeting}/meeting"
        wait = datetime.timedelta(hours=2)  # for the first process, which alone measures and makes latents
        torch.distributed.init_process_group("gloo", meet, timeout=wait, world_size=args.processes, rank=rank)
    importlib.import_module(f"stages.{stage}").train(training.Options(**options))


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
    parser.add_argument("--processes", type=int, default=1, help="that share the transformer's batches and the threads")
    args = parser.parse_args()
    if args.processes == 1:
        train(args, 0, "")
        return
    if args.stage != "transformer":
        parser.error("--processes: only the transformer is trained by several")
    with tempfile.TemporaryDirectory() as folder:
        fork = multiprocessing.get_context("fork")
        others = [fork.Process(target=train, args=(args, rank, folder), daemon=True) for rank in range(1, args.processes)]
        for process in others:
            process.start()
        train(args, 0, folder)
        for process in others:
            process.join()


if __name__ == "__main__":
    main()
