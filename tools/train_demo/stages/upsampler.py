"""Latent upsampler: the latents of a scene at half the model's size to those at the whole size.

It works on de-normalised latents, as in the pipeline. Its convolutions are of single frames: things keep their places in
time between the sizes.
"""

import random

import torch

import flow
import model
import training
from stages import transformer, video_vae
from world import picture, scene

STEPS, BATCH, RATE, MATRIX_RATE = 5000, 16, 1e-3, 2e-3


def train(options: training.Options) -> None:
    torch.manual_seed(options.seed)
    vae = training.load_averaged(options.work, "video_vae", model.video_vae(), options.device)
    small, large = (
        flow.unpacked(transformer.latents(options, side).video, side) for side in (model.SIDE // 2, model.SIDE)
    )
    upsampler = model.upsampler().to(options.device).train()
    run = training.Run("upsampler", options, upsampler, steps=STEPS, rate=RATE, matrix_rate=MATRIX_RATE)
    batch = options.batch or BATCH

    def loss(step: int):
        rng = random.Random(training.fold_in(options.seed, step))
        rows = [rng.randrange(len(small)) for _ in range(batch)]
        x, target = (t[rows].float().to(options.device) for t in (small, large))
        with training.autocast(options.device):
            output = upsampler(video_vae.denormalised(vae, x)).float()
        error = (video_vae.normalised(vae, output) - target).square().mean()
        return error, {"error": float(error.detach())}

    def oracle(averaged: torch.nn.Module) -> dict[str, float]:
        """PSNR of the picture: upsampled latents, and the small picture made larger, against the scene itself."""
        rng = random.Random(99)
        scenes = [scene.sample(rng, "held_out") for _ in range(8)]
        target = picture.render(scenes, model.SIDE, model.FRAMES, options.device)
        half = picture.render(scenes, model.SIDE // 2, model.FRAMES, options.device)
        with training.autocast(options.device):
            z = averaged(video_vae.latents(vae, half)).float()
            output = vae.decode(z).sample.float()
            rough = vae.decode(video_vae.latents(vae, half)).sample.float()
        rough = torch.nn.functional.interpolate(rough, scale_factor=(1, 2, 2), mode="trilinear")
        return {"psnr": video_vae.psnr(output, target), "psnr of enlarging": video_vae.psnr(rough, target)}

    run.train(loss, oracle)
