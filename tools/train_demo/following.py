"""The oracle of the stages that draw from a prompt: do picture and sound show what held-out prompts say?"""

import random

import torch

import flow
import model
import text
import training
from stages import vocoder
from world import grammar, measure_picture, picture, scene

PIECE = 8  # clips decoded at once


class Oracle:
    """Renders one clip for each of `count` held-out scenes, whose prompts name every attribute, and measures it."""

    def __init__(self, options: training.Options, encode: text.Encoder, count: int = 24):
        rng = random.Random(99)
        self.device = options.device
        self.scenes = [scene.sample(rng, "held_out") for _ in range(count)]
        self.prompts = [grammar.describe(s, rng, fullness=1.0).prompt for s in self.scenes]
        self.states = encode(self.prompts), encode([model.NEGATIVE_PROMPT] * count)
        self.video_vae = training.load_averaged(options.work, "video_vae", model.video_vae(), options.device)
        self.audio_vae = training.load_averaged(options.work, "audio_vae", model.audio_vae(), options.device)
        self.vocoder = training.load_averaged(options.work, "vocoder", model.vocoder(), options.device)

    @torch.no_grad()
    def latents(self, denoiser: flow.Denoiser, sigmas: list[float] | None = None, guidance: float = model.GUIDANCE) -> flow.Pair:
        """Of the model's size, by 12 steps of the dev schedule unless sigmas are given. guidance 1 takes none."""
        cells = flow.video_tokens(model.SIDE, model.FRAMES)
        count = len(self.scenes)
        shapes = (count, cells, model.LATENT_CHANNELS), (count, flow.audio_tokens(model.FRAMES), 128)
        noise = flow.noise_like(flow.Pair(*(torch.empty(s, device=self.device) for s in shapes)), 1)
        with training.autocast(self.device):
            contexts, negative = (denoiser.contexts(*s) for s in self.states)
        return flow.sample(
            denoiser,
            contexts,
            negative if guidance != 1 else None,
            noise,
            sigmas or flow.schedule(12),
            model.SIDE,
            model.FRAMES,
            guidance,
        )

    @torch.no_grad()
    def decode(self, latents: flow.Pair) -> flow.Pair:
        """Pictures [B, 3, F, H, W] in [-1, 1] and sounds [B, 2, samples]."""
        vae = self.video_vae
        z = flow.unpacked(latents.video, model.SIDE) * vae.latents_std.view(-1, 1, 1, 1) + vae.latents_mean.view(-1, 1, 1, 1)
        with training.autocast(self.device):
            video = torch.cat([vae.decode(part).sample.float() for part in z.split(PIECE)])
        y = latents.audio * self.audio_vae.latents_std + self.audio_vae.latents_mean
        y = y.unflatten(2, (-1, 16)).transpose(1, 2)
        return flow.Pair(video, self.vocoder(self.audio_vae.decode(y).sample.float()))

    def __call__(self, denoiser: flow.Denoiser, **how) -> dict[str, float]:
        shown = self.decode(self.latents(denoiser, **how))
        heard = vocoder.heard(shown.audio, vocoder.OUTPUT_RATE, self.scenes)
        seen = measure_picture.agreement(self.scenes, picture.pixels(shown.video))
        return seen | {k: heard[k] for k in ("presence", "pitch", "wave", "rhythm")}
