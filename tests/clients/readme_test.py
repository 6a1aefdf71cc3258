#!/usr/bin/env python3
"""The blocks of README.md "Use it", in their order, as a reader pastes them in a clone: the server, the command line, Python, Ctrl-C.

They use the default ports. The test therefore moves to a network namespace of its own; where that is not allowed, the ports must
be free. Without a network, what pip would take from the index is Debian's, and google.rpc is generated.

The blocks of "Real weights" need 72 GB of files and an account, so they are not run: their syntax and flags are checked.
"""

import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import harness

PAGE = harness.ROOT / "README.md"
INSIDE = "KINORA_README_TEST_INSIDE"  # set in the namespace
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def enter_namespace() -> None:
    """Runs this file again in a network namespace with only a loopback interface, if that is allowed."""
    if INSIDE in os.environ:
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        return
    unshare = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") and subprocess.run([*unshare, "true"], capture_output=True).returncode == 0:
        os.execvpe("unshare", [*unshare, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
    print("no network namespace: this needs the ports 8470, 8480 and 8481")


def block(kind: str) -> str:
    (found,) = harness.blocks(f"bash {kind}", PAGE)
    return found


class UseIt(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "build").mkdir()
        (self.folder / "build/release").symlink_to(harness.BUILD.resolve())
        (self.folder / "models").symlink_to(harness.ROOT / "models")
        shutil.copytree(harness.ROOT / "clients/python", self.folder / "clients/python")  # setuptools builds in it
        python = Path(sys.executable).parent
        self.environment = {"PATH": f"{self.folder}/build/release/bin:{python}:{os.environ['PATH']}", "HOME": str(self.folder)}

    def start_server(self) -> subprocess.Popen:
        server = subprocess.Popen(["bash", "-ec", block("server")], cwd=self.folder, start_new_session=True)
        self.addCleanup(server.wait)
        self.addCleanup(lambda: server.poll() is None and os.killpg(server.pid, signal.SIGKILL))
        self.paste(f"kinora health --service kinora.v1.VideoGeneration --wait {harness.START_SECONDS}s")
        return server

    def paste(self, text: str, **environment: str) -> str:
        return harness.run(["bash", "-ec", text], self.folder, **self.environment, **environment)

    def without_index(self) -> dict[str, str]:
        import grpc

        site = self.folder / "site"
        site.mkdir()
        harness.generate_google_rpc(site)
        return {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0",  # 0: without isolation
                "PYTHONPATH": f"{site}:{Path(grpc.__file__).parents[1]}"}

    def test_server_command_line_python_and_ctrl_c(self) -> None:
        server = self.start_server()

        listed = self.paste(block("client")).splitlines()[-3:]
        self.assertRegex(listed[0], r"^ID +STATE ")
        self.assertEqual([line.split()[1] for line in listed[1:]], ["COMPLETED", "COMPLETED"])
        self.assertEqual(harness.video_codec("triangle.mp4", self.folder), "h264")
        self.assertEqual(harness.video_codec("circle.webm", self.folder), "vp9")

        printed = self.paste(block("python"), **self.without_index())
        clip = r"Clip\(id='\w+', path=PosixPath\('square.mp4'\), seed=\d+, width=128, height=128, frames=25, fps=24.0\)"
        self.assertRegex(printed, rf"\A{clip}\n\Z")
        self.assertEqual(harness.video_codec("square.mp4", self.folder), "h264")

        os.killpg(server.pid, signal.SIGINT)
        self.assertEqual(server.wait(timeout=60), 0)
        self.assertTrue((self.folder / "kinora-state/jobs.db").exists())

    def test_blocks_of_real_weights_are_not_run_but_their_syntax_and_flags_are_checked(self) -> None:
        blocks = re.findall(r"^ +```bash released\n(.*?)^ +```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 3)
        checked = set()
        for text in map(textwrap.dedent, blocks):
            harness.run(["bash", "-nc", text], self.folder)
            for command in re.split(r"\n|&&", text.replace("\\\n", " ")):
                program, *arguments = shlex.split(command) or [""]
                if program not in ("kinora", "kinora-frontend"):
                    continue
                help = [program, "help", arguments[0]] if program == "kinora" else [program, "--help"]
                known = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", self.paste(shlex.join(help)))
                for flag in (argument for argument in arguments if argument.startswith("-")):
                    self.assertIn(flag, known, command)
                    checked.add(flag)
        self.assertGreater(len(checked), 6)


if __name__ == "__main__":
    enter_namespace()
    harness.main(modules=["grpc", "pip", "ensurepip"], programs=["protoc", "ffprobe"])
