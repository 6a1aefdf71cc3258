#!/usr/bin/env python3
"""Runs the Python code of docs/clients.md as a reader would paste it."""

import sys

import harness


class PythonBlocks(harness.PageTest):
    def test_what_the_package_does_on_the_page(self) -> None:
        site = harness.install_package(self.folder)
        blocks = harness.blocks("python package")
        self.assertEqual(len(blocks), 7)
        out = ""
        for block in blocks:
            out += harness.run([sys.executable, "-c", block], self.folder, PYTHONPATH=str(site), KINORA_SERVER=self.frontend.address)
        for expected in ("clip.mp4 128 128", "RUNNING denoise ", "['square-0.mp4', ", "nearest: 96"):
            self.assertIn(expected, out)
        for name in ("clip.mp4", "circle.mp4", "square-3.mp4", "triangle.mp4", "from-clip.mp4", "retake.mp4", "for-sound.mp4"):
            self.check_clip(name)
        self.check_clip("star.webm", "vp9")
        preview = (self.folder / "now.jpg").read_bytes()
        self.assertEqual((preview[:2], preview[-2:]), (b"\xff\xd8", b"\xff\xd9"))

    def test_the_stubs_in_one_command_and_the_client_in_eight_lines(self) -> None:
        (command,), (client,) = harness.blocks("bash stubs"), harness.blocks("python stubs")
        self.assertEqual(len(client.splitlines()), 8)
        harness.run(["bash", "-ec", command], self.folder)
        out = harness.run([sys.executable, "-c", self.here(client)], self.folder)
        self.assertIn("terminal", out)
        self.check_clip("clip.mp4")


if __name__ == "__main__":
    harness.main(modules=["grpc", "pip"], programs=["protoc", "grpc_python_plugin", "ffprobe"])
