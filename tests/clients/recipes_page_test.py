#!/usr/bin/env python3
"""Runs the commands of docs/recipes.md in order, as a reader would paste them, against the servers that the page
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

    def server_flags(self, language: str) -> list[str]:
        """The values of --worker-model in the block that starts a server."""
        (server,) = harness.blocks(language, PAGE)
        program, *flags = shlex.split(server.replace("\\\n", " "))
        self.assertEqual(program, "kinora-frontend")
        self.assertEqual({*flags[::2]}, {"--worker-model"})
        return [re.sub("models/", f"{harness.ROOT}/models/", value) for value in flags[1::2]]

    def make_all(self, language: str, frontend: harness.Frontend) -> list[str]:
        path = f"{harness.BUILD / 'bin'}:{os.environ['PATH']}"
        made = []
        for block in harness.blocks(language, PAGE):
            harness.run(["bash", "-ec", block], self.folder, PATH=path, KINORA_SERVER=frontend.address)
            made += re.findall(r"^kinora generate .* -o (\S+)$", block, re.MULTILINE)
        for name in made:
            streams = self.probe(name, "stream=codec_type", "-count_frames").split()
            self.assertEqual(streams, ["audio"] if name.endswith(".wav") else ["video", "audio"], name)
        return made

    def frames(self, name: str) -> int:
        return int(self.probe(name, "stream=nb_frames", "-select_streams", "v"))

    def test_every_command_makes_its_file(self) -> None:
        values = self.server_flags("bash server")
        more = [f"--worker-model={value}" for value in values if "=" in value and "text_encoder" not in value]
        self.assertEqual(len(more) + 2, len(values))  # the harness passes the model and text encoder
        frontend = self.enterContext(harness.Frontend(self.folder, "demo", more))
        self.assertGreaterEqual(len(self.make_all("bash recipe", frontend)), 10)
        self.assertEqual(self.frames("for-sound.mp4"), 25)

    def test_every_command_works_with_ltx_2_5(self) -> None:
        values = self.server_flags("bash server-2.5")
        frontend = self.enterContext(harness.Frontend(self.folder, "", [f"--worker-model={value}" for value in values]))
        self.assertGreaterEqual(len(self.make_all("bash recipe-2.5", frontend)), 8)
        chosen = self.frames("chosen.mp4")
        self.assertTrue(12 <= chosen <= 48 and chosen % 8 == 1, chosen)

    def probe(self, name: str, entries: str, *flags: str) -> str:
        return harness.run(["ffprobe", "-v", "error", *flags, "-show_entries", entries, "-of", "csv=p=0", name], self.folder)


if __name__ == "__main__":
    harness.main(programs=["ffmpeg", "ffprobe"])
