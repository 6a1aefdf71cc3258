#!/usr/bin/env python3
"""Measures what resume points cost a run: pairs of served jobs of the demo model, one with points at an interval and one
without. The order within a pair changes from pair to pair.

    tests/bench/resume_cost.py --build build/release

Prints the denoising seconds of each job, and the median of the pairs' differences. A run waits only while a state is
copied; writing and storing it takes a thread, which on a CPU competes with the run.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "models" / "demo"


class Server:
    """A server whose worker takes a resume point at each interval, in seconds; 0: none."""

    def __init__(self, binaries: Path, folder: Path, interval: float, threads: int):
        folder.mkdir()
        self.binaries, self.folder = binaries, folder
        self.environment = os.environ | {"KINORA_SERVER": f"unix:{folder}/api.sock", "XDG_CACHE_HOME": f"{folder}/cache"}
        self.process = subprocess.Popen(
            [binaries / "kinora-frontend", f"--address=unix:{folder}/api.sock", "--http-address=", "--web-address=",
             "--worker-http-address=", f"--state-directory={folder}/state",
             f"--worker-model={DEMO / 'ltx-2.3-demo-dev.safetensors'}", f"--worker-model=text_encoder={DEMO / 'gemma'}",
             f"--worker-threads={threads}", f"--worker-checkpoint-seconds={interval}"],
            env=self.environment, stderr=subprocess.DEVNULL)

    def kinora(self, *arguments: str) -> str:
        return subprocess.run([self.binaries / "kinora", *arguments], env=self.environment, check=True, capture_output=True,
                              text=True).stdout

    def denoise_seconds(self, shape: str, steps: int) -> float:
        width, height, frames = shape.split("x")
        video = self.kinora("create", "a yellow triangle moves up on a blue background", "--recipe=one_stage", "--seed=1",
                            f"--steps={steps}", f"--width={width}", f"--height={height}", f"--frames={frames}").strip()
        self.kinora("watch", video, "--quiet")
        return json.loads(self.kinora("get", video, "--json"))["usage"]["stage_seconds"]["denoise"]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--interval", type=float, default=30.0, help="seconds between two points; default: 30")
    parser.add_argument("--shape", default="768x512x9", metavar="WxHxF")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    binaries = (options.build / "bin").resolve()
    with tempfile.TemporaryDirectory() as folder:
        servers = {interval: Server(binaries, Path(folder, str(interval)), interval, options.threads)
                   for interval in (0.0, options.interval)}
        try:
            for server in servers.values():  # plans and tables of the shape
                server.denoise_seconds(options.shape, 1)
            shares = []
            print(f"{'without, s':>11}  {'with, s':>8}  {'slower':>7}")
            for pair in range(options.pairs):
                order = sorted(servers, reverse=pair % 2 == 1)
                seconds = {interval: servers[interval].denoise_seconds(options.shape, options.steps) for interval in order}
                shares.append(seconds[options.interval] / seconds[0.0] - 1)
                print(f"{seconds[0.0]:11.2f}  {seconds[options.interval]:8.2f}  {shares[-1]:7.2%}", flush=True)
            print(f"median of {options.pairs} pairs, {options.shape}, a point every {options.interval:g} s: "
                  f"{statistics.median(shares):+.2%}")
        finally:
            for server in servers.values():
                server.stop()


if __name__ == "__main__":
    main()
