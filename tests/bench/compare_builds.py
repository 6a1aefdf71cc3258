#!/usr/bin/env python3
"""Times two builds of Kinora against each other, taking turns, and prints a Markdown table of ratios.

    cmake --preset release -DKINORA_BENCHMARKS=ON && cmake --build --preset release --target model_bench kinora-render
    python tests/bench/compare_builds.py --before OTHER_TREE/build/release --after build/release --work FOLDER

A row is one part of the model at one size and precision, a whole render, or a load. Its figure is the median of the pairs' ratios
after / before in processor seconds, which a busy machine disturbs less than wall seconds, with the interval that holds
the true median with a probability of at least 95% (order statistics, so no distribution is assumed). The last row is
the ratio of the sums of all medians. FOLDER (1 GB) keeps the model between runs; it is compare_diffusers.py's.
Needs torch, diffusers 0.42.1, transformers, safetensors, to write the model.
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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="build folder")
    parser.add_argument("--after", type=Path, required=True, help="build folder")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--size", choices=("tiny", "mid"), default="mid", help="tiny checks the tool: no times")
    parser.add_argument("--precision", choices=("f32", "bf16"), action="append", help="default: both")
    parser.add_argument("--only", action="append", choices=("transformer", "video_decoder", "gemma", "render"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=15)
    return parser.parse_args()


def interval(values: list[float]) -> tuple[float, float]:
    """The closest pair of order statistics around the median that misses it with a probability of at most 5%."""
    ordered, n = sorted(values), len(values)
    below = 0.5**n  # probability that fewer than k + 1 values lie under the median
    k = 0
    while 2 * (below + math.comb(n, k + 1) * 0.5**n) <= 0.05:
        k += 1
        below += math.comb(n, k) * 0.5**n
    return ordered[k], ordered[n - 1 - k]


class Render:
    """One kinora-render each time: loading, the request, the file."""

    def __init__(self, program: Path, folder: Path, size: str, precision: str, threads: int):
        from bench import models, renders

        path = folder / "request.json"
        path.write_text(json.dumps(renders.request(size)))
        self._command = [program, "--model", folder / models.MODEL_FILE, "--model", f"text_encoder={folder / 'gemma'}"]
        self._command += ["--request", path, "--output", folder / "clip.mp4", "--precision", precision]
        self._command += ["--threads", str(threads), "--quiet"]

    def run(self) -> tuple[float, float]:
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(self._command, check=True, stdout=subprocess.DEVNULL)
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def close(self) -> None:
        pass


def rows(args, precision: str):
    """(name, function of a build folder that makes something with run and close)."""
    from bench import models, parts

    import torch

    wanted = set(args.only or ("transformer", "video_decoder", "gemma", "render"))
    dtype = torch.float32 if precision == "f32" else torch.bfloat16
    for name, part, make, argument in parts.cases(args.size):
        if part not in wanted:
            continue
        module = models.empty(args.size, parts.MODULE[part])
        data, _ = make(module, dtype, argument)
        inputs = args.work / "inputs.safetensors"
        models.safetensors_file.save(data, inputs, {})
        yield (
            f"{name}, {precision}",
            lambda build, part=part, inputs=inputs: parts.Ours(
                build / "tests/bench/model_bench", part, precision, args.threads, inputs, args.work
            ),
        )
    if "render" in wanted:
        yield (
            f"whole render with loading, {precision}",
            lambda build: Render(build / "bin/kinora-render", args.work, args.size, precision, args.threads),
        )


def compare(make, args) -> tuple[list[float], list[float]]:
    """Processor seconds of the pairs; which side begins a pair alternates."""
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
    from bench import machine, models

    models.write(args.size, args.work)
    print(f"{machine.description()}; load {machine.load():.1f}; {args.threads} threads, {args.pairs} pairs a row\n")
    print("| row | before, cpu s | after, cpu s | ratio | 95% interval |")
    print("|---|---:|---:|---:|---:|", flush=True)
    sums = [0.0, 0.0]
    for precision in args.precision or ("bf16", "f32"):
        for name, make in rows(args, precision):
            times = compare(make, args)
            medians = [statistics.median(t) for t in times]
            ratios = [after / before for before, after in zip(*times, strict=True)]
            low, high = interval(ratios)
            sums = [s + m for s, m in zip(sums, medians, strict=True)]
            ratio = statistics.median(ratios)
            print(f"| {name} | {medians[0]:.3f} | {medians[1]:.3f} | {ratio:.3f} | {low:.3f} to {high:.3f} |", flush=True)
    print(f"| sum of the medians | {sums[0]:.2f} | {sums[1]:.2f} | {sums[1] / sums[0]:.3f} | |")
    print(f"\nLoad at the end: {machine.load():.1f}")


if __name__ == "__main__":
    main()
