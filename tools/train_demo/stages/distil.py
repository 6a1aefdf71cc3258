"""Distillation to the eight steps of the distilled schedule, as a LoRA on the dev model.

The teacher takes several guided steps between two noise levels of that schedule; the student learns the one step that
ends where they end, without guidance. Only low-rank differences are trained, so the LoRA is the student.
"""

import random

import torch
from torch.nn.utils import parametrize

import cache
import flow
import following
import model
import text
import training
from world import grammar, scene

STEPS, BATCH, RATE = 2000, 24, 1e-3
TRAJECTORIES, PIECE = 2400, 24
BETWEEN = 4  # teacher steps between two levels below 0.98; above, things hardly change
RANK = 6


class LowRank(torch.nn.Module):
    """W + B·A, zero at first."""

    def __init__(self, outputs: int, inputs: int):
        super().__init__()
        self.a = torch.nn.Parameter(torch.randn(RANK, inputs) / inputs**0.5)
        self.b = torch.nn.Parameter(torch.zeros(outputs, RANK))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + self.b @ self.a


def adapt(denoiser: flow.Denoiser) -> flow.Denoiser:
    """Freezes everything and gives every linear layer of the transformer a trainable low-rank difference."""
    denoiser.requires_grad_(False)
    for module in list(denoiser.transformer.modules()):
        if isinstance(module, torch.nn.Linear):
            parametrize.register_parametrization(module, "weight", LowRank(*module.weight.shape))
    return denoiser


def teacher_steps() -> tuple[list[float], list[int]]:
    """The teacher's noise levels, and where among them those of the distilled schedule are."""
    levels, marks = [flow.DISTILLED[0]], [0]
    for now, after in zip(flow.DISTILLED, flow.DISTILLED[1:]):
        count = BETWEEN if after < 0.98 else 1
        levels += [now + (after - now) * (i + 1) / count for i in range(count)]
        marks.append(len(levels) - 1)
    return levels, marks


def prompts(first: int, count: int) -> list[str]:
    lines = []
    for i in range(first, first + count):
        rng = random.Random(training.fold_in(training.Stream.TRAJECTORY_PROMPTS, i))
        lines.append(grammar.describe(scene.sample(rng), rng).prompt)
    return lines


def trajectories(options: training.Options, teacher: flow.Denoiser, encode: text.Encoder) -> flow.Pair:
    """The teacher's states at the levels of the distilled schedule: video [N, 9, tokens, C], audio [N, 9, T, C]."""
    levels, marks = teacher_steps()
    negative = teacher.contexts(*encode([model.NEGATIVE_PROMPT] * PIECE))

    def make(index: int) -> dict[str, torch.Tensor]:
        contexts = teacher.contexts(*encode(prompts(index * PIECE, PIECE)))
        seed = training.fold_in(training.Stream.TRAJECTORY_NOISE, index)
        x = flow.noise(PIECE, model.SIDE, model.FRAMES, seed, options.device)
        states = [x]
        for start, end in zip(marks, marks[1:]):
            between = levels[start : end + 1]
            x = flow.sample(teacher, contexts, negative, x, between, model.SIDE, model.FRAMES, model.GUIDANCE)
            states.append(x)
        return {name: torch.stack([getattr(s, name) for s in states], 1) for name in ("video", "audio")}

    return flow.Pair(**cache.pieces(options.work / "trajectories.pt", [teacher], TRAJECTORIES // PIECE, make))


def train(options: training.Options) -> None:
    torch.manual_seed(options.seed)
    encode = text.trained(options.work, options.device)
    dev = training.load_averaged(options.work, "transformer", flow.Denoiser(), options.device)
    states = trajectories(options, dev, encode)
    student = adapt(dev).to(options.device)
    run = training.Run("distil", options, student, steps=STEPS, rate=RATE)
    batch, levels = options.batch or BATCH, torch.tensor(flow.DISTILLED)

    def loss(step: int):
        rng = random.Random(training.fold_in(options.seed, step))
        rows = torch.tensor([rng.randrange(len(states.video)) for _ in range(batch)])
        at = torch.tensor([rng.choice((0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7)) for _ in range(batch)])
        now, after = levels[at], levels[at + 1]
        x = states.map(lambda t: t[rows, at].float().to(options.device))
        end = states.map(lambda t: t[rows, at + 1].float().to(options.device))
        target = x.zip(end, lambda a, b: (a - b) / (now - after)[:, None, None].to(options.device))
        lines = [prompts(int(i), 1)[0] for i in rows]
        with training.autocast(options.device), training.attention(options.device):
            v = student.velocity(
                x, student.contexts(*encode(lines)), now.to(options.device), model.SIDE, model.FRAMES
            )
        error = v.zip(target, lambda a, b: (a - b).square().mean())
        records = {"video": float(error.video.detach()), "audio": float(error.audio.detach())}
        return error.video + 0.5 * error.audio, records

    oracle = following.Oracle(options, encode)
    run.train(loss, lambda averaged: oracle(averaged, sigmas=flow.DISTILLED, guidance=1.0))
