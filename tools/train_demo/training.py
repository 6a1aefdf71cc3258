"""What every training stage shares: steps that can be resumed, a snapshot of averaged weights, losses as a plot."""

import contextlib
import copy
import dataclasses
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

import plot
import snapshot


@dataclasses.dataclass
class Options:
    """What the command line gives every stage."""

    work: Path  # snapshots and caches
    device: str
    seed: int
    steps: int  # 0: the stage's own
    minutes: float  # stop after these many, resumable; 0: run to the last step
    batch: int  # 0: the stage's own


def fold_in(seed: int, step: int) -> int:
    """A seed of its own for every step, so that a resumed run sees the same data."""
    return (seed * 1_000_003 + step * 7_919 + 12_345) % (2**63)


def autocast(device: str):
    """bfloat16 where the device multiplies it faster."""
    return torch.autocast(device.split(":")[0], torch.bfloat16)


class Run:
    """One stage's training: Adam with warm-up and cosine decay, averaged weights, a snapshot every few minutes.

    loss(step) returns (loss to minimise, {name: value to record}). The state is `<work>/<name>.pt`, losses are
    `<work>/<name>.json`.
    """

    def __init__(
        self,
        name: str,
        options: Options,
        module: torch.nn.Module,
        *,
        steps: int,
        rate: float,
        average: float = 0.999,
        warmup: int = 200,
        weight_decay: float = 0.0,
    ):
        self.name, self.options, self.module = name, options, module
        self.steps, self.rate, self.warmup = options.steps or steps, rate, warmup
        self.average = average
        self.optimizer = torch.optim.AdamW(
            [p for p in module.parameters() if p.requires_grad], rate, (0.9, 0.99), weight_decay=weight_decay
        )
        self.averaged = copy.deepcopy(module).requires_grad_(False).eval()
        self.step = 0
        self.seconds = 0.0
        self.history: list[dict[str, float]] = []
        options.work.mkdir(parents=True, exist_ok=True)
        self.file = options.work / f"{name}.pt"
        if self.file.exists():
            self._resume()

    def _resume(self) -> None:
        state = torch.load(self.file, map_location=self.options.device, weights_only=True)
        self.module.load_state_dict(state["module"])
        self.averaged.load_state_dict(state["averaged"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.history = json.loads(self.file.with_suffix(".json").read_text())["history"]
        print(f"{self.name}: goes on from step {self.step}", flush=True)

    def save(self) -> None:
        state = {
            "module": self.module.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
        }
        for path, write in (
            (self.file, lambda p: torch.save(state, p)),
            (self.file.with_suffix(".json"), lambda p: p.write_text(json.dumps(self.summary()))),
        ):
            temporary = path.with_suffix(path.suffix + ".part")
            write(temporary)
            os.replace(temporary, path)

    def summary(self) -> dict:
        return {
            "name": self.name,
            "parameters": sum(p.numel() for p in self.module.parameters()),
            "steps": self.step,
            "hours": self.seconds / 3600,
            "history": self.history,
        }

    def _rate(self) -> float:
        progress = min(1.0, self.step / self.steps)
        return self.rate * min(1.0, (self.step + 1) / self.warmup) * (0.02 + 0.98 * (1 + math.cos(math.pi * progress)) / 2)

    def _average(self) -> None:
        keep = min(self.average, (self.step + 1) / (self.step + 10))
        with torch.no_grad():
            for a, p in zip(self.averaged.parameters(), self.module.parameters()):
                a.lerp_(p.detach(), 1 - keep)
            for a, b in zip(self.averaged.buffers(), self.module.buffers()):
                a.copy_(b)

    def train(
        self,
        loss: Callable[[int], tuple[torch.Tensor, dict[str, float]]],
        oracle: Callable[[torch.nn.Module], dict[str, float]] | None = None,
        every: int = 500,
    ) -> torch.nn.Module:
        """Runs to the last step, or as long as --minutes allows. Returns the averaged weights.

        oracle(averaged module) measures what the stage is for; called every `every` steps and at the end.
        """
        begin = last_save = time.monotonic()
        self.module.train()
        recent: dict[str, list[float]] = {}
        while self.step < self.steps:
            before = time.monotonic()
            for group in self.optimizer.param_groups:
                group["lr"] = self._rate()
            value, records = loss(self.step)
            self.optimizer.zero_grad(set_to_none=True)
            value.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
            if torch.isfinite(norm):
                self.optimizer.step()
                self._average()
            self.step += 1
            now = time.monotonic()
            self.seconds += now - before
            for key, number in records.items():
                recent.setdefault(key, []).append(number)
            over = self.options.minutes and now - begin > self.options.minutes * 60
            last = self.step == self.steps or over
            if self.step % 50 == 0 or last:
                row = {"step": self.step} | {k: sum(v) / len(v) for k, v in recent.items()}
                recent.clear()
                if oracle and (self.step % every == 0 or last):
                    with torch.no_grad():
                        row |= oracle(self.averaged)
                self.history.append(row)
                shown = " ".join(f"{k} {v:.4g}" for k, v in row.items() if k != "step")
                print(f"{self.name} {self.step}/{self.steps} {self.seconds / self.step:.3f} s {shown}", flush=True)
            if now - last_save > 180 or last:
                self.save()
                last_save = now
            if over:
                break
        return self.averaged

    def write_plot(self, file: Path) -> None:
        file.write_text(plot.losses(self.summary()))


def load_averaged(work: Path, name: str, module: torch.nn.Module, device: str = "cpu") -> torch.nn.Module:
    """The averaged weights that the stage `name` left under `work`, or in the committed snapshot, in `module`."""
    file = work / f"{name}.pt"
    if file.exists():
        module.load_state_dict(torch.load(file, map_location=device, weights_only=True)["averaged"])
    elif not snapshot.load(name, module):
        raise SystemExit(f"{file}: not there; run the stage {name} first")
    return module.to(device).requires_grad_(False).eval()


@contextlib.contextmanager
def quiet_float32():
    """Full float32 products inside (measurements against an engine that has no TF32)."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
