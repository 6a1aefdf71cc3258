"""Draws scenes: antialiased shapes on a plain background, whole batches at once on any device."""

import random

import numpy
import torch

from world import outline
from world.scene import BACKGROUNDS, COLOURS, SHAPES, Scene, Path, path


def _shade(colour: tuple[int, int, int], rng: random.Random, spread: float) -> list[float]:
    return [min(255.0, max(0.0, c + rng.uniform(-spread, spread))) / 127.5 - 1 for c in colour]


def tensors(scenes: list[Scene], frames: int, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """What draw() takes for these scenes."""
    most = max(len(s.things) for s in scenes)
    backgrounds, shapes, colours, tracks = [], [], [], []
    for scene in scenes:
        rng = random.Random(scene.jitter)
        backgrounds.append(_shade(BACKGROUNDS[scene.background], rng, 6))
        for i in range(most):
            if i < len(scene.things):
                thing = scene.things[i]
                track = path(thing, rng, frames)
                shapes.append(SHAPES.index(thing.shape))
                colours.append(_shade(COLOURS[thing.colour], rng, 6))
            else:  # nobody there
                track = Path(*([0.5] * frames for _ in range(2)), [0.1] * frames, [0.0] * frames, [False] * frames)
                shapes.append(0)
                colours.append([0.0] * 3)
            tracks.append((track.x, track.y, track.radius, track.angle, track.there))
    return (
        torch.tensor(backgrounds, device=device),
        torch.tensor(shapes, device=device).view(-1, most),
        torch.tensor(colours, device=device).view(-1, most, 3),
        torch.tensor(tracks, dtype=torch.float32, device=device).view(-1, most, 5, frames),
    )


def render(scenes: list[Scene], side: int, frames: int, device: str = "cpu") -> torch.Tensor:
    """[batch, 3, frames, side, side] float32 in [-1, 1]."""
    return draw(*tensors(scenes, frames, device), side)


def draw(background: torch.Tensor, shapes: torch.Tensor, colours: torch.Tensor, tracks: torch.Tensor, side: int):
    """background [B, 3], shapes [B, K], colours [B, K, 3] in [-1, 1], tracks [B, K, (x, y, radius, angle, there), F]."""
    batch, most, _, frames = tracks.shape
    grid = (torch.arange(side, device=tracks.device) + 0.5) / side
    px, py = grid.view(1, 1, 1, side), grid.view(1, 1, side, 1)
    video = background.view(batch, 3, 1, 1, 1).expand(batch, 3, frames, side, side).clone()
    for k in range(most):
        x, y, radius, angle, there = (t[..., None, None] for t in tracks[:, k].unbind(1))  # [B, F, 1, 1]
        dx, dy = (px - x) / radius, (py - y) / radius
        cos, sin = torch.cos(angle), torch.sin(angle)
        u, v = dx * cos + dy * sin, dy * cos - dx * sin
        distance = torch.empty_like(u)
        for shape in shapes[:, k].unique().tolist():
            rows = shapes[:, k] == shape
            distance[rows] = outline.distance(SHAPES[shape], u[rows], v[rows], torch)
        cover = (0.5 - distance * radius * side).clamp(0, 1) * there
        video += cover[:, None] * (colours[:, k, :, None, None, None] - video)
    return video


def pixels(video: torch.Tensor) -> numpy.ndarray:
    """[B, 3, F, H, W] in [-1, 1] as uint8 [B, F, H, W, 3]."""
    return ((video + 1) * 127.5).round().clamp(0, 255).byte().permute(0, 2, 3, 4, 1).cpu().numpy()
