#!/usr/bin/env python3
"""Every injected fault of tests/simt finds its text in the sources as often as it says. CI does not run the faults, so
a source that changes would otherwise silently lose some of them."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/simt"))
from injected_faults import FAULTS  # noqa: E402


class InjectedFaults(unittest.TestCase):
    def test_each_text_is_in_its_file(self) -> None:
        self.assertGreater(len(FAULTS), 50)
        for fault in FAULTS:
            with self.subTest(fault=fault.name):
                self.assertEqual((ROOT / fault.file).read_text().count(fault.text), fault.of)
                self.assertLessEqual(fault.nth, fault.of)


if __name__ == "__main__":
    unittest.main(verbosity=2)
