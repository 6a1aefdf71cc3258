"""The oracle of the stages that draw from a prompt: do picture and sound show what held-out prompts say?"""

import random

import torch

import flow
import model
import text
import training
from stages import audio_vae, video_vae, vocoder
from world import grammar, measure_picture, picture, scene

PIECE = 8  # clips decoded at once

Prompted = tuple[scene.Scene, str]


def prompted(count: int = 24) -> list[Prompted]:
    """Held-out scenes, each with a prompt that names every attribute."""
    rng = random.Random(99)
    scenes = [scene.sample(rng, "held_out") for _ in range(count)]
    return [(s, grammar.describe(s, rng, fullness=1.0).prompt) for s in scenes]


class Oracle:
    """Renders one clip for each scene from its prompt, and measures it."""

    def __init__(self, options: training.Options, encode: text.Encoder, shown: list[Prompted] | None = None):
        self.device = options.device
        self.scenes, prompts = zip(*(shown or prompted()))
        self.states = encode(list(prompts)), encode([model.NEGATIVE_PROMPT] * len(prompts))
        self.video_vae = training.load_averaged(options.work, "video_vae", model.video_vae(), options.device)
        self.audio_vae = training.load_averaged(options.work, "audio_vae", model.audio_vae(), options.device)
        self.vocoder = training.load_averaged(options.work, "vocoder", model.vocoder(), options.device)

    def noise(self, side: int = model.SIDE, seed: int = 1) -> flow.Pair:
        return flow.noise(len(self.scenes), side, model.FRAMES, seed, self.device)

    @torch.no_grad()
    def denoise(
        self, denoiser: flow.Denoiser, x: flow.Pair, sigmas: list[float], guidance: float, side: int = model.SIDE
    ) -> flow.Pair:
        """The latents to which `x` leads, a clip of side x side pixels at sigmas[0]. guidance 1 takes none."""
        with training.autocast(self.device):
            contexts, negative = (denoiser.contexts(*s) for s in self.states)
        negative = negative if guidance != 1 else None
        return flow.sample(denoiser, contexts, negative, x, sigmas, side, model.FRAMES, guidance)

    @torch.no_grad()
    def picture(self, latents: torch.Tensor, side: int = model.SIDE) -> torch.Tensor:
        """[B, 3, F, side, side] in [-1, 1]."""
        z = video_vae.denormalised(self.video_vae, flow.unpacked(latents, side))
        with training.autocast(self.device):
            return torch.cat([self.video_vae.decode(part).sample.float() for part in z.split(PIECE)])

    @torch.no_grad()
    def sound(self, latents: torch.Tensor) -> torch.Tensor:
        """[B, 2, samples] at vocoder.OUTPUT_RATE."""
        y = latents * self.audio_vae.latents_std + self.audio_vae.latents_mean
        return self.vocoder(self.audio_vae.decode(audio_vae.unpacked(y)).sample.float())

    def __call__(
        self, denoiser: flow.Denoiser, sigmas: list[float] | None = None, guidance: float = model.GUIDANCE
    ) -> dict[str, float]:
        """Shares that are right, by 12 steps of the dev schedule unless sigmas are given."""
        shown = self.denoise(denoiser, self.noise(), sigmas or flow.schedule(12), guidance)
        heard = vocoder.heard(self.sound(shown.audio), vocoder.OUTPUT_RATE, self.scenes)
        seen = measure_picture.agreement(self.scenes, picture.pixels(self.picture(shown.video)))
        return seen | {k: heard[k] for k in ("presence", "pitch", "wave", "rhythm")}
