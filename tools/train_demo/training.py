"""What every training stage shares: steps that can be resumed, a snapshot of averaged weights, a record of the losses."""

import copy
import dataclasses
import enum
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import muon
import published


@dataclasses.dataclass
class Options:
    """What the command line gives every stage."""

    work: Path  # snapshots and caches
    device: str
    seed: int
    steps: int  # 0: the stage's own
    minutes: float  # stop after these many, resumable; 0: run to the last step
    batch: int  # 0: the stage's own
    published: bool  # begin with the published weights, not with new ones


class Stream(enum.IntEnum):
    """Seeds of what must not change with --seed, since stages share it."""

    SCENES = 3
    TRAJECTORY_PROMPTS = 5
    TRAJECTORY_NOISE = 6
    STATISTICS = 7


def fold_in(seed: int, step: int) -> int:
    """A seed of its own for every step, so that a resumed run sees the same data."""
    return (seed * 1_000_003 + step * 7_919 + 12_345) % (2**63)


def autocast(device: str):
    """bfloat16 where the device multiplies it faster."""
    return torch.autocast(device.split(":")[0], torch.bfloat16)


def attention(device: str):
    """Attention by products and softmax on a CPU, where the backward pass of the fused kernel is slower."""
    every = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    return sdpa_kernel([SDPBackend.MATH] if device == "cpu" else every)


class Run:
    """One stage's training: warm-up and cosine decay, averaged weights, a snapshot every few minutes.

    Muon steps the linear maps at `matrix_rate`, Adam everything else at `rate`; without `matrix_rate` Adam steps all.

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
        matrix_rate: float = 0.0,
        average: float = 0.999,
        warmup: int = 200,
        weight_decay: float = 0.0,
    ):
        self.name, self.options, self.module = name, options, module
        self.steps, self.warmup = options.steps or steps, warmup
        self.average = average
        matrices = muon.takes(module) if matrix_rate else []
        taken = {id(p) for p in matrices}
        others = [p for p in module.parameters() if p.requires_grad and id(p) not in taken]
        self.optimizers = [torch.optim.AdamW(others, rate, (0.9, 0.99), weight_decay=weight_decay)]
        if matrices:
            self.optimizers.append(muon.Muon(matrices, matrix_rate))
        self.rates = [rate, matrix_rate]
        if options.published and not published.load(name, module):
            raise SystemExit(f"{name}: not published, so it cannot begin with what is")
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
        for name, parameter in self.module.named_parameters():
            if not (parameter.requires_grad or torch.equal(parameter, state["module"][name])):
                print(f"{self.file} began from other weights: begins anew", flush=True)
                return
        self.module.load_state_dict(state["module"])
        self.averaged.load_state_dict(state["averaged"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.seconds = state["step"], state["seconds"]
        self.history = state["history"]
        print(f"{self.name}: goes on from step {self.step}", flush=True)

    def save(self) -> None:
        state = {
            "module": self.module.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
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

    def _set_rates(self) -> None:
        progress = min(1.0, self.step / self.steps)
        part = min(1.0, (self.step + 1) / self.warmup) * (0.02 + 0.98 * (1 + math.cos(math.pi * progress)) / 2)
        for optimizer, rate in zip(self.optimizers, self.rates):
            for group in optimizer.param_groups:
                group["lr"] = rate * part

    def _average(self) -> None:
        keep = min(self.average, (self.step + 1) / (self.step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averaged.parameters()), list(self.module.parameters()), 1 - keep)
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
            self._set_rates()
            value, records = loss(self.step)
            self.module.zero_grad(set_to_none=True)
            value.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
            if torch.isfinite(norm):
                for optimizer in self.optimizers:
                    optimizer.step()
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


def has_statistics(vae: torch.nn.Module) -> bool:
    """Has the autoencoder taken its latents' mean and deviation? Until then they are 0 and 1."""
    return not bool((vae.latents_std == 1).all())


def load_averaged(work: Path, name: str, module: torch.nn.Module, device: str = "cpu") -> torch.nn.Module:
    """The averaged weights that the stage `name` left under `work`, or those published, in `module`."""
    file = work / f"{name}.pt"
    if file.exists():
        module.load_state_dict(torch.load(file, map_location=device, weights_only=True)["averaged"])
    elif not published.load(name, module):
        raise SystemExit(f"{file}: not there; run the stage {name} first")
    return module.to(device).requires_grad_(False).eval()
