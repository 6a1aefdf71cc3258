#!/usr/bin/env python3
"""Every script has a help text and rejects unknown arguments before it installs, builds or downloads anything: here,
the programs that would do so are not available."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(ROOT.glob("scripts/*")) + [ROOT / ".ci/run", ROOT / "clients/python/generate_stubs"]
HARMLESS = ["bash", "dirname", "sed"]


class Scripts(unittest.TestCase):
    def setUp(self) -> None:
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for program in HARMLESS:
            (self.path / program).symlink_to(shutil.which(program))

    def run_script(self, script: Path, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([str(self.path / "bash"), str(script), *arguments], cwd=self.path, capture_output=True, text=True,
                              env={"PATH": str(self.path), "HOME": str(self.path)})

    def test_help_prints_the_usage_and_does_nothing_else(self) -> None:
        self.assertGreaterEqual(len(SCRIPTS), 10)
        for script in SCRIPTS:
            for flag in ("--help", "-h"):
                with self.subTest(script=script.name, flag=flag):
                    done = self.run_script(script, flag)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn(str(script.relative_to(ROOT)), done.stdout)

    def test_an_unknown_flag_is_rejected_by_name(self) -> None:
        for script in SCRIPTS:
            with self.subTest(script=script.name):
                done = self.run_script(script, "--no-such-flag")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("--no-such-flag", done.stderr)

    def test_a_value_that_is_missing_is_named(self) -> None:
        for script, flag in (("test", "-R"), ("test-pods", "--worker-image"), ("install-deps", "--wheels-to")):
            with self.subTest(script=script):
                done = self.run_script(ROOT / "scripts" / script, flag)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{flag}: needs", done.stderr)

    def test_flags_of_ctest_reach_it(self) -> None:
        # Recording stand-ins in a copy of the top folders: the programs that scripts/test would run.
        scripts = self.path / "tree" / "scripts"
        scripts.mkdir(parents=True)
        shutil.copy(ROOT / "scripts/test", scripts / "test")
        for place, name in ((scripts, "install-deps"), (self.path, "cmake"), (self.path, "nproc"), (self.path, "ctest")):
            (place / name).write_text(f'#!{self.path}/bash\n[ {name} != ctest ] || echo "$@"\n')
            (place / name).chmod(0o755)
        done = self.run_script(scripts / "test", "-R", "media", "--rerun-failed", "--", "--print-labels")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("-R media --rerun-failed --print-labels\n"), done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
