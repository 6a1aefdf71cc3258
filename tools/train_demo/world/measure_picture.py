"""What a clip shows, read from its pixels by classical means: colours, shapes, places and motion. Needs only numpy.

`python -m world.measure_picture` (from tools/train_demo, with torch) draws scenes and counts what is read wrongly.
"""

import dataclasses
import functools

import numpy as np

from world import outline
from world.scene import BACKGROUNDS, COLOURS, PLACES, SIZES, Scene, Thing

CONTRAST = 42.0  # RGB distance from the background at which a pixel belongs to a thing
SMALLEST = 0.0012  # share of the picture that counts as a thing

# Of a shape: area in squared radii of scene.SIZES, and the turn after which it looks the same.
AREA = {"circle": 3.14, "square": 2.89, "triangle": 1.72, "star": 2.1}
SYMMETRY = {"square": 4, "triangle": 3, "star": 5}
GRID = np.linspace(-1.2, 1.2, 41)  # where shapes are compared, in square roots of their area from their centre
TURNS = 12  # templates of a shape, within its symmetry


@dataclasses.dataclass
class Seen:
    """One thing over the clip. Positions are fractions of the picture."""

    shape: str
    colour: str
    size: str
    motion: str
    place: str
    track: np.ndarray  # [frames, 2] x and y; nan where it is not there


@dataclasses.dataclass
class Picture:
    background: str
    things: list[Seen]  # from left to right or top to bottom, whichever separates them; largest first if one is asked


def nearest(colour: np.ndarray, palette: dict[str, tuple[int, int, int]]) -> str:
    return min(palette, key=lambda name: float(np.sum((colour - np.array(palette[name])) ** 2)))


def _components(mask: np.ndarray) -> list[np.ndarray]:
    """Coordinates [n, 2] (y, x) of the 4-connected parts of a mask, the largest first."""
    if not mask.any():
        return []
    y, x = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
    corner = np.array([y[0], x[0]])
    mask = mask[y[0] : y[-1] + 1, x[0] : x[-1] + 1]
    labels = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    while True:  # every pixel takes the largest label around it until nothing changes
        spread = labels.copy()
        for axis in (0, 1):
            for shift in (1, -1):
                moved = np.roll(labels, shift, axis)
                edge = [slice(None)] * 2
                edge[axis] = 0 if shift == 1 else -1
                moved[tuple(edge)] = 0
                spread = np.maximum(spread, moved)
        spread = np.where(mask, spread, 0)
        # Jump to the label of the pixel that a label names: parts are done in few rounds.
        flat = np.concatenate([[0], spread.ravel()])
        spread = np.where(mask, flat[flat[spread]], 0)
        if np.array_equal(spread, labels):
            break
        labels = spread
    values, counts = np.unique(labels[labels > 0], return_counts=True)
    return [np.argwhere(labels == v) + corner for v in values[np.argsort(-counts)]]


@functools.cache
def _templates() -> tuple[list[str], np.ndarray]:
    """Names [n] and masks [n, cells of GRID squared] of all shapes, of one area, in all turns."""
    names, masks = [], []
    x, y = np.meshgrid(GRID, GRID)
    for shape, area in AREA.items():
        turns = TURNS if shape in SYMMETRY else 1
        for turn in range(turns):
            z = (x + 1j * y) * np.sqrt(area) * np.exp(2j * np.pi * turn / turns / SYMMETRY.get(shape, 1))
            masks.append(outline.distance(shape, z.real, z.imag, np).ravel() < 0)
            names.append(shape)
    return names, np.array(masks, np.float32)


def _shape(parts: list[np.ndarray]) -> str:
    """The shape whose best turn shares most of its area with the thing's, on average over the frames."""
    names, templates = _templates()
    masks = []
    for points in parts:
        rows, columns = (np.round(c + GRID * np.sqrt(len(points))).astype(int) for c in points.mean(0))
        corner = points.min(0)
        mask = np.zeros(points.max(0) - corner + 3, np.float32)  # a border of nothing
        mask[tuple((points - corner + 1).T)] = 1
        rows, columns = (np.clip(r - c + 1, 0, n - 1) for r, c, n in zip((rows, columns), corner, mask.shape))
        masks.append(mask[np.ix_(rows, columns)].ravel())
    both = np.array(masks) @ templates.T
    shared = both / (np.sum(masks, axis=1)[:, None] + templates.sum(1) - both)
    return max(AREA, key=lambda shape: shared[:, [name == shape for name in names]].max(1).mean())


def _angles(parts: list[np.ndarray], symmetry: int) -> np.ndarray:
    """Orientation in each part, radians, unwrapped over the shape's symmetry."""
    angles = []
    for points in parts:
        d = points - points.mean(0)
        z = d[:, 1] + 1j * d[:, 0]
        angles.append(np.angle(np.sum(z**symmetry)))
    return np.unwrap(np.array(angles)) / symmetry


