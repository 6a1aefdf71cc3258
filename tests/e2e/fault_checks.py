"""What must be true of a job after the faults of tests/e2e/frontend_faults.py. Each check yields what is wrong."""

from __future__ import annotations

import collections
from typing import Any, Iterator

Events = list[tuple[int, str]]  # the sequence of each stored event, and what it says
TERMINAL = ("COMPLETED", "FAILED", "CANCELLED")


def clip_digests(video: Any) -> dict[str, str]:
    return {artifact.id: artifact.sha256 for artifact in video.artifacts}


def wrong_history(events: Events) -> Iterator[str]:
    """What is wrong with the stored events of a job that has ended."""
    sequences = [sequence for sequence, _ in events]
    if sequences != list(range(1, len(events) + 1)):
        yield f"its sequences are {sequences}"
    ends = [number for number, (_, says) in enumerate(events) if says.startswith("terminal")]
    if ends != [len(events) - 1]:
        yield f"{len(ends)} terminal events, after {ends} of {len(events)}"
    attempts = [number for number, _ in attempts_of(events)]
    if attempts != sorted(set(attempts)):
        yield f"its attempts were {attempts}"
    for number, stages in attempts_of(events):
        once = [stage for stage in stages if stage != "stage put_on_loras"]  # again before a second stage
        if len(once) != len(set(once)):
            yield f"attempt {number} had the stages {stages}"


def attempts_of(events: Events) -> list[tuple[int, list[str]]]:
    """Returns the numbers of the attempts that began, with their stages."""
    attempts: list[tuple[int, list[str]]] = []
    waits = True
    for _, says in events:
        if says.startswith("state QUEUED"):
            waits = True
        elif says.startswith("state RUNNING"):  # again once it is known how the clip is computed
            number = int(says.rpartition(" ")[2])
            if waits or attempts[-1][0] != number:
                attempts.append((number, []))
            waits = False
        elif says.startswith("stage") and attempts:
            attempts[-1][1].append(says)
    return attempts


def wrong_view(seen: Events, stored: Events) -> Iterator[str]:
    """What is wrong with what a watcher saw of a job that has ended."""
    if seen == stored:
        return
    numbers = [sequence for sequence, _ in seen]
    if missing := sorted({sequence for sequence, _ in stored} - set(numbers)):
        yield f"events {missing} were not seen"
    if twice := sorted(number for number, times in collections.Counter(numbers).items() if times > 1):
        yield f"events {twice} were seen twice"
    if numbers != sorted(numbers):
        yield f"events were seen in the order {numbers}"
    if others := sorted(set(seen) - set(stored)):
        yield f"events were seen that are not stored: {others}"


def wrong_result(video: Any, state: str, reason: str, expected: dict[str, str]) -> Iterator[str]:
    """What is wrong with the end of a job. reason: of its failure."""
    if state == "COMPLETED":
        if clip_digests(video) != expected:
            yield f"it has the digests {clip_digests(video)}, not {expected}"
    elif state != "FAILED":
        yield f"it is {state}"
    elif reason != "WORKER_GROUP_LOST" or video.attempt < 2:  # the first lost group queues it again
        yield f"it failed without a fault that explains it: {reason} {video.error.message}"
