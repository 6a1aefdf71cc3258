#!/usr/bin/env python3
"""The video VAE's decoder beside diffusers: same weights, latent and threads, alternating runs, medians.

    python tests/bench/video_decode_compare.py BUILD/tests/bench/video_decode_bench [--version 2.3] [--precision bf16] ...

Needs torch and diffusers 0.42.1. Prints one JSON line: seconds of both (wall and processor), their ratio, and the relative
error of Kinora's frames against diffusers' in float32 (for bf16 also diffusers' own against that).
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from diffusers.models.autoencoders.autoencoder_kl_ltx2 import AutoencoderKLLTX2Video
from safetensors.torch import load_file

DECODERS = {  # lowest resolution last, as diffusers wants it; widths in multiples of the last level's
    "2.0": dict(widths=(2, 4, 8), layers=(5, 5, 5, 5), factors=(2, 2, 2), residual=(True,) * 3,
                types=("spatiotemporal",) * 3, padding="reflect"),
    "2.3": dict(widths=(2, 4, 4, 8), layers=(4, 6, 4, 2, 2), factors=(2, 2, 1, 2), residual=(False,) * 4,
                types=("spatiotemporal", "spatiotemporal", "temporal", "spatial"), padding="zeros"),
}


def diffusers_key(name: str) -> str:
    name = re.sub(r"up_blocks\.0\.res_blocks", "mid_block.resnets", name)
    name = re.sub(r"up_blocks\.(\d+)\.res_blocks", lambda m: f"up_blocks.{int(m[1]) // 2 - 1}.resnets", name)
    return re.sub(r"up_blocks\.(\d+)\.conv\.", lambda m: f"up_blocks.{int(m[1]) // 2}.upsamplers.0.conv.", name)


def build(version: str, width: int, weights: dict) -> AutoencoderKLLTX2Video:
    d = DECODERS[version]
    vae = AutoencoderKLLTX2Video(
        block_out_channels=(32,) * 4, layers_per_block=(1,) * 5, decoder_block_out_channels=tuple(w * width for w in d["widths"]),
        decoder_causal=False, decoder_layers_per_block=d["layers"],
        decoder_spatio_temporal_scaling=(True,) * len(d["widths"]),
        decoder_inject_noise=(False,) * (len(d["widths"]) + 1), upsample_type=d["types"], upsample_residual=d["residual"],
        upsample_factor=d["factors"], decoder_spatial_padding_mode=d["padding"], spatial_compression_ratio=32,
        temporal_compression_ratio=8).eval()
    decoder = {diffusers_key(k.removeprefix("vae.decoder.")): v.float() for k, v in weights.items() if ".decoder." in k}
    vae.decoder.load_state_dict(decoder, strict=True)
    return vae


def error(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.double() - b.double()).norm() / b.double().norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("--version", default="2.3", choices=DECODERS)
    parser.add_argument("--precision", default="bf16", choices=("f32", "bf16"))
    parser.add_argument("--width", type=int, default=128, help="channels of the last level; 128 in the released models")
    parser.add_argument("--latent", type=int, nargs=3, default=(3, 4, 6), help="frames, height, width in latent cells")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    os.sched_setaffinity(0, set(range(args.threads)))  # inherited by the bench

    with tempfile.TemporaryDirectory() as folder:
        text = [str(v) for v in args.latent]
        subprocess.run([args.bench, "write", args.version, str(args.width), *text, folder], check=True)
        weights = load_file(Path(folder) / "video.safetensors")
        latent = load_file(Path(folder) / "latent.safetensors")["latent"]
        mean, std = (weights[f"vae.per_channel_statistics.{k}-of-means"].float() for k in ("mean", "std"))
        z = (latent * std + mean).permute(3, 0, 1, 2)[None].contiguous()
        vae = build(args.version, args.width, weights)
        del weights
        exact = vae.decode(z).sample[0].permute(1, 2, 3, 0) if args.precision == "f32" or args.width <= 64 else None
        if args.precision == "bf16":
            vae, z = vae.bfloat16(), z.bfloat16()
        vae.decode(z)  # warm

        ours, theirs = [], []
        for _ in range(args.repeats):
            run = [args.bench, "run", args.version, str(args.width), args.precision, str(args.threads), "2", folder]
            lines = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split("\n")
            ours.append([float(v) for v in lines[1].split()])  # the first run touches the memory
            wall, processor = time.monotonic(), time.process_time()
            frames = vae.decode(z).sample
            theirs.append((time.monotonic() - wall, time.process_time() - processor))
        decoded = load_file(Path(folder) / "frames.safetensors")["frames"]

    report = {"version": args.version, "precision": args.precision, "width": args.width, "latent": list(args.latent),
              "threads": args.threads, "gflop": ours[0][2], "arena_bytes": ours[0][3]}
    for i, kind in enumerate(("wall", "processor")):
        a, b = statistics.median(v[i] for v in ours), statistics.median(v[i] for v in theirs)
        report |= {f"kinora_{kind}_s": round(a, 3), f"diffusers_{kind}_s": round(b, 3), f"{kind}_ratio": round(b / a, 2)}
    if exact is not None:
        report["kinora_error"] = error(decoded, exact)
        report["diffusers_error"] = error(frames[0].permute(1, 2, 3, 0), exact)
    json.dump(report, sys.stdout)
    print()


if __name__ == "__main__":
    main()
