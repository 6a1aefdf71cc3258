"""What a clip can show and play: the attributes, a scene made of them, and the split into training and held-out scenes.

Lengths are fractions of the picture's side, times fractions of the clip, so that one scene fits every size and length.
x grows to the right, y downwards, as in a picture.
"""

import dataclasses
import hashlib
import math
import random

COLOURS = {
    "red": (214, 40, 40),
    "orange": (247, 140, 30),
    "yellow": (250, 222, 60),
    "green": (46, 160, 67),
    "blue": (40, 84, 214),
    "purple": (142, 54, 190),
    "white": (242, 242, 242),
    "black": (18, 18, 18),
}
BACKGROUNDS = {name: COLOURS[name] for name in ("black", "white", "blue", "green", "yellow")} | {
    "gray": (128, 128, 128)
}
SHAPES = ("circle", "square", "triangle", "star")
REACH = {"circle": 1.0, "square": 1.21, "triangle": 1.15, "star": 1.3}  # of the outermost corner, in radii
SIZES = {"small": 0.15, "medium": 0.19, "large": 0.25}  # radius
DIRECTIONS = {"right": (1, 0), "left": (-1, 0), "up": (0, -1), "down": (0, 1)}
SPEEDS = {"slow": 0.22, "normal": 0.38, "fast": 0.56}  # way within the clip
MOTIONS = ("still", *DIRECTIONS, "bounce across", "bounce up", "grow", "shrink", "spin", "appear")
MOVING = (*DIRECTIONS, "bounce across", "bounce up")
TWO_MOTIONS = (("left", "right", "still", "spin"), ("up", "down", "still", "spin"))  # above each other, side by side
PLACES = {"middle": (0.5, 0.5), "left": (0.24, 0.5), "right": (0.76, 0.5), "top": (0.5, 0.24), "bottom": (0.5, 0.76)}
# Hz. Multiples of the 100 mel rows per second: to rows that do not change, a convolutional vocoder gives the same 10 ms
# again and again, so it can hold no other pitch for long.
PITCHES = {"low": 200.0, "middle": 500.0, "high": 1000.0}
WAVES = ("pure", "buzzing")
RHYTHMS = ("steady", "beeping")
BEEPS = 6.0  # a second
HELD_OUT_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class Thing:
    """One shape. `place` is where it rests, or the lane it keeps to while it moves: alone, the middle one.

    `speed` is of those that go in one of DIRECTIONS.
    """

    shape: str
    colour: str
    size: str
    motion: str
    speed: str
    place: str


@dataclasses.dataclass(frozen=True)
class Tone:
    pitch: str
    wave: str
    rhythm: str


@dataclasses.dataclass(frozen=True)
class Scene:
    things: tuple[Thing, ...]
    background: str
    tone: Tone | None  # None: silence
    jitter: int  # seeds what no prompt says: exact size, place, way, pitch and shade, all of them within little


