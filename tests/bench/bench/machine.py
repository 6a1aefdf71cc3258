"""What the machine is and how busy, and what a process takes of it."""

import os
import statistics
import threading
import time
from pathlib import Path

_FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16")


def description() -> str:
    """Processor by name and the flags that matter here; no host name."""
    text = Path("/proc/cpuinfo").read_text()
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {k.strip(): v.strip() for k, v in fields.items()}
    flags = set(fields.get("flags", "").split())
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return (
        f"{fields.get('model name', 'unknown processor')} (family {fields.get('cpu family')}, "
        f"model {fields.get('model')}), {len(os.sched_getaffinity(0))} cores used, {memory:.0f} GiB; "
        f"flags: {' '.join(f for f in _FLAGS if f in flags)}"
    )


def load() -> float:
    """Runnable processes over the last minute: above the number of cores used, wall times mean little."""
    return os.getloadavg()[0]


def median(values) -> float:
    return statistics.median(values)


class PeakMemory:
    """Most anonymous memory of a process while this lives, in bytes, looked at every 10 ms."""

    def __init__(self, pid: int):
        self.peak, self._status, self._done = 0, Path(f"/proc/{pid}/status"), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self.peak = max(self.peak, anonymous(self._status))

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        return self.peak


def anonymous(status: Path = Path("/proc/self/status")) -> int:
    try:
        line = next(line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
    except (OSError, StopIteration):  # it has ended
        return 0
    return int(line.split()[1]) * 1024


def settle() -> None:
    """OpenMP's threads spin for milliseconds after their work: whoever runs next must not share a core with them."""
    time.sleep(0.05)


def timed(run) -> tuple[float, float]:
    """(wall, processor) seconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor
