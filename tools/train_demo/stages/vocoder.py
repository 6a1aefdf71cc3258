"""Vocoder with bandwidth extension: waveforms of the world's tones from log-mel rows.

First the base generator alone (16 kHz, rows of real sounds), then both (48 kHz, half of the rows through the audio
VAE).

Every tone of the world begins at phase 0 and is a multiple of 100 Hz, so that a mel row says which waveform belongs to
it, phase included: plain differences of waveforms and spectra train it, no discriminator is needed.
"""

import random

import torch

import model
import training
from stages import audio_vae
from world import measure_sound, scene, sound

ROWS = 33  # of a training window
BASE_STEPS, STEPS, BATCH = 2200, 1000, 4
BASE_RATE, RATE = 1.5e-3, 1e-3
OUTPUT_RATE = 48000
FLOOR = 1e-4  # amplitude, 80 dB below full scale: quieter is all the same
LATENT_NOISE = 0.1  # of the latents' deviation, on top of the posterior's, as of a transformer that is not perfect


def tones(rng: random.Random, count: int, device: str) -> sound.Voice:
    """The world's (three of four), and others of multiples of 100 Hz, any buzz, beeps and level."""
    world = sound.voices([scene.sample(rng) for _ in range(count)], device)
    for i in range(count):
        if rng.random() < 0.25:
            world.pitch[i] = 100.0 * rng.randint(2, 14)
            world.buzz[i] = rng.choice((0.0, 1.0, rng.random()))
            world.beeps[i] = rng.choice((0.0, rng.uniform(3, 9)))
            world.level[i] = 10 ** (rng.uniform(-35, -14) / 20)
    return world


def stereo_wave(voice: sound.Voice, rate: int, rows: int, start: int = 0) -> torch.Tensor:
    """[batch, 2, samples] that belong to the mel rows from `start` on."""
    hop = audio_vae.HOP * rate // audio_vae.RATE
    return sound.play(voice, rate, rows * hop, start * hop)[:, None].expand(-1, 2, -1)


def difference(output: torch.Tensor, target: torch.Tensor, lengths: tuple[int, ...]) -> torch.Tensor:
    """Of two sets of waveforms [batch, 2, samples]: of their samples, spectra, and spectra's magnitudes in nats.

    The samples' is squared: absolute differences keep a generator silent that has not found the phase yet.
    """
    loss = (output - target).square().mean() / sound.LEVEL**2
    output, target = output.flatten(0, 1), target.flatten(0, 1)
    for length in lengths:
        window = torch.hann_window(length, device=output.device)
        a, b = (
            torch.view_as_real(torch.stft(x, length, length // 4, window=window, return_complex=True)) * (4 / length)
            for x in (output, target)
        )
        loss = loss + 5 * (a - b).abs().mean()
        a, b = ((x.square().sum(-1) + FLOOR**2).log() / 2 for x in (a, b))
        loss = loss + 0.03 * (a - b).abs().mean()
    return loss


@torch.no_grad()
def start_even(generator: torch.nn.Module, gain: float) -> None:
    """First weights with which a mel row's mean disappears and every upsampling keeps the power."""
    mean = -9.0  # of a log-mel row
    generator.conv_in.weight.mul_(0.5)
    generator.conv_in.bias.copy_(-mean * generator.conv_in.weight.sum((1, 2)))
    for layer in generator.upsamplers:
        products = layer.in_channels * layer.kernel_size[0] / layer.stride[0]
        layer.weight.normal_(0, products**-0.5)
    generator.conv_out.weight.mul_(gain)


def signal_to_noise(output: torch.Tensor, target: torch.Tensor) -> float:
    """Median in dB over the clips that are not silent."""
    heard = target.square().mean((1, 2)) > 0
    noise = (output - target).square().mean((1, 2))
    return float((10 * torch.log10(target.square().mean((1, 2)) / noise))[heard].median())


def through(vae: torch.nn.Module, rows: torch.Tensor, noise: float = 0.0) -> torch.Tensor:
    """Log-mel rows [batch, 2, 4·L - 3, BINS] as the audio VAE gives them back; noise: see LATENT_NOISE."""
    with training.autocast(str(rows.device)):
        latents = vae.encode(rows).latent_dist
    mean = latents.mean.float()
    if noise:
        deviation = vae.latents_std.view(mean.shape[1], 1, mean.shape[3]) * noise
        mean = mean + torch.randn_like(mean) * (latents.var.float() + deviation**2).sqrt()
    return vae.decode(mean).sample.float()


def heard(waves: torch.Tensor, rate: int, scenes: list[scene.Scene]) -> dict[str, float]:
    """What measure_sound hears in [batch, 2, samples]: right shares, cents off, and the loudest silence in dB."""
    found = [measure_sound.listen(w, rate) for w in waves.cpu().numpy()]
    silences = [h.level for s, h in zip(scenes, found) if s.tone is None]
    return measure_sound.agreement(scenes, found) | {"silence_db": max(silences, default=-120.0)}


def held_out(count: int, seed: int = 99) -> list[scene.Scene]:
    rng = random.Random(seed)
    return [scene.sample(rng, "held_out") for _ in range(count)]


def whole(scenes: list[scene.Scene], device: str) -> tuple[sound.Voice, torch.Tensor]:
    """Voices, and the log-mel rows of the whole clips."""
    voice = sound.voices(scenes, device)
    return voice, audio_vae.stereo_mel(voice, 4 * audio_vae.latent_rows() - 3)


def train_base(options: training.Options) -> training.Run:
    generator = model.vocoder().vocoder.to(options.device)
    start_even(generator, 0.3)
    run = training.Run("vocoder_base", options, generator, steps=BASE_STEPS, rate=BASE_RATE)
    batch = options.batch or BATCH

    def loss(step: int):
        rng = random.Random(training.fold_in(options.seed, step))
        voice, start = tones(rng, batch, options.device), rng.choice((0, rng.randint(1, 100)))
        output = run.module(audio_vae.stereo_mel(voice, ROWS, start))
        value = difference(output, stereo_wave(voice, audio_vae.RATE, ROWS, start), (128, 1024))
        return value, {"loss": float(value.detach())}

    def oracle(averaged: torch.nn.Module) -> dict[str, float]:
        scenes = held_out(16)
        voice, rows = whole(scenes, options.device)
        output = averaged(rows)
        quality = signal_to_noise(output, stereo_wave(voice, audio_vae.RATE, rows.shape[2]))
        return {"snr": quality} | heard(output, audio_vae.RATE, scenes)

    run.train(loss, oracle, every=250)
    return run


def train_both(options: training.Options, base: torch.nn.Module) -> None:
    vae = training.load_averaged(options.work, "audio_vae", model.audio_vae(), options.device)
    if not training.has_statistics(vae):
        raise SystemExit("audio_vae has not taken its latent statistics: run it to its last step first")
    vocoder = model.vocoder().to(options.device)
    vocoder.vocoder.load_state_dict(base.state_dict())
    start_even(vocoder.bwe_generator, 0.1)
    run = training.Run("vocoder", options, vocoder, steps=STEPS, rate=RATE)
    low: list[torch.Tensor] = []

    def keep(_module, _arguments, output: torch.Tensor) -> torch.Tensor:
        """The base generator learns from its own output alone: the magnitudes after it have no slope at silence."""
        low.append(output)
        return output.detach()

    run.module.vocoder.register_forward_hook(keep)
    batch = options.batch or BATCH

    def loss(step: int):
        seed = training.fold_in(options.seed + 1, step)
        torch.manual_seed(seed)
        rng = random.Random(seed)
        voice, start = tones(rng, batch, options.device), rng.choice((0, rng.randint(1, 100)))
        rows = audio_vae.stereo_mel(voice, ROWS, start)
        with torch.no_grad():
            rows = torch.cat([rows[: batch // 2], through(vae, rows[batch // 2 :], LATENT_NOISE)])
        low.clear()
        output = run.module(rows)
        lower = difference(low[0], stereo_wave(voice, audio_vae.RATE, ROWS, start), (128, 1024))
        upper = difference(output, stereo_wave(voice, OUTPUT_RATE, ROWS, start), (512, 2048))
        return lower + upper, {"base": float(lower.detach()), "extended": float(upper.detach())}

    def oracle(averaged: torch.nn.Module) -> dict[str, float]:
        scenes = held_out(16)
        voice, rows = whole(scenes, options.device)
        target = stereo_wave(voice, OUTPUT_RATE, rows.shape[2])
        real, rebuilt = averaged(rows), averaged(through(vae, rows))
        return (
            {"snr": signal_to_noise(real, target), "vae_snr": signal_to_noise(rebuilt, target)}
            | heard(real, OUTPUT_RATE, scenes)
            | {f"vae_{k}": v for k, v in heard(rebuilt, OUTPUT_RATE, scenes).items()}
        )

    run.train(loss, oracle)


def train(options: training.Options) -> None:
    torch.manual_seed(options.seed)
    base = train_base(options)
    if base.step == base.steps:
        train_both(options, base.averaged)
