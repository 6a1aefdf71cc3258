"""Description and load of the machine, and a process's use of it."""

import os
import statistics
import threading
import time
from pathlib import Path

_FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16")


def description() -> str:
    """Returns the processor's name and its relevant flags, without the host name."""
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
    """Returns the runnable processes over the last minute. If it exceeds the number of cores used, wall times are
    unreliable."""
    return os.getloadavg()[0]


def median(values) -> float:
    return statistics.median(values)


class PeakMemory:
    """Measures the peak of a process's anonymous memory in bytes during its lifetime, sampled every 10 ms."""

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
    except (OSError, StopIteration):  # the process has ended
        return 0
    return int(line.split()[1]) * 1024


def settle() -> None:
    """Waits: OpenMP's threads spin for milliseconds after their work and must not share a core with the next
    measurement."""
    time.sleep(0.05)


def timed(run) -> tuple[float, float]:
    """Returns (wall, processor) seconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor
