#!/usr/bin/env python3
"""Runs the commands of docs/recipes.md in order, as a reader would paste them, against the server that the page
starts."""

import os
import re
import shlex
import tempfile
import unittest
from pathlib import Path

import harness

PAGE = harness.ROOT / "docs/recipes.md"


class RecipesPage(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (server,) = harness.blocks("bash server", PAGE)
        program, *flags = shlex.split(server.replace("\\\n", " "))
        self.assertEqual(program, "kinora-frontend")
        more = [f"--worker-model={re.sub('models/', f'{harness.ROOT}/models/', v)}" for v in flags if "=" in v and "text_encoder" not in v]
        self.assertEqual(2 * (len(more) + 2), len(flags))  # the harness passes the model and text encoder
        self.frontend = self.enterContext(harness.Frontend(self.folder, "demo", more))

    def test_every_command_makes_its_file(self) -> None:
        path = f"{harness.BUILD / 'bin'}:{os.environ['PATH']}"
        made = []
        for block in harness.blocks("bash recipe", PAGE):
            harness.run(["bash", "-ec", block], self.folder, PATH=path, KINORA_SERVER=self.frontend.address)
            made += re.findall(r"^kinora generate .* -o (\S+)$", block, re.MULTILINE)
        self.assertGreaterEqual(len(made), 10)
        for name in made:
            streams = self.probe(name, "stream=codec_type", "-count_frames").split()
            self.assertEqual(streams, ["audio"] if name.endswith(".wav") else ["video", "audio"], name)

        self.assertEqual(self.probe("for-sound.mp4", "stream=nb_frames", "-select_streams", "v").strip(), "25")

    def probe(self, name: str, entries: str, *flags: str) -> str:
        return harness.run(["ffprobe", "-v", "error", *flags, "-show_entries", entries, "-of", "csv=p=0", name], self.folder)


if __name__ == "__main__":
    harness.main(programs=["ffmpeg", "ffprobe"])
