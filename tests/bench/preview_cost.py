#!/usr/bin/env python3
"""Measures the cost of previews: the time of a preview compared with its step, from traces of served jobs of the demo
model.

    tests/bench/preview_cost.py --build build/release

Prints one row per shape. A preview's cost depends only on the shape (a cell's channels times three, and a JPEG of at
most 384 pixels a side). A step of a released model takes seconds but the demo model's only a fraction of one, so the
shares of larger shapes apply only to the demo model.
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
SHAPES = ("128x128x25", "768x512x9", "1216x704x9", "1536x1024x9")


def durations(trace: dict, name: str) -> list:
    return [event["dur"] * 1e-3 for event in trace["traceEvents"] if event.get("name") == name and event.get("ph") == "X"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--shape", action="append", metavar="WxHxF", help=f"default: {', '.join(SHAPES)}")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    binaries = (options.build / "bin").resolve()
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/api.sock"
        environment = os.environ | {"KINORA_SERVER": address, "XDG_CACHE_HOME": f"{folder}/cache"}
        server = subprocess.Popen(
            [binaries / "kinora-frontend", f"--address={address}", "--http-address=", "--web-address=", "--worker-http-address=",
             f"--state-directory={folder}/state", f"--worker-model={DEMO / 'ltx-2.3-demo-dev.safetensors'}",
             f"--worker-model=text_encoder={DEMO / 'gemma'}", f"--worker-threads={options.threads}"],
            env=environment, stderr=subprocess.DEVNULL)

        def kinora(*arguments: str) -> str:
            return subprocess.run([binaries / "kinora", *arguments], env=environment, check=True, capture_output=True, text=True).stdout

        try:
            print(f"{'shape':>14}  {'step, ms':>9}  {'preview, ms':>11}  {'share':>6}")
            for width, height, frames in (shape.split("x") for shape in options.shape or SHAPES):
                video = kinora("create", "a yellow triangle moves up on a blue background", "--recipe=one_stage", "--seed=1",
                               f"--steps={options.steps}", f"--width={width}", f"--height={height}", f"--frames={frames}",
                               "--preview-every=1", "--trace").strip()
                kinora("watch", video, "--quiet")
                kinora("download", video, "--artifact=trace.json", f"--output={folder}/trace.json")
                trace = json.loads(Path(folder, "trace.json").read_text())
                step, preview = (statistics.median(durations(trace, name)) for name in ("step", "preview"))
                print(f"{width}x{height}x{frames:<4}".rjust(14), f"{step:10.2f}  {preview:11.3f}  {preview / step:6.2%}")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
