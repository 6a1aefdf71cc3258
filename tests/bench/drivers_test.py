#!/usr/bin/env python3
"""Runs one benchmark's driver at a small size and checks that it prints its results. The times are meaningless.

    python3 tests/bench/drivers_test.py --build build/release DRIVER
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from bench import inputs, programs  # noqa: E402


def run(*command, expected: str) -> None:
    """The output must contain `expected`."""
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=False)
    print(result.stdout)
    if result.returncode != 0 or expected not in result.stdout:
        raise SystemExit(f"{command[0]}: status {result.returncode}, or it did not print: {expected}")


def model_bench(build: Path, folder: Path) -> None:
    model = programs.committed()
    for _, part, shape in programs.cases("tiny"):
        file = folder / f"{part}.safetensors"
        inputs.write(part, shape, inputs.config(Path(model[0])), file)
        ours = programs.Ours(build / "tests/bench/model_bench", part, "bf16", 2, file, model)
        print(part, ours.gflop, ours.run())
        ours.save(folder / "outputs.safetensors")
        ours.close()


def matmul_bench(build: Path, folder: Path) -> None:
    model, file = programs.committed()[0], folder / "transformer.safetensors"
    inputs.write("transformer", (2, 2, 3), inputs.config(Path(model)), file)
    run(build / "tests/bench/matmul_bench", "f32", 1, 1, file, model, expected="|---")


def compare_builds(build: Path, folder: Path) -> None:
    sides = ["--before", build, "--after", build, "--work", folder, "--size", "tiny", "--pairs", 2]
    run(sys.executable, HERE / "compare_builds.py", *sides, expected="| sum of the medians |")


def compare_diffusers(build: Path, folder: Path) -> None:
    """Needs torch and diffusers, which CI machines lack; there, documented_commands_test checks its names."""
    command = ["--build", build, "--work", folder, "--size", "tiny", "--runs", 1, "--precision", "f32"]
    run(sys.executable, HERE / "compare_diffusers.py", *command, expected="### Whole render, f32")


def preview_cost(build: Path, _folder: Path) -> None:
    run(sys.executable, HERE / "preview_cost.py", "--build", build, "--shape", "64x64x9", "--steps", 2, expected="64x64x9")


def resume_cost(build: Path, _folder: Path) -> None:
    run(sys.executable, HERE / "resume_cost.py", "--build", build, "--shape", "64x64x9", "--steps", 2, "--pairs", 1,
        "--interval", 0.01, expected="median of 1 pairs")


DRIVERS = {
    "audio_bench": lambda build, _: run(build / "tests/bench/audio_bench", 0.1, 2, 1, expected="vocoder_2_3"),
    "group_bench": lambda build, _: run(build / "tests/bench/group_bench", 1, 64, expected="tokens=2"),
    "resume_bench": lambda build, _: run(build / "tests/bench/resume_bench", 2, 64, 64, 9, expected="res_2s"),
    "ranks_bench": lambda build, _: run(build / "tests/bench/ranks_bench", 2, 1, 64, expected="tokens=2"),
    "model_bench": model_bench,
    "matmul_bench": matmul_bench,
    "noise_bench": lambda build, _: run(
        build / "tests/bench/noise_bench", "--benchmark_min_time=0.01", expected="items_per_second"
    ),
    "swap_bench": lambda build, _: run(
        build / "tests/bench/swap_bench", "--benchmark_filter=Swap/cache_mib:64", expected="pass_ms"
    ),
    "serving_load": lambda build, _: run(
        build / "tests/bench/serving_load",
        *("--rate=20", "--duration=1s", "--watchers=5", "--groups=2", "--run=10ms", "--http-rate=20", "--http-watchers=150"),
        expected="through the gateway: jobs taken 20, refused 0, event streams open 150",
    ),
    "store_bench": lambda build, _: run(build / "tests/bench/store_bench", 100, expected="filled with 100"),
    "compare_builds": compare_builds,
    "compare_diffusers": compare_diffusers,
    "preview_cost": preview_cost,
    "resume_cost": resume_cost,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("driver", choices=DRIVERS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        DRIVERS[options.driver](options.build.resolve(), Path(folder))


if __name__ == "__main__":
    main()
