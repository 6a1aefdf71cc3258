"""Shared by the tests of clients: a running frontend with its worker, the package installed as by a user, the code
blocks of pages, and a visible way to skip a test."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
START_SECONDS = 120  # allowance for a busy machine
SKIPPED = 77  # as in CMakeLists.txt


def main(modules: list[str] = [], programs: list[str] = [], folders: list[str] = []) -> None:
    """Runs the tests of the calling file. Skips them with a message if a requirement is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, default=BUILD)
    arguments, rest = parser.parse_known_args()
    globals()["BUILD"] = arguments.build
    require(modules, programs, folders)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


def require(modules: list[str] = [], programs: list[str] = [], folders: list[str] = []) -> None:
    """Ends the program with a message if one of these is missing."""
    missing = [f"the Python module {name}" for name in modules if importlib.util.find_spec(name) is None]
    missing += [f"the program {name}" for name in programs if shutil.which(name) is None]
    missing += [name for name in folders if not Path(name).exists()]
    if missing:
        must = bool(os.environ.get("KINORA_MUST_RUN"))
        print(f"{'FAILED' if must else 'SKIPPED'}: this needs {', '.join(missing)}; scripts/install-deps --ci installs all of it")
        sys.exit(1 if must else SKIPPED)


RESERVED: list[socket.socket] = []


def free_port() -> int:
    """Returns a port that the system gives to no other process while this one runs: it stays bound, without listening. A server can
    listen there if it sets SO_REUSEADDR, as Kinora's do; until then, connections are refused."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    RESERVED.append(holder)
    return holder.getsockname()[1]


class Frontend:
    """A frontend with one supervised worker on 127.0.0.1, and its state, during the `with` block.

    model: a folder of models/; "": the flags name the model's files."""

    def __init__(self, folder: Path, model: str = "tiny", flags: list[str] = [], bin: Optional[Path] = None):
        files = ROOT / "models" / model
        model_flags = [f"--worker-model={next(files.glob('*-dev.safetensors'))}",
                       f"--worker-model=text_encoder={files / 'gemma'}", "--worker-model=kind=dev"] if model else []
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log: list[str] = []
        self._ready = threading.Event()
        self._command = [str((bin or BUILD / "bin") / "kinora-frontend"), f"--address={self.address}", "--http-address=", "--web-address=",
                         f"--state-directory={folder / 'state'}", "--worker-http-address=", "--min-free-bytes=0",
                         *model_flags, *flags]

    def __enter__(self) -> Frontend:
        self.start()
        self.await_ready()
        return self

    def start(self) -> None:
        self._ready.clear()
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._process.stderr as lines:  # ends with the process
            for line in lines:
                self.log.append(line)
                if "event=group_ready" in line:
                    self._ready.set()

    def await_ready(self) -> None:
        if not self._ready.wait(START_SECONDS):
            self.stop()
            raise AssertionError("the frontend is not ready:\n" + "".join(self.log))

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader.join()


def run(command: list[str], folder: Path, **environment: str) -> str:
    """Returns standard output. Raises AssertionError with the rest of the output if the command fails."""
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def install_package(folder: Path) -> Path:
    """Installs clients/python with pip and returns its location. google.rpc (from googleapis-common-protos) is added
    beside it."""
    source, target = folder / "source", folder / "site"
    shutil.copytree(ROOT / "clients" / "python", source)  # setuptools builds in the source folder
    run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps",
         "--no-build-isolation", "--target", str(target), str(source)], folder)
    generate_google_rpc(target)
    return target


def generate_google_rpc(target: Path) -> None:
    run(["protoc", "-I", str(ROOT / "proto"), f"--python_out={target}", "google/rpc/status.proto", "google/rpc/error_details.proto"],
        target)


def video_codec(name: str, folder: Path) -> str:
    return run(["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "stream=codec_name", "-of", "csv=p=0", name],
               folder).strip()


def blocks(kind: str, page: Path = ROOT / "docs/clients.md") -> list[str]:
    """Returns the blocks of a page that start with ```KIND."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


class PageTest(unittest.TestCase):
    """Runs in an empty folder that contains `proto`, with a server of the demo model."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "proto").symlink_to(ROOT / "proto")
        self.frontend = self.enterContext(Frontend(self.folder, "demo"))

    def here(self, block: str) -> str:
        self.assertIn("127.0.0.1:8470", block)
        return block.replace("127.0.0.1:8470", self.frontend.address)

    def check_clip(self, name: str, codec: str = "h264") -> None:
        self.assertEqual(video_codec(name, self.folder), codec)
