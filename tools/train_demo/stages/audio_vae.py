"""Audio VAE: reconstructs log-mel rows of the world's tones, and of any others, so that it does not merely know these.

When it is trained, the statistics of its packed latents are taken.
"""

import functools
import math
import random

import torch

import model
import training
from golden import reference
from world import scene, sound

RATE, HOP, WINDOW, BINS = 16000, 160, 1024, 64  # of the mel rows
FLOOR = 1e-5
ROWS = 41  # of a training clip: 11 latent rows
STEPS, BATCH, RATE_OF_LEARNING = 3500, 8, 2e-3
KL_WEIGHT = 1e-2
DECIBELS = 20 / math.log(10)  # a unit of the natural logarithm


@functools.cache
def _bank(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Hann window [WINDOW] and mel bank [BINS, WINDOW / 2 + 1] (Slaney's scale and norm, 0 to 8 kHz)."""
    bank = reference.stft_bases(WINDOW, BINS, RATE)[2]
    return torch.hann_window(WINDOW, device=device), bank.to(device)


def mel(wave: torch.Tensor, surrounded: bool = False) -> torch.Tensor:
    """Log-mel rows [..., rows, BINS] of waveforms [..., samples] at 16 kHz; row i is centred on sample HOP·i.

    Mirrored at both ends; surrounded: the wave brings WINDOW / 2 samples before its first row and after its last.
    """
    window, bank = _bank(str(wave.device))
    flat = wave.reshape(-1, wave.shape[-1])
    spectrum = torch.stft(flat, WINDOW, HOP, window=window, center=not surrounded, return_complex=True).abs()
    rows = (bank @ spectrum).clamp(min=FLOOR).log().transpose(1, 2)
    return rows.reshape(*wave.shape[:-1], *rows.shape[1:])


def stereo_mel(voice: sound.Voice, rows: int, start: int = 0) -> torch.Tensor:
    """[batch, 2, rows, BINS] from the row `start` on, as of a sound that goes on."""
    samples = (rows - 1) * HOP + WINDOW
    wave = sound.play(voice, RATE, samples, start * HOP - WINDOW // 2)
    return mel(wave, surrounded=True)[:, None].expand(-1, 2, -1, -1)


def latent_rows(frames: int = model.FRAMES, fps: float = model.FPS) -> int:
    """25 per second, rounded half to even."""
    return round(frames / fps * RATE / HOP / 4)


def any_voices(rng: random.Random, count: int, device: str) -> sound.Voice:
    """Tones of any pitch from 150 to 1500 Hz, a third of them gliding."""
    rows = []
    for _ in range(count):
        pitch = math.exp(rng.uniform(math.log(150), math.log(1500)))
        glide = rng.uniform(-0.5, 1.0) if rng.random() < 0.33 else 0.0
        buzz = rng.choice((0.0, 1.0, rng.random()))
        beeps = rng.choice((0.0, rng.uniform(2, 10)))
        rows.append((pitch, glide, buzz, beeps, 10 ** (rng.uniform(-40, -12) / 20)))
    return sound.Voice(*torch.tensor(rows, dtype=torch.float32, device=device).unbind(1))


def any_sounds(seed: int, count: int, samples: int, start: int, device: str) -> torch.Tensor:
    """[count, 2, samples] at 16 kHz: two tones or one or none, a burst of noise in some, each panned."""
    rng = random.Random(seed)
    noises = torch.Generator().manual_seed(seed)
    total = torch.zeros(count, 2, samples, device=device)
    for chance in (0.85, 0.4):
        gains = [[10 ** (rng.uniform(-8, 0) / 20) if rng.random() < 0.4 else 1.0 for _ in "lr"] for _ in range(count)]
        there = [[float(rng.random() < chance)] for _ in range(count)]
        gain = torch.tensor(gains, device=device) * torch.tensor(there, device=device)
        total += gain[..., None] * sound.play(any_voices(rng, count, device), RATE, samples, start)[:, None]
    for i in range(count):
        if rng.random() < 0.25:
            length = rng.randint(samples // 10, samples)
            at = rng.randint(0, samples - length)
            burst = torch.randn(length, generator=noises) * 10 ** (rng.uniform(-60, -20) / 20)
            total[i, :, at : at + length] += burst.to(device)
    return total


def mels(seed: int, batch: int, rows: int, device: str) -> torch.Tensor:
    """[batch, 2, rows, BINS]: half windows of the world's sounds (a third of them from the start), half any sounds."""
    rng = random.Random(seed)
    world = (batch + 1) // 2
    start = rng.choice((0, rng.randint(0, 100), rng.randint(0, 100)))
    scenes = [scene.sample(rng) for _ in range(world)]
    known = stereo_mel(sound.voices(scenes, device), rows, start)
    samples = (rows - 1) * HOP + WINDOW
    others = any_sounds(rng.getrandbits(32), batch - world, samples, start * HOP - WINDOW // 2, device)
    return torch.cat([known, mel(others, surrounded=True)])


def reconstruction(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """What is loud counts up to three times as much as what is at the floor."""
    weight = 1 + (target - math.log(FLOOR)).clamp(0, 8) / 4
    return (weight * (output - target).abs()).mean()


def latents(vae: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Raw latents [batch, 8, L, 16], float32, of log-mel rows [batch, 2, 4·L - 3, BINS]."""
    with training.autocast(str(rows.device)):
        return vae.encode(rows).latent_dist.mean.float()


def packed(z: torch.Tensor) -> torch.Tensor:
    """[batch, C, L, M] -> [batch, L, C·M], the transformer's tokens."""
    return z.transpose(1, 2).flatten(2)


def unpacked(y: torch.Tensor) -> torch.Tensor:
    """[batch, L, C·M] -> [batch, C, L, M]."""
    return y.unflatten(2, (-1, BINS // 4)).transpose(1, 2)


def scene_latents(vae: torch.nn.Module, scenes: list[scene.Scene], device: str) -> torch.Tensor:
    """Raw packed latents [batch, latent_rows(), 128] of the scenes' whole sounds."""
    return packed(latents(vae, stereo_mel(sound.voices(scenes, device), 4 * latent_rows() - 3)))


@torch.no_grad()
def take_statistics(vae: torch.nn.Module, options: training.Options, count: int = 1024) -> None:
    """Mean and standard deviation of every packed channel over scenes of the world."""
    rng = random.Random(7)
    parts = [scene_latents(vae, [scene.sample(rng) for _ in range(32)], options.device) for _ in range(count // 32)]
    values = torch.cat(parts).flatten(0, 1)
    vae.latents_mean.copy_(values.mean(0))
    vae.latents_std.copy_(values.std(0))


def error(vae: torch.nn.Module, target: torch.Tensor) -> dict[str, float]:
    """Mean absolute error of the reconstruction in dB, over all bins and over those less than 60 dB below the top."""
    output = vae.decode(latents(vae, target)).sample.float()
    off = (output - target).abs() * DECIBELS
    loud = target > target.amax((1, 2, 3), keepdim=True).clamp(min=-4) - 60 / DECIBELS
    return {"mel_db": float(off.mean()), "mel_db_loud": float(off[loud].mean())}


def train(options: training.Options) -> None:
    torch.manual_seed(options.seed)
    vae = model.audio_vae().to(options.device).train()
    with torch.no_grad():
        vae.decoder.conv_out.conv.bias.fill_(-8.0)  # most of a log-mel row
    run = training.Run("audio_vae", options, vae, steps=STEPS, rate=RATE_OF_LEARNING)
    batch = options.batch or BATCH

    def loss(step: int):
        seed = training.fold_in(options.seed, step)
        torch.manual_seed(seed)
        target = mels(seed, batch, ROWS, options.device)
        with training.autocast(options.device):
            distribution = vae.encode(target).latent_dist
            output = vae.decode(distribution.sample()).sample
        kl = 0.5 * (distribution.mean.square() + distribution.var - 1 - distribution.logvar).float().mean()
        rebuilt = reconstruction(output.float(), target)
        return rebuilt + KL_WEIGHT * kl, {"loss": float(rebuilt.detach()), "kl": float(kl.detach())}

    def oracle(averaged: torch.nn.Module) -> dict[str, float]:
        rng = random.Random(99)
        scenes = [scene.sample(rng, "held_out") for _ in range(32)]
        whole = stereo_mel(sound.voices(scenes, options.device), 4 * latent_rows() - 3)
        others = mel(any_sounds(98, 16, 16000, 0, options.device))
        return error(averaged, whole) | {f"any_{k}": v for k, v in error(averaged, others).items()}

    averaged = run.train(loss, oracle)
    take_statistics(averaged, options)
    run.save()
