"""What can be heard in a waveform: is there a tone, how high, pure or buzzing, steady or beeping.

Needs numpy and nothing else. `python -m world.measure_sound` (from tools/train_demo, with torch) plays scenes and
counts what is heard wrongly.
"""

import dataclasses
import math

import numpy

from world.scene import PITCHES

LOWEST, HIGHEST = 120.0, 1600.0  # Hz, of the pitches that are looked for
SILENCE = -45.0  # dB of full scale, root mean square
CLARITY = 0.6  # of a tone, at least: how alike the sound is to itself a period later; noise stays below 0.4
BUZZ = 0.12  # share of the power in overtones, above which a tone buzzes; a sawtooth has 0.39, a square wave 0.19
PAUSE = 0.2  # share of the time in pauses, above which a tone beeps; beeps have 0.5


@dataclasses.dataclass(frozen=True)
class Heard:
    """pitch, wave and rhythm are words of scene.Tone, "" without a tone."""

    present: bool
    level: float  # dB of full scale, root mean square while it sounds
    clarity: float  # 0 to 1
    hertz: float  # 0 without a tone
    pitch: str
    wave: str
    rhythm: str
    overtones: float  # share of the power
    pauses: float  # share of the time


def nearest_pitch(hertz: float) -> str:
    return min(PITCHES, key=lambda name: abs(math.log(hertz / PITCHES[name])))


def _decibels(mean_square: numpy.ndarray | float) -> numpy.ndarray:
    return 10 * numpy.log10(numpy.maximum(mean_square, 1e-12))


def _frames(sound: numpy.ndarray, length: int, hop: int) -> numpy.ndarray:
    count = 1 + max(0, len(sound) - length) // hop
    return sound[numpy.arange(count)[:, None] * hop + numpy.arange(length)]


