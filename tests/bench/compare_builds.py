#!/usr/bin/env python3
"""Times two builds of Kinora against each other, taking turns, and prints a Markdown table of ratios.

    cmake --preset release -DKINORA_BENCHMARKS=ON && cmake --build --preset release --target model_bench kinora-render
    python tests/bench/compare_builds.py --before OTHER_TREE/build/release --after build/release --work FOLDER

A row is one part of the model at one size and precision, a whole render, or its denoising alone. Its figure is the median
of the pairs' ratios after / before in processor seconds, which a busy machine disturbs less than wall seconds, with the
interval that holds the true median with a probability of at least 95% (order statistics, so no distribution is assumed).
Denoising is in wall seconds, as kinora-render reports it, of a request that names no stg_blocks, and is not part of the
last row, the ratio of the sums of all medians. FOLDER (1 GB) keeps the model between runs; it is compare_diffusers.py's.
Needs torch, diffusers 0.42.1, transformers, safetensors, to write the model. With --size tiny it times models/tiny, which is
committed, and needs none of them: that checks the tool, its times say nothing.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bench import inputs as random_inputs  # noqa: E402
from bench import machine, programs  # noqa: E402

DENOISING = "denoising with the default stg_blocks"
PARTS = ("transformer", "video_decoder", "gemma", "render", "denoising")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="build folder")
    parser.add_argument("--after", type=Path, required=True, help="build folder")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--size", choices=("tiny", "mid"), default="mid", help="tiny checks the tool: no times")
    parser.add_argument("--precision", choices=("f32", "bf16"), action="append", help="default: both")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=15)
    return parser.parse_args()


def interval(values: list[float]) -> tuple[float, float]:
    """Returns the closest order statistics around the median that miss it with a probability of at most 5%."""
    ordered, n = sorted(values), len(values)
    below = 0.5**n  # probability that at most k values lie below the median
    k = 0
    while 2 * (below + math.comb(n, k + 1) * 0.5**n) <= 0.05:
        k += 1
        below += math.comb(n, k) * 0.5**n
    return ordered[k], ordered[n - 1 - k]


class Render:
    """Runs kinora-render anew each time: loading, the request, the file."""

    def __init__(self, program: Path, folder: Path, model: list[str], request: dict, precision: str, threads: int):
        path = folder / "request.json"
        path.write_text(json.dumps(request))
        self._command = [program, *(f"--model={file}" for file in model[:2])]
        self._command += ["--request", path, "--output", folder / "clip.mp4", "--precision", precision]
        self._command += ["--threads", str(threads), "--json", "--quiet"]

    def run(self) -> tuple[float, float]:
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(self._command, check=True, stdout=subprocess.DEVNULL)
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def close(self) -> None:
        pass


class Denoising(Render):
    """Runs kinora-render, but counts only the stage that denoises."""

    def run(self) -> tuple[float, float]:
        summary = json.loads(subprocess.run(self._command, check=True, stdout=subprocess.PIPE).stdout)
        seconds = summary["seconds"]["denoise"]
        return seconds, seconds


def rows(args, model: list[str], precision: str):
    """Yields (name, function), where the function maps a build folder to an object with run and close."""
    wanted = set(args.only or PARTS)
    config = random_inputs.config(Path(model[0]))
    for name, part, shape in programs.cases(args.size):
        if part not in wanted:
            continue
        inputs = args.work / "inputs.safetensors"
        random_inputs.write(part, shape, config, inputs)
        yield (
            f"{name}, {precision}",
            lambda build, part=part, inputs=inputs: programs.Ours(
                build / "tests/bench/model_bench", part, precision, args.threads, inputs, model
            ),
        )

    def render(build: Path, kind: type[Render], request: dict) -> Render:
        return kind(build / "bin/kinora-render", args.work, model, request, precision, args.threads)

    if "render" in wanted:
        yield f"whole render with loading, {precision}", lambda build: render(build, Render, programs.request(args.size))
    if "denoising" in wanted:
        request = programs.with_default_blocks(programs.request(args.size))
        yield f"{DENOISING}, wall s, {precision}", lambda build: render(build, Denoising, request)


def model_files(args) -> list[str]:
    args.work.mkdir(parents=True, exist_ok=True)
    if args.size == "tiny":
        return programs.committed()
    from bench import models

    models.write(args.size, args.work)
    return programs.written(args.work)


def compare(make, args) -> tuple[list[float], list[float]]:
    """Returns the processor seconds of the pairs. The side that starts a pair alternates."""
    before, after = make(args.before), make(args.after)
    before.run()
    after.run()
    times = ([], [])
    for pair in range(args.pairs):
        order = ((0, before), (1, after)) if pair % 2 == 0 else ((1, after), (0, before))
        for side, program in order:
            times[side].append(program.run()[1])
    before.close()
    after.close()
    return times


def main() -> None:
    args = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    model = model_files(args)
    print(f"{machine.description()}; load {machine.load():.1f}; {args.threads} threads, {args.pairs} pairs a row\n")
    print("| row | before, cpu s | after, cpu s | ratio | 95% interval |")
    print("|---|---:|---:|---:|---:|", flush=True)
    sums = [0.0, 0.0]
    for precision in args.precision or ("bf16", "f32"):
        for name, make in rows(args, model, precision):
            times = compare(make, args)
            medians = [statistics.median(t) for t in times]
            ratios = [after / before for before, after in zip(*times, strict=True)]
            low, high = interval(ratios)
            if not name.startswith(DENOISING):
                sums = [s + m for s, m in zip(sums, medians, strict=True)]
            ratio = statistics.median(ratios)
            print(f"| {name} | {medians[0]:.3f} | {medians[1]:.3f} | {ratio:.3f} | {low:.3f} to {high:.3f} |", flush=True)
    if sums[0] > 0:
        print(f"| sum of the medians | {sums[0]:.2f} | {sums[1]:.2f} | {sums[1] / sums[0]:.3f} | |")
    print(f"\nLoad at the end: {machine.load():.1f}")


if __name__ == "__main__":
    main()
