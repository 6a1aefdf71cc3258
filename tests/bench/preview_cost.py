#!/usr/bin/env python3
"""What previews cost: the time of one beside that of its step, from traces of served jobs of the demo model.

    tests/bench/preview_cost.py --build build/release

A row for each shape. A preview costs what its shape says (a cell's channels times three, and a JPEG of at most 384 pixels a
side), whatever the model; a step of a released model takes seconds where the demo's takes a fraction of one, so the share of the
larger shapes is the demo model's and not theirs.
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
SHAPES = ((128, 128, 25), (768, 512, 9), (1216, 704, 9), (1536, 1024, 9))


def durations(trace: dict, name: str) -> list:
    return [event["dur"] * 1e-3 for event in trace["traceEvents"] if event.get("name") == name and event.get("ph") == "X"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    binaries = (options.build / "bin").resolve()
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/api.sock"
        environment = os.environ | {"KINORA_SERVER": address, "XDG_CACHE_HOME": f"{folder}/cache"}
        server = subprocess.Popen(
            [binaries / "kinora-frontend", f"--address={address}", "--http-address=", "--worker-http-address=",
             f"--state-directory={folder}/state", f"--worker-model={DEMO / 'ltx-2.3-demo-dev.safetensors'}",
             f"--worker-model=text_encoder={DEMO / 'gemma'}", f"--worker-threads={options.threads}"],
            env=environment, stderr=subprocess.DEVNULL)

        def kinora(*arguments: str) -> str:
            return subprocess.run([binaries / "kinora", *arguments], env=environment, check=True, capture_output=True, text=True).stdout

        try:
            print(f"{'shape':>14}  {'step, ms':>9}  {'preview, ms':>11}  {'share':>6}")
            for width, height, frames in SHAPES:
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
