#!/usr/bin/env python3
"""Runs the blocks of docs/http.md as a reader would paste them: the curl lines in one shell, and OpenAI's own client."""

import sys

import harness
from gateway_test import Gateway
from openai_client_test import FOLDER

ADDRESS = "127.0.0.1:8472"
PAGE = harness.ROOT / "docs/http.md"


class HttpPage(harness.PageTest):
    def setUp(self) -> None:
        super().setUp()
        self.gateway = self.enterContext(Gateway(self.frontend.address))

    def paste(self, kind: str, *command: str, **environment: str) -> str:
        text = "".join(harness.blocks(kind, PAGE))
        self.assertIn(ADDRESS, text)
        return harness.run([*command, text.replace(ADDRESS, f"127.0.0.1:{self.gateway.port}")], self.folder, **environment)

    def test_the_quick_start_with_curl(self) -> None:
        self.assertEqual(len(harness.blocks("bash http", PAGE)), 3)
        out = self.paste("bash http", "bash", "-euo", "pipefail", "-c")
        self.assertRegex(out, r"(?m)^event: snapshot\n(.*\n)+^event: step\n(.*\n)+^event: terminal\n")
        self.check_clip("triangle.mp4")
        self.assertEqual((self.folder / "circle.jpg").read_bytes()[:2], b"\xff\xd8")
        head = (self.folder / "head.mp4").read_bytes()
        self.assertEqual((len(head), head[4:8]), (1000, b"ftyp"))
        self.assertRegex(out, r'"object":"list"(.|\n)*"deleted":true')

    def test_openais_client(self) -> None:
        out = self.paste("python openai", sys.executable, "-c", PYTHONPATH=str(FOLDER))
        self.assertEqual(out, "completed 128x128 1.042\n")
        self.check_clip("square.mp4")


if __name__ == "__main__":
    harness.main(programs=["curl", "ffprobe"], folders=[str(FOLDER)])