def _period(power: numpy.ndarray, length: int, rate: int) -> tuple[float, float]:
    """(samples, clarity) from the power spectrum of windowed frames padded to twice their length."""
    window = numpy.fft.irfft(numpy.abs(numpy.fft.rfft(numpy.hanning(length), 2 * length)) ** 2)
    alike = numpy.fft.irfft(power)[:length] / numpy.maximum(window[:length], window[0] * 1e-3)
    alike = alike / max(alike[0], 1e-30)
    first, last = int(rate / HIGHEST), min(int(rate / LOWEST) + 2, length // 2)
    lags = numpy.arange(first, last)
    peaks = lags[(alike[lags] >= alike[lags - 1]) & (alike[lags] > alike[lags + 1])]
    if not len(peaks):
        return 0.0, 0.0
    clarity = float(alike[peaks].max())
    lag = int(peaks[alike[peaks] >= 0.9 * clarity][0])  # later ones are two or more periods away
    left, middle, right = alike[lag - 1 : lag + 2]
    curve = left - 2 * middle + right
    return lag + (0.5 * (left - right) / curve if curve else 0.0), clarity


def _refine(power: numpy.ndarray, hertz: float, rate: int) -> float:
    """The frequency of the spectrum's peak within 6% of `hertz`, by a parabola through its logarithm."""
    step = rate / (2 * (len(power) - 1))
    first, last = max(1, int(hertz * 0.94 / step)), int(hertz * 1.06 / step) + 2
    peak = first + int(numpy.argmax(power[first:last]))
    left, middle, right = numpy.log(numpy.maximum(power[peak - 1 : peak + 2], 1e-30))
    curve = left - 2 * middle + right
    return (peak + (0.5 * (left - right) / curve if curve else 0.0)) * step


def _overtones(power: numpy.ndarray, hertz: float, rate: int) -> float:
    """Share of the power near the second and higher multiples of `hertz` in that near all of them."""
    step = rate / (2 * (len(power) - 1))
    reach = max(2, round(45 / step))
    parts = []
    for k in range(1, int(min(8000.0, rate / 2 - 100) / hertz) + 1):
        middle = round(k * hertz / step)
        parts.append(float(power[max(0, middle - reach) : middle + reach + 1].sum()))
    return sum(parts[1:]) / max(sum(parts), 1e-30)


def listen(sound: numpy.ndarray, rate: int) -> Heard:
    """sound: [samples] or [channels, samples] in [-1, 1], 0.1 s or more; the loudest channel counts."""
    sound = numpy.atleast_2d(numpy.asarray(sound, dtype=numpy.float64))
    sound = sound[int(numpy.argmax((sound**2).mean(1)))]
    short = int(0.012 * rate)
    loudness = _decibels((_frames(sound, short, short // 2) ** 2).mean(1))
    level = float(numpy.percentile(loudness, 90))
    pauses = float((loudness < level - 12).mean())
    silent = Heard(False, level, 0.0, 0.0, "", "", "", 0.0, pauses)
    if level < SILENCE:
        return silent
    length = int(0.06 * rate)
    frames = _frames(sound, length, length // 6)
    energy = (frames**2).mean(1)
    frames = frames[energy > 0.4 * numpy.percentile(energy, 95)] * numpy.hanning(length)
    power = (numpy.abs(numpy.fft.rfft(frames, 2 * length)) ** 2).mean(0)
    period, clarity = _period(power, length, rate)
    if clarity < CLARITY:
        return dataclasses.replace(silent, clarity=clarity)
    fine = (numpy.abs(numpy.fft.rfft(frames, 8 * length)) ** 2).mean(0)
    hertz = _refine(fine, rate / period, rate)
    overtones = _overtones(power, hertz, rate)
    return Heard(
        present=True,
        level=level,
        clarity=clarity,
        hertz=hertz,
        pitch=nearest_pitch(hertz),
        wave="buzzing" if overtones > BUZZ else "pure",
        rhythm="beeping" if pauses > PAUSE else "steady",
        overtones=overtones,
        pauses=pauses,
    )


def cents(hertz: float, wanted: float) -> float:
    """1200 an octave, positive above."""
    return 1200 * math.log2(hertz / wanted)


def agreement(scenes: list, heard: list[Heard]) -> dict[str, float]:
    """Shares heard rightly: presence of all scenes, pitch, wave and rhythm of those with a tone; and |cents| off."""
    toned = [(s.tone, h) for s, h in zip(scenes, heard, strict=True) if s.tone]
    count = max(1, len(toned))
    off = [abs(cents(h.hertz, PITCHES[t.pitch])) if h.present else 1200.0 for t, h in toned]
    return {
        "presence": sum(h.present == bool(s.tone) for s, h in zip(scenes, heard, strict=True)) / len(scenes),
        "pitch": sum(h.pitch == t.pitch for t, h in toned) / count,
        "wave": sum(h.wave == t.wave for t, h in toned) / count,
        "rhythm": sum(h.rhythm == t.rhythm for t, h in toned) / count,
        "cents": float(numpy.median(off)) if off else 0.0,
        "cents_worst": max(off, default=0.0),
    }


def _check(count: int = 400) -> None:
    """Every scene at both rates, clean and with noise 30 dB below the tone: at least 99% heard rightly."""
    import random

    from world import scene, sound

    rng, noise = random.Random(5), numpy.random.default_rng(5)
    scenes = [scene.sample(rng) for _ in range(count)]
    for rate in (16000, 48000):
        played = [sound.render([s], 25 / 24, rate)[0].numpy() for s in scenes]
        for name, added in (("clean", 0.0), ("noisy", 0.004)):
            heard = [listen(p + added * noise.standard_normal(p.shape), rate) for p in played]
            result = agreement(scenes, heard)
            print(rate, name, {k: round(v, 4) for k, v in result.items()})
            assert all(result[k] >= 0.99 for k in ("presence", "pitch", "wave", "rhythm")), result
        sounds = noise.standard_normal((20, rate)) * 0.1
        assert not any(listen(s, rate).present for s in sounds), "noise heard as a tone"


if __name__ == "__main__":
    _check()
