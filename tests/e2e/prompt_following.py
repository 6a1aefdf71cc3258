#!/usr/bin/env python3
"""Do picture and sound match the prompt? Tests the whole chain from the server to the MP4's pixels.

    python3 tests/e2e/prompt_following.py --build build/release --prompts 100 --seed 1

Prompts come from the grammar of the demo model's world, with combinations of attributes that its training never saw. A
running server renders each, ffmpeg decodes the file, and classical methods measure it (tools/train_demo/world). Only
attributes named in a prompt are checked. Prints a table, and exits with status 1 if the share of right answers is below
--threshold. Needs numpy and ffmpeg; no torch.
"""

import argparse
import collections
import json
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "train_demo"))
from world import grammar, measure_picture, measure_sound, scene  # noqa: E402

RATE = 48000
# Scores of an engine that answers randomly, and the categories. Presence: always answering "a tone" scores 0.8.
CHANCE = {
    "background": 1 / len(scene.BACKGROUNDS),
    "colour": 1 / len(scene.COLOURS),
    "shape": 1 / len(scene.SHAPES),
    "size": 1 / len(scene.SIZES),
    "place": 1 / len(scene.PLACES),
    "direction": 1 / len(scene.DIRECTIONS),
    "motion": 1 / len(scene.MOTIONS),
    "tone": 0.8,
    "pitch": 1 / len(scene.PITCHES),
    "wave": 1 / len(scene.WAVES),
    "rhythm": 1 / len(scene.RHYTHMS),
}
GOAL = {"background": 0.95, "colour": 0.95, "direction": 0.9, "tone": 0.9, "pitch": 0.9, "shape": 0.8, "two things": 0.7}


PARTS = {"distilled_lora": "*-distilled-lora.safetensors", "spatial_upsampler": "*-spatial-upscaler-x2.safetensors"}
START_SECONDS, STOP_SECONDS = 120, 40  # allowance for a busy machine


class Server:
    """A frontend with one supervised worker, during the `with` block."""

    def __init__(self, build: Path, model: Path, device: str, folder: Path):
        self.build = build / "bin"
        self.address = f"unix:{folder}/api.sock"
        checkpoints = list(model.glob("*-dev.safetensors"))
        if not checkpoints:
            raise SystemExit(f"{model}: no *-dev.safetensors")
        self.command = [
            self.build / "kinora-frontend",
            f"--address={self.address}",
            "--http-address=",
            "--web-address=",
            f"--state-directory={folder}/jobs",
            f"--worker-model={checkpoints[0]}",
            f"--worker-model=text_encoder={model / 'gemma'}",
            "--worker-http-address=",
            f"--worker-device={device}",
        ]
        for part, pattern in PARTS.items():  # for `--flag=--recipe=…`
            self.command += [f"--worker-model={part}={file}" for file in model.glob(pattern)]
        self.log: collections.deque[str] = collections.deque(maxlen=100)
        self.events: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> "Server":
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        try:
            event = self.events.get(timeout=START_SECONDS)
        except queue.Empty:
            event = "nothing in time"
        except SystemExit:
            self.__exit__()
            raise
        if event != "group_ready":
            self.__exit__()
            raise SystemExit(f"the server did not start ({event}):\n{''.join(self.log)}")
        return self

    def _read(self) -> None:
        for line in self.process.stderr:  # ends with the process
            self.log.append(line)
            for event in ("group_ready", "worker_ended"):  # a worker that ended would be restarted repeatedly
                if f"event={event}" in line:
                    self.events.put(event)
        self.events.put("the frontend ended")

    def __exit__(self, *_) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.reader.join()

    def generate(self, prompt: str, seed: int, output: Path, seconds: int, more: list[str]) -> None:
        line = [self.build / "kinora", "generate", prompt, f"--server={self.address}"]
        line += [f"--seed={seed}", f"--output={output}", f"--deadline={seconds}s", *more]
        done = subprocess.run(line, capture_output=True, text=True, timeout=2 * seconds)
        if done.returncode != 0:
            raise SystemExit(f"{prompt!r}: status {done.returncode}\n{done.stderr}\n{''.join(self.log)}")


def decode(file: Path) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Returns frames [F, H, W, 3] uint8 and sound [2, samples] in [-1, 1] at RATE."""
    found = subprocess.run(
        ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "stream=width,height", "-of", "json", file],
        capture_output=True,
        check=True,
    )
    stream = json.loads(found.stdout)["streams"][0]

    def read(*arguments: str) -> bytes:
        line = ["ffmpeg", "-v", "error", "-i", file, *arguments, "-"]
        return subprocess.run(line, capture_output=True, check=True).stdout

    pixels = numpy.frombuffer(read("-f", "rawvideo", "-pix_fmt", "rgb24"), numpy.uint8)
    sound = numpy.frombuffer(read("-f", "f32le", "-ac", "2", "-ar", str(RATE)), numpy.float32)
    return pixels.reshape(-1, stream["height"], stream["width"], 3), sound.reshape(-1, 2).T


def prompts(count: int, seed: int) -> list[tuple[scene.Scene, grammar.Said]]:
    """Returns scenes and their descriptions from one random stream: the first are the same for any count."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        shown = scene.sample(rng, "held_out")
        found.append((shown, grammar.describe(shown, rng)))
    return found


