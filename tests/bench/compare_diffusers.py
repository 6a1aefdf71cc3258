#!/usr/bin/env python3
"""Times Kinora beside diffusers on equal random weights, shapes and threads, taking turns; prints Markdown tables.

    cmake --preset release -DKINORA_BENCHMARKS=ON
    cmake --build --preset release --target model_bench matmul_bench kinora-render
    python tests/bench/compare_diffusers.py --build build/release --work FOLDER

Needs torch, diffusers 0.42.1, transformers, sentencepiece, safetensors. FOLDER (1 GB) keeps the model between runs.
docs/performance.md says how to read the result. Processor seconds are those of all threads; on a machine that is not
idle only they can be compared, and only with --threads 1 (threads that wait for each other spin).
"""

import argparse
import math
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))


PARTS = ("transformer", "video_decoder", "diffusion_decoder", "video_encoder", "upsampler", "gemma", "render", "matmul")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--size", choices=("tiny", "mid", "tiny-2.5", "mid-2.5"), default="mid",
                        help="tiny checks the tools: no times; -2.5: the transformer, Gemma-4 and the diffusion decoder of "
                        "LTX-2.5")
    parser.add_argument("--precision", choices=("f32", "bf16"), action="append", help="default: both")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--serve-diffusers", metavar="PRECISION", help=argparse.SUPPRESS)  # started by renders.py
    return parser.parse_args()


def print_matmul(args, precision: str) -> None:
    from bench import inputs as random_inputs
    from bench import programs

    grid = (2, 2, 3) if args.size == "tiny" else programs.VIDEO_GRIDS["1536"]
    inputs, model = args.work / "inputs.safetensors", args.work / programs.MODEL_FILE
    random_inputs.write("transformer", grid, random_inputs.config(model), inputs)
    print(f"\n### Matrix products beside oneDNN's, {precision}\n", flush=True)
    program = args.build / "tests/bench/matmul_bench"
    command = [program, precision, str(args.threads), str(args.runs), inputs, model]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": str(args.threads)})


def print_parts(args, precision: str, wanted: set[str]) -> None:
    from bench import models, parts

    import torch

    dtype = torch.float32 if precision == "f32" else torch.bfloat16
    print(f"\n### Parts, {precision}\n")
    heads = ("part", "GFLOP", "ours s", "diffusers s", "ratio", "ours cpu s", "diffusers cpu s", "ratio")
    print("| " + " | ".join((*heads, "GFLOP per cpu s", "difference")) + " |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    points, module, loaded = [], None, ""
    for name, part, make, argument in parts.cases(args.size):
        if part not in wanted:
            continue
        if loaded != part:
            module, loaded = models.load(args.size, args.work, parts.MODULE[part], dtype), part
        program = args.build / "tests/bench/model_bench"
        r = parts.compare(program, args.work, part, make, argument, module, precision, args.threads, args.runs)
        if part == "transformer":
            points.append(r)
        print(
            f"| {name} | {r['gflop']:.1f} | {r['ours']:.3f} | {r['diffusers']:.3f} | {r['diffusers'] / r['ours']:.2f} "
            f"| {r['ours_processor']:.3f} | {r['diffusers_processor']:.3f} "
            f"| {r['diffusers_processor'] / r['ours_processor']:.2f} "
            f"| {r['gflop'] / r['ours_processor']:.1f} | {r['difference']:.1e} |",
            flush=True,
        )
    if len(points) > 1:
        print_slopes(points)


def print_slopes(points: list[dict]) -> None:
    """Prints the least-squares slope of log time over log FLOPs; 1 means that cost is proportional to the count."""
    x = [math.log(p["gflop"]) for p in points]
    for side in ("ours", "diffusers"):
        y = [math.log(p[side + "_processor"]) for p in points]
        mx, my = sum(x) / len(x), sum(y) / len(y)
        slope = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / sum((a - mx) ** 2 for a in x)
        print(f"\nGrowth of processor time with FLOPs, {side}: exponent {slope:.2f}", flush=True)


def print_render(args, precision: str) -> None:
    from bench import programs, renders

    program = args.build / "bin/kinora-render"
    r = renders.compare(program, args.work, args.size, precision, args.threads, max(1, args.runs // 2))
    width, height, frames = programs.SIZES[args.size]
    steps = len(programs.REQUEST["sigmas"]) - 1
    print(f"\n### Whole render, {precision}: {width} x {height} x {frames}, {steps} steps of 4 guidance passes\n")
    print("| | ours | diffusers | ratio |")
    print("|---|---:|---:|---:|")
    print(f"| request, s | {r['ours']:.2f} | {r['diffusers']:.2f} | {r['diffusers'] / r['ours']:.2f} |")
    ours, theirs = r["ours_processor"], r["diffusers_processor"]
    print(f"| processor s (ours with loading) | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} |")
    mib = 2**20
    print(
        f"| peak anonymous memory with weights, MiB | {r['ours_peak'] / mib:.0f} | {r['diffusers_peak'] / mib:.0f} "
        f"| {r['ours_peak'] / r['diffusers_peak']:.2f} |"
    )
    print(f"\nOurs loads in {r['ours_load']:.2f} s; stages: {r['stages']}.")
    print(f"Of diffusers' memory {r['diffusers_imports'] / mib:.0f} MiB are taken by importing its libraries.", flush=True)


def main() -> None:
    args = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    import torch

    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    from bench import machine, models

    if args.serve_diffusers:
        from bench import renders

        renders.with_diffusers(args.work, args.size, args.serve_diffusers, args.threads)
        return
    models.write(args.size, args.work)
    wanted = set(args.only or (("transformer", "gemma") if models.is_2_5(args.size) else PARTS))
    print(f"{machine.description()}; load {machine.load():.1f}; torch {torch.__version__}, {args.threads} threads")
    for precision in args.precision or ("bf16", "f32"):
        if wanted - {"matmul", "render"}:
            print_parts(args, precision, wanted)
        if "matmul" in wanted:
            print_matmul(args, precision)
        if "render" in wanted:
            print_render(args, precision)
    print(f"\nLoad at the end: {machine.load():.1f}")


if __name__ == "__main__":
    main()
