"""English for a scene: many ways to say the same.

Background and sound may stay unsaid. Of size, speed and place only the usual ones may (medium, normal, middle), so that a
prompt leaves little open: a small model spends its strength on what is said.
"""

import dataclasses
import random

from world.scene import MOVING, Scene, Thing, Tone

_SHAPES = {
    "circle": ("circle", "circle", "disc", "round dot", "ball"),
    "square": ("square", "square", "box", "block"),
    "triangle": ("triangle",),
    "star": ("star", "five-pointed star"),
}
_SIZES = {"small": ("small", "little", "tiny"), "medium": ("medium",), "large": ("large", "big", "huge")}
_SPEEDS = {"slow": ("slowly", "gently"), "fast": ("quickly", "fast"), "normal": ()}
_GO = ("moves", "slides", "glides", "drifts", "travels", "goes")
_WHERE_TO = {
    "right": ("right", "to the right", "rightwards", "from left to right"),
    "left": ("left", "to the left", "leftwards", "from right to left"),
    "up": ("up", "upwards", "to the top", "from bottom to top"),
    "down": ("down", "downwards", "to the bottom", "from top to bottom"),
}
_DO = {
    "still": ("stays still", "rests", "does not move", "stands still"),
    "bounce across": ("bounces from side to side", "swings left and right"),
    "bounce up": ("bounces up and down", "hops up and down"),
    "grow": ("grows", "gets bigger", "becomes larger"),
    "shrink": ("shrinks", "gets smaller", "becomes smaller"),
    "spin": ("spins", "rotates", "turns around"),
    "appear": ("appears", "pops up", "suddenly appears"),
}
_PLACES = {
    "middle": ("in the middle", "in the centre"),
    "left": ("on the left", "at the left"),
    "right": ("on the right", "at the right"),
    "top": ("at the top", "above"),
    "bottom": ("at the bottom", "below"),
}
_BACKDROP = ("on a {} background", "against a {} background", "in front of a {} wall", "over a plain {} backdrop")
_PITCHES = {"low": ("low", "deep"), "middle": ("middle", "medium"), "high": ("high", "high-pitched")}
_WAVES = {"pure": ("pure", "soft", "smooth"), "buzzing": ("buzzing", "harsh", "rough")}
_RHYTHMS = {"steady": ("steady", "constant"), "beeping": ("beeping", "pulsing")}
_SOUND = ("while a {} plays", "with a {}", "and a {} sounds", "as a {} is heard")
_SILENCE = ("in silence", "without any sound", "and nothing is heard", "with no sound")


@dataclasses.dataclass(frozen=True)
class Said:
    """The prompt and which attributes it names, as "background", "tone", "pitch", "0.colour", "1.motion", ..."""

    prompt: str
    names: frozenset[str]


class _Speaker:
    def __init__(self, rng: random.Random, fullness: float):
        self.rng = rng
        self.fullness = fullness  # how likely it says what it may leave out
        self.names: set[str] = set()

    def says(self, likely: float) -> bool:
        return self.rng.random() < max(likely, self.fullness)

    def one(self, words: tuple[str, ...]) -> str:
        return self.rng.choice(words)

    def noun(self, index: int, thing: Thing) -> str:
        words = [self.one(("a", "a", "the", "one"))]
        if thing.size != "medium" or self.says(0.1):
            words.append(self.one(_SIZES[thing.size]))
            self.names.add(f"{index}.size")
        words += [thing.colour, self.one(_SHAPES[thing.shape])]
        self.names |= {f"{index}.colour", f"{index}.shape"}
        if words[0] == "a" and words[1][0] in "aeiou":
            words[0] = "an"
        return " ".join(words)

    def motion(self, index: int, thing: Thing) -> str:
        self.names.add(f"{index}.motion")
        if thing.motion not in _WHERE_TO:
            return self.one(_DO[thing.motion])
        words = [self.one(_GO), self.one(_WHERE_TO[thing.motion])]
        if _SPEEDS[thing.speed]:
            adverb = self.one(_SPEEDS[thing.speed])
            self.names.add(f"{index}.speed")
            words = [adverb, *words] if self.rng.random() < 0.3 and adverb != "fast" else [*words, adverb]
        return " ".join(words)

    def place(self, index: int, thing: Thing) -> str:
        self.names.add(f"{index}.place")
        return self.one(_PLACES[thing.place])

    def thing(self, index: int, thing: Thing, crowded: bool) -> str:
        noun, motion = self.noun(index, thing), self.motion(index, thing)
        # Along its way a thing has no one place; beside another it always has.
        if crowded or thing.place != "middle" or (thing.motion not in MOVING and self.says(0.3)):
            place = self.place(index, thing)
            return f"{noun} {place} {motion}" if self.rng.random() < 0.5 and place not in ("above", "below") else (
                f"{noun} {motion} {place}"
            )
        return f"{noun} {motion}"

    def tone(self, tone: Tone | None) -> str:
        self.names.add("tone")
        if tone is None:
            return self.one(_SILENCE)
        words = []
        if self.says(0.9):
            words.append(self.one(_PITCHES[tone.pitch]))
            self.names.add("pitch")
        if self.says(0.4):
            words.append(self.one(_WAVES[tone.wave]))
            self.names.add("wave")
        if self.says(0.4):
            words.append(self.one(_RHYTHMS[tone.rhythm]))
            self.names.add("rhythm")
        self.rng.shuffle(words)
        return self.one(_SOUND).format(" ".join([*words, self.one(("tone", "tone", "note", "sound"))]))


def describe(scene: Scene, rng: random.Random, fullness: float = 0.0) -> Said:
    """One of the many prompts for `scene`. fullness in [0, 1]: 1 names every attribute that has a word."""
    speaker = _Speaker(rng, fullness)
    crowded = len(scene.things) > 1
    things = [speaker.thing(i, t, crowded) for i, t in enumerate(scene.things)]
    words = [rng.choice((" and ", " while ", ", ")).join(things)]
    if speaker.says(0.92):
        words.append(speaker.one(_BACKDROP).format(scene.background))
        speaker.names.add("background")
    if speaker.says(0.92):
        words.append(speaker.tone(scene.tone))
    if len(words) == 3 and rng.random() < 0.2:
        words[1], words[2] = words[2], words[1]
    prompt = " ".join(words)
    style = rng.random()
    if style < 0.3:
        prompt = prompt[0].upper() + prompt[1:] + "."
    elif style < 0.4:
        prompt = rng.choice(("A video of ", "Animation: ", "A short clip in which ")) + prompt
    return Said(prompt, frozenset(speaker.names))