def _share(*words: object) -> float:
    """A number in [0, 1) that depends on the words alone, the same on every machine."""
    digest = hashlib.sha256("|".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def held_out(scene: Scene) -> bool:
    """True for the tenth of all combinations that training never sees.

    A combination is shape, colour and motion of every thing, background and pitch.
    """
    things = sorted((t.shape, t.colour, t.motion) for t in scene.things)
    return _share(things, scene.background, scene.tone.pitch if scene.tone else "silence") < HELD_OUT_SHARE


def _one_thing(rng: random.Random, background: str, taken: set[str]) -> Thing:
    colour = rng.choice([c for c in COLOURS if c != background and c not in taken])
    # Half of all motions go straight: they are what a prompt asks for most.
    motion = rng.choice(tuple(DIRECTIONS)) if rng.random() < 0.55 else rng.choice(MOTIONS)
    return Thing(
        shape=rng.choice(SHAPES),
        colour=colour,
        size=rng.choice(tuple(SIZES)),
        motion=motion,
        speed=rng.choice(tuple(SPEEDS)),
        place="middle" if motion in MOVING else rng.choice(tuple(PLACES)),
    )


def _two_things(rng: random.Random, background: str) -> tuple[Thing, Thing]:
    """Side by side or one above the other, each within its half."""
    side_by_side = rng.random() < 0.5
    places = ("left", "right") if side_by_side else ("top", "bottom")
    motions = TWO_MOTIONS[side_by_side]
    first = _one_thing(rng, background, set())
    second = _one_thing(rng, background, {first.colour})
    sizes = ("small", "medium")
    return tuple(
        dataclasses.replace(thing, motion=rng.choice(motions), place=place, size=rng.choice(sizes))
        for thing, place in zip((first, second), places)
    )


def sample(rng: random.Random, split: str = "train", things: int | None = None) -> Scene:
    """A random scene of `split` ("train", "held_out"), with one or two things (None: two in three of ten)."""
    while True:
        count = things or (2 if rng.random() < 0.3 else 1)
        background = rng.choice(tuple(BACKGROUNDS))
        tone = None
        if rng.random() >= 0.2:
            tone = Tone(rng.choice(tuple(PITCHES)), rng.choice(WAVES), rng.choice(RHYTHMS))
        parts = (_one_thing(rng, background, set()),) if count == 1 else _two_things(rng, background)
        scene = Scene(parts, background, tone, rng.getrandbits(32))
        if held_out(scene) == (split == "held_out"):
            return scene


def mistaken(scene: Scene, rng: random.Random, share: float) -> Scene:
    """`scene` as a careless viewer tells it: every shape, colour, motion, background and pitch is another one in `share`.

    Never a held-out combination, and things keep a colour of their own.
    """

    def heard(value: str, others: tuple[str, ...]) -> str:
        return rng.choice(others) if rng.random() < share else value

    background, things = heard(scene.background, tuple(BACKGROUNDS)), []
    for thing in scene.things:
        taken = {background, *(t.colour for t in things)}
        free = tuple(c for c in COLOURS if c not in taken)
        motions = MOTIONS if len(scene.things) == 1 else TWO_MOTIONS[thing.place in ("left", "right")]
        things.append(
            dataclasses.replace(
                thing,
                shape=heard(thing.shape, SHAPES),
                colour=heard(thing.colour if thing.colour in free else rng.choice(free), free),
                motion=heard(thing.motion, motions),
            )
        )
    tone = scene.tone and dataclasses.replace(scene.tone, pitch=heard(scene.tone.pitch, tuple(PITCHES)))
    told = dataclasses.replace(scene, things=tuple(things), background=background, tone=tone)
    return scene if held_out(told) else told


@dataclasses.dataclass(frozen=True)
class Path:
    """A thing over the clip: at time t in [0, 1], its centre, radius, angle (radians) and whether it is there."""

    x: list[float]
    y: list[float]
    radius: list[float]
    angle: list[float]
    there: list[bool]


def path(thing: Thing, rng: random.Random, frames: int) -> Path:
    """Where `thing` is in each of `frames` frames."""
    size = SIZES[thing.size] * rng.uniform(0.97, 1.03)
    margin = REACH[thing.shape] * size + 0.01
    x, y = (min(max(v + rng.uniform(-0.01, 0.01), margin), 1 - margin) for v in PLACES[thing.place])
    time = [f / max(1, frames - 1) for f in range(frames)]
    xs, ys, radius, angle, there = [x] * frames, [y] * frames, [size] * frames, [0.0] * frames, [True] * frames
    speed = thing.speed if thing.motion in DIRECTIONS else "normal"
    way = min(SPEEDS[speed] * rng.uniform(0.95, 1.05), 1 - 2 * margin)
    if thing.motion in DIRECTIONS:  # the middle of the way is the picture's
        dx, dy = DIRECTIONS[thing.motion]
        if dx:
            xs = [0.5 + dx * way * (t - 0.5) for t in time]
        else:
            ys = [0.5 + dy * way * (t - 0.5) for t in time]
    elif thing.motion.startswith("bounce"):
        swing = [way * (abs(2 * t - 1) - 0.5) for t in time]  # out and back once
        if thing.motion == "bounce across":
            xs = [0.5 + s for s in swing]
        else:
            ys = [0.5 + s for s in swing]
    elif thing.motion == "grow":
        radius = [size * (0.35 + 0.65 * t) for t in time]
    elif thing.motion == "shrink":
        radius = [size * (1 - 0.65 * t) for t in time]
    elif thing.motion == "spin":
        angle = [t * math.pi / 2 for t in time]
    elif thing.motion == "appear":
        there = [t >= 0.5 for t in time]
    return Path(xs, ys, radius, angle, there)
