#!/usr/bin/env python3
"""The files of `cmake --install` are sufficient to serve, to make a clip and to generate stubs, outside the source
tree."""

import tempfile
import unittest
from pathlib import Path

import harness

PROGRAMS = ["kinora", "kinora-frontend", "kinora-gateway", "kinora-render", "kinora-worker"]


MANUALS = {"share/man/man1/kinora.1", "share/bash-completion/completions/kinora", "share/zsh/site-functions/_kinora",
           "share/fish/vendor_completions.d/kinora.fish"}


class Install(unittest.TestCase):
    def test_the_installed_programs_and_proto_serve_away_from_the_tree(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        prefix = folder / "usr"
        manifest = harness.BUILD / "install_manifest.txt"  # an earlier installation may need it for its removal
        earlier = manifest.read_bytes() if manifest.exists() else None
        harness.run(["cmake", "--install", str(harness.BUILD), "--prefix", str(prefix)], folder)
        manifested = manifest.read_text()
        manifest.unlink() if earlier is None else manifest.write_bytes(earlier)
        installed = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
        self.assertLessEqual({f"bin/{program}" for program in PROGRAMS} | MANUALS | {"share/doc/kinora/LICENSE"}, installed)
        listed = {str(Path(line).relative_to(prefix)) for line in manifested.splitlines()}
        self.assertEqual(listed, installed)  # removed by docs/quickstart.md "Uninstall"
        for program in PROGRAMS:
            harness.run([str(prefix / "bin" / program), "--help"], folder)

        frontend = self.enterContext(harness.Frontend(folder, bin=prefix / "bin"))
        harness.run([str(prefix / "bin" / "kinora"), "generate", "a red fox", f"--server={frontend.address}", "--output=fox.mp4", "--width=64",
                     "--height=64", "--frames=9", "--steps=1"], folder)
        self.assertEqual((folder / "fox.mp4").read_bytes()[4:8], b"ftyp")
        harness.run(["protoc", "-I", str(prefix / "share/kinora/proto"), f"--python_out={folder}", "kinora/v1/video_generation.proto"], folder)


if __name__ == "__main__":
    harness.main(programs=["cmake", "protoc"])
