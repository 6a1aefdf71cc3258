"""Video VAE: reconstructs clips of the world.

Most steps take short 64x64 clips full of edges and colours; every eighth a few whole 128x128 scenes, which alone show the
convolutions positions that no border reaches. The encoder stops learning before the decoder: from then on latents are
final, so the stages that learn from them can begin while the decoder goes on, with latents that noise was added to.
"""

import dataclasses
import random

import torch
from torch.nn import functional

import model
import training
from world import measure_picture, picture, scene

STEPS, BATCH, RATE, MATRIX_RATE = 6000, 12, 2e-3, 3e-3
ENCODER_STEPS = 4200
NOISE = 0.4  # the most, in deviations of a channel, that the decoder learns to see through: the transformer's latents err
STARS = 0.3  # of the things that are none become one: five tips are the hardest to rebuild
KL_WEIGHT = 1e-5
FIRST_LOG_VARIANCE = -6.0
EDGE_WEIGHT = 1.0
THING_WEIGHT = 3.0  # of pixels that are not background, above the others


def initialise(vae: torch.nn.Module) -> None:
    """First weights from which training starts at once: near-linear, with latents that the decoder can see.

    Residual branches begin small, upsamplers as nearest neighbours. Every norm in these networks is over the channels
    of one pixel, so brightness survives only beside a bias: the encoder's first convolution has one, the decoder's must
    not drown the latent. At the variance of 1 that fresh weights give, the decoder would learn to ignore the latent.
    """
    for name, module in vae.named_modules():
        if not isinstance(module, torch.nn.Conv3d):
            continue
        torch.nn.init.kaiming_normal_(module.weight, nonlinearity="linear")
        torch.nn.init.zeros_(module.bias)
        with torch.no_grad():
            if name.endswith("conv2.conv"):
                module.weight *= 0.2
            elif "upsamplers" in name:
                module.weight *= 0.2
                outputs, inputs = module.weight.shape[:2]
                rows = torch.arange(outputs)
                module.weight[rows, rows // max(1, outputs // inputs) % inputs, 1, 1, 1] += 1
    with torch.no_grad():
        torch.nn.init.normal_(vae.encoder.conv_in.conv.bias, std=0.5)
        vae.encoder.conv_out.conv.weight[:-1] *= 3
        vae.encoder.conv_out.conv.bias[-1] = FIRST_LOG_VARIANCE


def _zoom(tracks: torch.Tensor, i: int, scale: float, rng: random.Random) -> None:
    """Makes clip i a window of 1/scale of the picture, which holds the first thing in the middle of the clip."""
    for axis in range(2):
        middle = float(tracks[i, 0, axis, tracks.shape[-1] // 2])
        start = min(max(middle - rng.uniform(0.2, 0.8) / scale, 0.0), 1 - 1 / scale)
        tracks[i, :, axis] = (tracks[i, :, axis] - start) * scale
    tracks[i, :, 2] *= scale


def starry(shown: scene.Scene, rng: random.Random) -> scene.Scene:
    """With more stars than other shapes."""
    things = tuple(dataclasses.replace(t, shape="star") if rng.random() < STARS else t for t in shown.things)
    return dataclasses.replace(shown, things=things)


def clips(
    seed: int, batch: int, side: int, frames: int, device: str, *, zoom: float = 1.0, any_colour: float = 0.0
) -> torch.Tensor:
    """[batch, 3, frames, side, side] in [-1, 1]: windows of `frames` frames of scenes of the model's length.

    zoom: every clip shows 1/zoom of the picture. any_colour: share of clips in colours that no word names.
    """
    rng = random.Random(seed)
    scenes = [starry(scene.sample(rng), rng) for _ in range(batch)]
    background, shapes, colours, tracks = picture.tensors(scenes, model.FRAMES)
    first = [rng.randint(0, model.FRAMES - frames) for _ in range(batch)]
    tracks = torch.stack([t[..., f : f + frames] for t, f in zip(tracks, first)])
    for i in range(batch):
        if rng.random() < any_colour:
            background[i] = torch.tensor([rng.uniform(-1, 1) for _ in range(3)])
            colours[i] = torch.tensor([rng.uniform(-1, 1) for _ in range(3 * colours.shape[1])]).view(-1, 3)
        if zoom > 1:
            _zoom(tracks, i, zoom, rng)
    return picture.draw(*(t.to(device) for t in (background, shapes, colours, tracks)), side)


def mosaics(seed: int, batch: int, tile: int, frames: int, device: str) -> torch.Tensor:
    """[batch, 3, frames, 2 tile, 2 tile]: four windows side by side, four times the colours and edges of a clip."""
    parts = clips(seed, 4 * batch, tile, frames, device, zoom=model.SIDE / tile, any_colour=0.1)
    a, b, c, d = parts.chunk(4)
    return torch.cat([torch.cat([a, b], 4), torch.cat([c, d], 4)], 3)


def training_clips(seed: int, step: int, batch: int, device: str) -> torch.Tensor:
    """Of eight steps four take mosaics, two windows, one whole small scenes, one whole scenes of the model's size."""
    whole, half = model.SIDE, model.SIDE // 2
    match step % 8:
        case 7:
            return clips(seed, max(1, batch // 6), whole, model.FRAMES, device)
        case 3:
            return clips(seed, batch // 2, half, model.FRAMES, device)
        case 1 | 5:
            return clips(seed, batch, half, 9, device, zoom=2, any_colour=0.1)
        case _:
            return mosaics(seed, batch, model.SIDE // 4, 9, device)


def edges(x: torch.Tensor) -> list[torch.Tensor]:
    """Differences between neighbours in time, height and width."""
    return [x.diff(dim=d) for d in (2, 3, 4)]


def reconstruction(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    background = target[:, :, :, :1, :1]
    things = ((target - background).abs().amax(1, keepdim=True) > 0.05).float()
    things = functional.max_pool3d(things, (1, 5, 5), 1, (0, 2, 2))  # and their surroundings
    error = (output - target).abs() + (output - target).square()
    loss = (error * (1 + THING_WEIGHT * things)).mean()
    for a, b in zip(edges(output), edges(target)):
        loss = loss + EDGE_WEIGHT * (a - b).abs().mean()
    return loss


def psnr(output: torch.Tensor, target: torch.Tensor) -> float:
    """Mean over the clips, of values in [-1, 1]."""
    error = (output.clamp(-1, 1) - target).square().mean((1, 2, 3, 4))
    return float((10 * torch.log10(4 / error)).mean())


def latents(vae: torch.nn.Module, clip: torch.Tensor, sample: bool = False) -> torch.Tensor:
    """Raw latents [batch, C, F', H', W'], float32."""
    with training.autocast(str(clip.device)):
        distribution = vae.encode(clip).latent_dist
    return (distribution.sample() if sample else distribution.mean).float()


def _statistics(vae: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation of every channel, [C, 1, 1, 1]."""
    return tuple(s.view(-1, 1, 1, 1) for s in (vae.latents_mean, vae.latents_std))


def normalised(vae: torch.nn.Module, z: torch.Tensor) -> torch.Tensor:
    mean, deviation = _statistics(vae)
    return (z - mean) / deviation


def denormalised(vae: torch.nn.Module, z: torch.Tensor) -> torch.Tensor:
    mean, deviation = _statistics(vae)
    return z * deviation + mean


@torch.no_grad()
def take_statistics(vae: torch.nn.Module, options: training.Options, count: int = 256) -> None:
    """Mean and standard deviation of every latent channel over scenes of the world."""
    device = options.device
    seeds = (training.fold_in(training.Stream.STATISTICS, i) for i in range(count // 4))
    parts = [latents(vae, clips(seed, 4, model.SIDE, model.FRAMES, device)) for seed in seeds]
    values = torch.cat(parts).transpose(0, 1).flatten(1)
    vae.latents_mean.copy_(values.mean(1))
    vae.latents_std.copy_(values.std(1))


def freeze_encoder(run: training.Run, options: training.Options) -> None:
    """The averaged encoder becomes the one that the decoder learns from, and its statistics part of the model."""
    run.module.encoder.requires_grad_(False)
    if training.has_statistics(run.averaged):  # a resumed run
        return
    run.module.encoder.load_state_dict(run.averaged.encoder.state_dict())
    take_statistics(run.averaged, options)
    run.module.latents_mean.copy_(run.averaged.latents_mean)
    run.module.latents_std.copy_(run.averaged.latents_std)
    run.save()


def train(options: training.Options) -> None:
    torch.manual_seed(options.seed)
    vae = model.video_vae()
    initialise(vae)
    vae = vae.to(options.device).train()
    run = training.Run("video_vae", options, vae, steps=STEPS, rate=RATE, matrix_rate=MATRIX_RATE)
    batch = options.batch or BATCH
    encoder_steps = min(ENCODER_STEPS, run.steps * 7 // 10)

    def loss(step: int):
        if step >= encoder_steps and vae.encoder.conv_in.conv.weight.requires_grad:
            freeze_encoder(run, options)
        torch.manual_seed(training.fold_in(options.seed, step))
        target = training_clips(training.fold_in(options.seed, step), step, batch, options.device)
        with training.autocast(options.device):
            distribution = vae.encode(target).latent_dist
            z = distribution.sample()
            if step >= encoder_steps:
                level = NOISE * torch.rand(len(z), 1, 1, 1, 1, device=options.device)
                z = z + level * _statistics(vae)[1] * torch.randn_like(z)
            output = vae.decode(z).sample.float()
        kl = 0.5 * (distribution.mean.square() + distribution.var - 1 - distribution.logvar).float().mean()
        rebuilt = reconstruction(output, target)
        return rebuilt + KL_WEIGHT * kl, {"loss": float(rebuilt.detach()), "kl": float(kl.detach())}

    def oracle(averaged: torch.nn.Module) -> dict[str, float]:
        rng = random.Random(99)
        scenes = [scene.sample(rng, "held_out") for _ in range(16)]
        target = picture.render(scenes, model.SIDE, model.FRAMES, options.device)
        with training.autocast(options.device):
            output = averaged.decode(latents(averaged, target)).sample.float()
        return {"psnr": psnr(output, target)} | measure_picture.agreement(scenes, picture.pixels(output))

    run.train(loss, oracle)