def answers(
    shown: scene.Scene, said: grammar.Said, frames: numpy.ndarray, sound: numpy.ndarray
) -> list[tuple[str, str, str]]:
    """Returns (question, the prompt's value, measured value) for everything that the prompt names. frames, sound: as
    from decode()."""
    seen = measure_picture.measure(frames, len(shown.things))
    heard = measure_sound.listen(sound, RATE)
    found = []
    if "background" in said.names:
        found.append(("background", shown.background, seen.background))
    for i, thing in enumerate(shown.things):
        other = seen.things[i] if i < len(seen.things) else None
        for name in ("colour", "shape", "size", "motion", "place"):
            if f"{i}.{name}" not in said.names or (name == "size" and thing.motion in ("grow", "shrink")):
                continue
            wanted, measured = getattr(thing, name), getattr(other, name) if other else "nothing"
            if measure_picture.same(name, thing, other):
                measured = wanted
            question = "direction" if name == "motion" and wanted in scene.DIRECTIONS else name
            found.append((question, wanted, measured))
    if "tone" in said.names:
        found.append(("tone", "sound" if shown.tone else "silence", "sound" if heard.present else "silence"))
        for name in ("pitch", "wave", "rhythm"):
            if shown.tone and name in said.names:
                found.append((name, getattr(shown.tone, name), getattr(heard, name)))
    return found


class Tally:
    """Counts questions and right answers by category; all questions about two things count as "two things"."""

    def __init__(self):
        self.right, self.asked = collections.Counter(), collections.Counter()

    def add(self, shown: scene.Scene, found: list[tuple[str, str, str]]) -> str:
        """Counts the answers of one clip. Returns a readable list of the wrong ones."""
        wrong = []
        for question, wanted, measured in found:
            of_thing = question in ("colour", "shape", "size", "motion", "direction", "place")
            for key in ("all", "two things" if of_thing and len(shown.things) > 1 else question):
                self.asked[key] += 1
                self.right[key] += wanted == measured
            if wanted != measured:
                wrong.append(f"{question}: {wanted}, measured {measured}")
        return f"  ✗ {'; '.join(wrong)}" if wrong else ""

    def share(self) -> float:
        return self.right["all"] / max(1, self.asked["all"])


def report(tally: Tally) -> None:
    right, asked = tally.right, tally.asked
    print(f"\n| what the prompt names | asked | right | share | chance | goal |\n|---|---:|---:|---:|---:|---:|")
    for name in [*CHANCE, "two things", "all"]:
        if asked[name]:
            share, chance = right[name] / asked[name], CHANCE.get(name)
            shown = f"{chance:.2f}" if chance else ""
            goal = f"{GOAL[name]:.2f}" if name in GOAL else ""
            print(f"| {name} | {asked[name]} | {right[name]} | {share:.2f} | {shown} | {goal} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "demo")
    parser.add_argument("--device", default="", help="cpu or cuda; default: the best that is usable")
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1, help="of the prompts and of the renders")
    parser.add_argument("--clip-seconds", type=int, default=120, help="that a clip may take; on a CPU it takes a few")
    parser.add_argument("--threshold", type=float, default=0.0, help="least share of right answers, 0 to 1")
    parser.add_argument("--keep", type=Path, help="folder for the clips; default: none is kept")
    parser.add_argument("--flag", action="append", default=[], help="another flag of `kinora generate`; may repeat")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the server ends, too
    tally = Tally()
    folder = tempfile.TemporaryDirectory()
    with folder as temporary, Server(args.build, args.model, args.device, Path(temporary)) as server:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for i, (shown, said) in enumerate(prompts(args.prompts, args.seed)):
            file = folder / f"{i:03d}.mp4"
            server.generate(said.prompt, args.seed * 100_000 + i, file, args.clip_seconds, args.flag)
            wrong = tally.add(shown, answers(shown, said, *decode(file)))
            print(f"{i:03d} {said.prompt}{wrong}", flush=True)
    report(tally)
    if tally.share() < args.threshold:
        raise SystemExit(f"{tally.share():.3f} of the answers are right, fewer than {args.threshold}")


if __name__ == "__main__":
    main()