def _motion(track: np.ndarray, areas: np.ndarray, parts: list[np.ndarray], shape: str) -> str:
    there = ~np.isnan(track[:, 0])
    frames = len(track)
    if there[: frames // 3].mean() < 0.4 and there[-frames // 3 :].mean() > 0.6:
        return "appear"
    path, area = track[there], areas[there]
    quarter = max(1, len(path) // 5)
    change = np.sqrt(area[-quarter:].mean() / area[:quarter].mean())
    way = np.ptp(path, axis=0)
    axis = int(np.argmax(way))
    if way[axis] > 0.09:
        net = path[-quarter:, axis].mean() - path[:quarter, axis].mean()
        if abs(net) > 0.5 * way[axis]:
            return (("left", "right"), ("up", "down"))[axis][int(net > 0)]
        return ("bounce across", "bounce up")[axis]
    if change > 1.3:
        return "grow"
    if change < 1 / 1.3:
        return "shrink"
    if shape in SYMMETRY and abs(np.ptp(_angles(parts, SYMMETRY[shape]))) > 0.45:
        return "spin"
    return "still"


def _one(video: np.ndarray, background: np.ndarray, chosen: list[np.ndarray | None]) -> Seen:
    frames, height, width, _ = video.shape
    track, areas = np.full((frames, 2), np.nan), np.zeros(frames)
    colours, parts = [], []
    for f, points in enumerate(chosen):
        if points is None:
            continue
        pixels = video[f][points[:, 0], points[:, 1]]
        colours.append(np.median(pixels, axis=0))
        # A blurred edge belongs to the thing as far as its colour is nearer to the thing's than to the background's.
        away = colours[-1] - background
        points = points[(pixels - background) @ away > 0.5 * away @ away]
        y, x = points.mean(0) + 0.5
        track[f], areas[f] = (x / width, y / height), len(points) / (height * width)
        parts.append(points)
    largest = sorted(parts, key=len)[len(parts) // 2 :]
    shape = _shape(largest)
    middle = np.nanmean(track, axis=0)
    radius = np.sqrt(np.median(areas[areas > 0]) / AREA[shape])
    return Seen(
        shape=shape,
        colour=nearest(np.median(colours, axis=0), COLOURS),
        size=min(SIZES, key=lambda s: abs(SIZES[s] - radius)),
        motion=_motion(track, areas, parts, shape),
        place=min(PLACES, key=lambda p: float(np.sum((middle - np.array(PLACES[p])) ** 2))),
        track=track,
    )


def measure(video: np.ndarray, things: int = 1) -> Picture:
    """video [frames, height, width, 3] uint8; things: how many to look for (1 or 2)."""
    video = video.astype(np.float32)
    frames, height, width, _ = video.shape
    border = np.concatenate([video[:, :3].reshape(-1, 3), video[:, -3:].reshape(-1, 3), video[:, :, :3].reshape(-1, 3)])
    background = np.median(border, axis=0)
    found = []
    for frame in video:
        mask = np.sqrt(((frame - background) ** 2).sum(-1)) > CONTRAST
        found.append([p for p in _components(mask) if len(p) >= SMALLEST * height * width][:things])
    rows: list[list[np.ndarray | None]]
    if things == 1:
        rows = [[p[0] if p else None for p in found]]
    else:
        both = [np.array([q.mean(0) for q in p]) for p in found if len(p) == 2]
        axis = int(np.argmax(np.mean([abs(c[0] - c[1]) for c in both], axis=0))) if both else 1
        line = float(np.median([c.mean(0)[axis] for c in both])) if both else (height, width)[axis] / 2
        rows = []
        for side in (-1, 1):
            rows.append([next((q for q in p if (q.mean(0)[axis] - line) * side > 0), None) for p in found])
    seen = [_one(video, background, row) for row in rows if sum(p is not None for p in row) >= max(2, frames // 4)]
    return Picture(nearest(background, BACKGROUNDS), seen)


def same(name: str, thing: Thing, seen: Seen | None) -> bool:
    """Is the attribute `name` of a thing what was measured? A circle that spins looks as one that rests."""
    wanted = getattr(thing, name)
    if name == "motion" and thing.shape == "circle" and wanted == "spin":
        wanted = "still"
    return seen is not None and wanted == getattr(seen, name)


def agreement(scenes: list[Scene], videos: np.ndarray) -> dict[str, float]:
    """Shares measured rightly of background, and of every thing's colour, shape and motion. videos [B, F, H, W, 3]."""
    right: dict[str, list[bool]] = {}
    for scene, video in zip(scenes, videos, strict=True):
        picture = measure(video, len(scene.things))
        right.setdefault("background", []).append(picture.background == scene.background)
        for i, thing in enumerate(scene.things):
            seen = picture.things[i] if i < len(picture.things) else None
            for name in ("colour", "shape", "motion"):
                right.setdefault(name, []).append(same(name, thing, seen))
    return {name: float(np.mean(values)) for name, values in right.items()}


def _check(count: int = 200) -> None:
    """At least 99% of every attribute is read rightly from clean clips of the model's size."""
    import random

    from world import picture, scene

    rng = random.Random(5)
    scenes = [scene.sample(rng) for _ in range(count)]
    result = agreement(scenes, np.concatenate([picture.pixels(picture.render([s], 128, 25)) for s in scenes]))
    print({k: round(v, 4) for k, v in result.items()})
    assert all(share >= 0.99 for share in result.values()), result


if __name__ == "__main__":
    _check()
