#!/usr/bin/env python3
"""The checks of tests/e2e/frontend_faults.py accept correct histories, views and results, and find every single change to them."""

import unittest
from types import SimpleNamespace

from fault_checks import wrong_history, wrong_result, wrong_view

STORED = list(enumerate([
    "state QUEUED of attempt 0", "state RUNNING of attempt 1", "state RUNNING of attempt 1", "stage encode", "stage denoise",
    "state QUEUED of attempt 1", "state RUNNING of attempt 2", "state RUNNING of attempt 2", "stage encode", "stage denoise",
    "state FINALIZING of attempt 2", "terminal COMPLETED of attempt 2"], start=1))  # fmt: skip


def numbered(events: list[str]) -> list[tuple[int, str]]:
    return list(enumerate(events, start=1))


def says(events: list[tuple[int, str]]) -> list[str]:
    return [text for _, text in events]


class Histories(unittest.TestCase):
    def assert_wrong(self, events: list[tuple[int, str]], text: str) -> None:
        self.assertIn(text, " ".join(wrong_history(events)))

    def test_one_with_two_attempts_is_right(self) -> None:
        self.assertEqual(list(wrong_history(STORED)), [])

    def test_every_missing_or_doubled_event_is_found(self) -> None:
        for place in range(len(STORED) - 1):
            self.assert_wrong(STORED[:place] + STORED[place + 1 :], "its sequences are")
            self.assert_wrong(STORED[: place + 1] + STORED[place:], "its sequences are")

    def test_a_job_without_an_end_with_two_or_with_an_event_behind_it_is_found(self) -> None:
        self.assert_wrong(STORED[:-1], "0 terminal events")
        self.assert_wrong(STORED + [(13, "terminal FAILED of attempt 2")], "2 terminal events")
        self.assert_wrong(STORED + [(13, "stage decode_video")], "1 terminal events, after [11] of 13")

    def test_an_attempt_that_runs_twice_or_before_an_earlier_one_is_found(self) -> None:
        again = [text.replace("attempt 2", "attempt 1") for text in says(STORED)]
        self.assert_wrong(numbered(again), "its attempts were [1, 1]")
        turned = [text.translate(str.maketrans("12", "21")) for text in says(STORED)]
        self.assert_wrong(numbered(turned), "its attempts were [2, 1]")

    def test_two_runs_that_write_as_one_attempt_are_found(self) -> None:
        self.assert_wrong(numbered(says(STORED[:5]) + says(STORED[3:])), "attempt 1 had the stages")


class Views(unittest.TestCase):
    def assert_wrong(self, seen: list[tuple[int, str]], text: str) -> None:
        self.assertIn(text, " ".join(wrong_view(seen, STORED)))

    def test_a_faithful_one_is_right(self) -> None:
        self.assertEqual(list(wrong_view(list(STORED), STORED)), [])

    def test_every_missing_doubled_turned_and_invented_event_is_found(self) -> None:
        for place in range(len(STORED)):
            self.assert_wrong(STORED[:place] + STORED[place + 1 :], f"events [{place + 1}] were not seen")
            self.assert_wrong(STORED[: place + 1] + STORED[place:], f"events [{place + 1}] were seen twice")
            self.assert_wrong(STORED[:place] + [(place + 1, "stage rest")] + STORED[place + 1 :], "not stored")
        self.assert_wrong([STORED[1], STORED[0], *STORED[2:]], "in the order [2, 1, 3")


class Results(unittest.TestCase):
    EXPECTED = {"clip.mp4": "ab", "thumbnail.jpg": "cd"}

    def wrong(self, state: str, reason: str = "", attempt: int = 2, **artifacts: str) -> str:
        listed = [SimpleNamespace(id=name.replace("_", "."), sha256=digest) for name, digest in artifacts.items()]
        video = SimpleNamespace(attempt=attempt, artifacts=listed, error=SimpleNamespace(message="why"))
        return " ".join(wrong_result(video, state, reason, self.EXPECTED))

    def test_the_expected_bytes_and_lost_groups_are_right(self) -> None:
        self.assertEqual(self.wrong("COMPLETED", clip_mp4="ab", thumbnail_jpg="cd"), "")
        self.assertEqual(self.wrong("FAILED", "WORKER_GROUP_LOST"), "")

    def test_other_bytes_missing_files_and_other_ends_are_found(self) -> None:
        self.assertIn("'clip.mp4': 'ax'", self.wrong("COMPLETED", clip_mp4="ax", thumbnail_jpg="cd"))
        self.assertIn("digests", self.wrong("COMPLETED", clip_mp4="ab"))
        self.assertIn("without a fault that explains it: DISK_FULL why", self.wrong("FAILED", "DISK_FULL"))
        self.assertIn("without a fault", self.wrong("FAILED", "WORKER_GROUP_LOST", attempt=1))
        self.assertEqual(self.wrong("RUNNING"), "it is RUNNING")
        self.assertEqual(self.wrong("CANCELLED"), "it is CANCELLED")


if __name__ == "__main__":
    unittest.main(verbosity=2)
