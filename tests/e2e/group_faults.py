#!/usr/bin/env python3
"""Injects random faults into a frontend and its group of processes, which must not lose anything.

    python3 tests/e2e/group_faults.py --build build/release --faults 50 [--seed 7]

A group of processes (--ranks) serves the tiny model. For each job, at a random moment of a random stage or of a load, a
random rank is killed or stopped, or the frontend is killed and restarted. Every job must end COMPLETED with the bytes
of kinora-render, or, after two lost groups, FAILED with WORKER_GROUP_LOST; afterwards no process, port or shared memory
may be left. Prints the seed, each fault, and the seconds until the job's end. Exits with status 1 at the first job that
ends otherwise.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "tiny"
FILES = [MODEL / "ltx-2.3-tiny-dev.safetensors", f"text_encoder={MODEL / 'gemma'}", "kind=dev"]
STEPS = 60
CLIP = ["--recipe=ONE_STAGE", f"--steps={STEPS}", "--width=64", "--height=64", "--frames=9", "--seed=7"]
PROMPT = "a red fox in fresh snow"
PATIENCE = 300  # seconds that a job may take including its faults


class Frontend:
    """The frontend and its group. A thread reads its log; callers wait for events by name."""

    def __init__(self, build: Path, folder: Path, ranks: str, processes: int):
        self.build, self.folder = build / "bin", folder
        config = folder / "kinora.textproto"
        models = " ".join(f"model: '{file}'" for file in FILES)
        config.write_text(
            f"groups {{ id: 'pair' processes: {processes} worker {{ {models} model_id: 'tiny' device: 'cpu' precision: 'f32' "
            f"threads: 2 http_address: '' ranks: '{ranks}' }} }}\n"
        )
        self.server = f"--server=unix:{folder}/api.sock"
        self.command = [
            str(self.build / "kinora-frontend"),
            f"--config={config}",
            f"--address=unix:{folder}/api.sock",
            f"--state-directory={folder}/state",
            "--http-address=",
            "--web-address=",
            "--min-free-bytes=0",
            "--worker-heartbeat-timeout-seconds=3",
        ]
        self.changed = threading.Condition()
        self.seen: list[str] = []
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        self.begin = self.mark()
        threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True).start()

    def _read(self, stream) -> None:
        for line in stream:
            with self.changed:
                self.seen.append(line)
                self.changed.notify_all()

    def await_group(self) -> None:
        """Waits until a group has been ready since the start of this frontend, which then knows the model."""
        with self.changed:
            if not self.changed.wait_for(lambda: any("group_ready" in line for line in self.seen[self.begin :]), PATIENCE):
                raise SystemExit("no group is ready\n" + "".join(self.seen[-60:]))

    def mark(self) -> int:
        with self.changed:
            return len(self.seen)

    def workers(self) -> list[int]:
        """Returns the process ids of the ranks, in rank order."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == self.process.pid and arguments[0].endswith(b"kinora-worker"):
                rank = next((int(a.split(b"=")[1]) for a in arguments if a.startswith(b"--rank=")), 0)
                found.append((rank, int(entry.name)))
        return [pid for _, pid in sorted(found)]

    def client(self, *arguments: str) -> subprocess.Popen:
        return subprocess.Popen(
            [str(self.build / "kinora"), *arguments, self.server], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def rendered(build: Path, folder: Path) -> bytes:
    path = folder / "rendered.mp4"
    models = [word for file in FILES for word in ("--model", str(file))]
    command = [str(build / "bin" / "kinora-render"), *models, "--prompt", PROMPT, "--precision=f32", "--quiet", *CLIP]
    subprocess.run([*command, "--output", str(path)], check=True)
    return path.read_bytes()


def strike(frontend: Frontend, chance: random.Random) -> str:
    """Injects one fault into one process. Returns its description."""
    kind = chance.choice(["kill", "kill", "stop", "stop", "frontend"])
    if kind == "frontend":
        frontend.process.kill()
        frontend.process.wait()
        frontend.start()
        return "the frontend killed and started again"
    workers = frontend.workers()
    if not workers:
        return "nobody was there to be hit"
    rank = chance.randrange(len(workers))
    try:
        os.kill(workers[rank], signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
    except ProcessLookupError:
        return f"rank {rank} had just ended"
    return f"rank {rank} {'killed' if kind == 'kill' else 'stopped'}"


def one_job(frontend: Frontend, chance: random.Random, expected: bytes, folder: Path, number: int) -> str:
    """Runs a job with one fault. Returns an error message, or ""."""
    path = folder / "served.mp4"
    path.unlink(missing_ok=True)
    frontend.await_group()
    begin = time.monotonic()
    job = frontend.client("generate", PROMPT, "--output", str(path), "--reconnect=120s", *CLIP)
    reader = Progress(job)
    moment = chance.choice(["load", "encode", "denoise", "denoise", "decode", "end"])
    reader.await_stage(moment)
    moments = threading.Event()  # never set; used to sleep
    if moment == "load":
        for pid in frontend.workers()[:1]:
            os.kill(pid, signal.SIGKILL)  # the group restarts, and is hit while it loads
    moments.wait(chance.random() * (2 if moment == "load" else 0.3))
    what = strike(frontend, chance)
    try:
        status = job.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        job.kill()
        return f"the job of fault {number} ({what} in {moment}) has not ended after {PATIENCE} s\n{reader.text()}"
    seconds = time.monotonic() - begin
    if status == 0:
        outcome = "the same bytes" if path.read_bytes() == expected else "OTHER BYTES"
    else:
        record, _ = frontend.client("get", reader.job(), "--json").communicate(timeout=PATIENCE)
        outcome = "WORKER_GROUP_LOST" if "WORKER_GROUP_LOST" in record else f"exit status {status}"
    print(f"{number:3}  {moment:8}  {what:42}  {seconds:6.1f} s  {outcome}", flush=True)
    return "" if outcome in ("the same bytes", "WORKER_GROUP_LOST") else reader.text()


class Progress:
    """Reads the client's messages about its job as they arrive."""

    WORDS = {"load": "", "encode": "encode", "denoise": "denoise", "decode": "decode", "end": "decode_audio"}

    def __init__(self, job: subprocess.Popen):
        self.lines: list[str] = []
        self.changed = threading.Condition()
        self.over = False
        threading.Thread(target=self._read, args=(job,), daemon=True).start()

    def _read(self, job: subprocess.Popen) -> None:
        for line in job.stderr:
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def await_stage(self, stage: str) -> None:
        with self.changed:
            word = self.WORDS[stage]
            self.changed.wait_for(lambda: self.over or any(word in line for line in self.lines), PATIENCE)

    def job(self) -> str:
        """Returns the job's id, from the first line about its state."""
        with self.changed:
            return next(line.split()[1].rstrip(":") for line in self.lines if line.startswith("job "))

    def text(self) -> str:
        with self.changed:
            return "".join(self.lines)


def left_behind(build: Path, folder: Path, shared_before: set[str]) -> list[str]:
    """Returns remaining processes of this build, its partial files, and new shared memory."""
    left = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            program = os.readlink(entry / "exe")
        except OSError:
            continue
        if program.startswith(str(build.resolve() / "bin")) and str(folder).encode() in (entry / "cmdline").read_bytes():
            left.append(f"process {entry.name}: {program}")
    left += [f"shared memory {name}" for name in set(os.listdir("/dev/shm")) - shared_before]
    left += [f"half a file: {path}" for path in folder.rglob("*.part*")]
    left += [f"socket {path}" for path in (folder / "state").glob("*.sock")]
    return left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--ranks", default="tokens=2", help="the mesh of the group, AXIS=N,…")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    chance = random.Random(arguments.seed)
    processes = 1
    for part in arguments.ranks.split(","):
        processes *= int(part.split("=")[1])
    shared_before = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = rendered(arguments.build, folder)
        frontend = Frontend(arguments.build, folder, arguments.ranks, processes)
        wrong = ""
        for number in range(1, arguments.faults + 1):
            wrong = one_job(frontend, chance, expected, folder, number)
            if wrong:
                break
        if wrong:
            print(wrong, "".join(frontend.seen[-60:]), sep="\n-- the frontend's log\n", file=sys.stderr)
        status = frontend.stop()
        left = left_behind(arguments.build, folder, shared_before)
    print(f"the frontend's exit status: {status}; left behind: {left or 'nothing'}")
    return 1 if wrong or status != 0 or left else 0


if __name__ == "__main__":
    sys.exit(main())
