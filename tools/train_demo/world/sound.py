"""Plays scenes: stereo waveforms of their tones, whole batches at once on any device, at any rate.

Both channels are the same. A scene sounds alike at 16 and 48 kHz: the latter only has more of the buzzing's overtones.
"""

import dataclasses
import math
import random

import torch

from world.scene import BEEPS, PITCHES, Scene

LEVEL = 0.12  # root mean square of a steady tone, 18.4 dB below full scale
EDGE = 0.008  # seconds in which a beep comes and goes
FADE = 0.02  # seconds at the start of a clip
HIGHEST = 0.4  # of the rate: no overtone above it, so nothing is folded back


@dataclasses.dataclass
class Voice:
    """What play() takes, each [batch]."""

    pitch: torch.Tensor  # Hz, at the start
    glide: torch.Tensor  # of the pitch, its share per second: 0.5 is half as high again after a second
    buzz: torch.Tensor  # 0: a sine; 1: a sawtooth
    beeps: torch.Tensor  # a second; 0: steady
    level: torch.Tensor  # root mean square while it sounds; 0: silence


def voices(scenes: list[Scene], device: str = "cpu") -> Voice:
    """The scenes' tones. No prompt says the level, ±1.5 dB; it is drawn apart from what picture.py draws."""
    rows = []
    for scene in scenes:
        rng = random.Random(f"sound {scene.jitter}")
        level = LEVEL * 10 ** (rng.uniform(-1.5, 1.5) / 20)
        tone = scene.tone
        if tone is None:
            rows.append((PITCHES["middle"], 0.0, 0.0, 0.0, 0.0))
        else:
            beeps = BEEPS if tone.rhythm == "beeping" else 0.0
            rows.append((PITCHES[tone.pitch], 0.0, float(tone.wave == "buzzing"), beeps, level))
    return Voice(*torch.tensor(rows, dtype=torch.float32, device=device).unbind(1))


def _wave(phase: torch.Tensor, buzz: torch.Tensor, overtones: torch.Tensor) -> torch.Tensor:
    """Root mean square 1 with all overtones. phase: [batch, samples] radians, float64; overtones: [batch], how many."""
    angle = torch.remainder(phase, 2 * math.pi).float()
    before, now, twice_cos = torch.zeros_like(angle), torch.sin(angle), 2 * torch.cos(angle)
    total = now.clone()
    for k in range(2, int(overtones.max()) + 1 if bool((buzz > 0).any()) else 0):
        before, now = now, twice_cos * now - before  # sin(k·angle)
        total += (buzz * (overtones >= k) / k)[:, None] * now
    # Of all 1/k² there are π²/6.
    return total * (2 / (1 + buzz.square() * (math.pi**2 / 6 - 1))).sqrt()[:, None]


def play(voice: Voice, rate: int, samples: int, start: int = 0) -> torch.Tensor:
    """[batch, samples] from the sample `start` on. Before sample 0 lies the mirror image of what follows."""
    time = (torch.arange(start, start + samples, device=voice.pitch.device, dtype=torch.float64) / rate).abs()[None]
    pitch, glide, beeps = voice.pitch[:, None].double(), voice.glide[:, None].double(), voice.beeps[:, None].double()
    phase = 2 * math.pi * pitch * time * (1 + 0.5 * glide * time)
    highest = voice.pitch * (1 + voice.glide.clamp(min=0) * float(time.max()))
    sound = _wave(phase, voice.buzz, (HIGHEST * rate / highest).floor())
    part = torch.remainder(time * beeps, 1.0)  # of a beep and the pause after it, each a half
    edge = torch.minimum(part, 0.5 - part) / beeps.clamp(min=1e-9) / EDGE
    gate = torch.where(beeps > 0, edge.clamp(0, 1), 1.0) * (time / FADE).clamp(max=1)
    return sound * torch.sin(gate * (math.pi / 2)).square().float() * voice.level[:, None]


def render(scenes: list[Scene], seconds: float, rate: int, device: str = "cpu") -> torch.Tensor:
    """[batch, 2, seconds · rate] float32 in (-1, 1)."""
    sound = play(voices(scenes, device), rate, round(seconds * rate))
    return sound[:, None].expand(-1, 2, -1).contiguous()
