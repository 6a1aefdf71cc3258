"""Connectors and transformer: flow matching on cached latents of scenes, each with a new prompt every time it is seen.

Scenes of the model's size and of half of it (the first stage of a two-stage render). A tenth of the prompts are empty or
the negative prompt, for classifier-free guidance; now and then the modalities are kept apart, for modality guidance. As
captions of found videos do, prompts err: without guidance the model follows them about as well as they were true.

Attention sees differences of places only, and between tokens of pure noise nothing else differs. A token can still tell
its place, by whether what lies one step aside is itself; but velocities alone taught that for rows and columns and hardly
for time, so that nothing moved as it was told. A second loss asks for it, early in the network; 200 steps are enough.
"""

import random

import torch
from torch.nn import functional

import cache
import flow
import following
import model
import text
import training
from stages import audio_vae, video_vae
from world import grammar, picture, scene

STEPS, BATCH, RATE, MATRIX_RATE = 11000, 32, 1.5e-3, 2e-3
SCENES = dict(zip(model.SIDES, (6_400, 1_600)))  # how many latents of each size are kept; the same scenes
PIECE = 32  # of them at once
HALF_SHARE = 0.1  # of the steps, at half the size
HARD = 2.0  # times as often as others, a scene with a star or with corners that spin: those are learned last
NO_PROMPT = 0.1
MISTAKEN = 0.25  # of the shapes, colours, motions, backgrounds and pitches, drawn anew: about a fifth is wrong
ISOLATED = 0.02
AUDIO_WEIGHT = 0.5
PLACE_WEIGHT, PLACE_BLOCK = 0.1, 1  # asked of the hidden states after that block
SHIFTS = 10.0, 2.0, 1.0


def scenes(first: int, count: int) -> list[scene.Scene]:
    """The training scenes by index, of every size the same."""
    return [scene.sample(random.Random(training.fold_in(training.Stream.SCENES, i))) for i in range(first, first + count)]


def weight(shown: scene.Scene) -> float:
    """How much more often than others training sees `shown`."""
    hard = any(t.shape == "star" or (t.motion == "spin" and t.shape != "circle") for t in shown.things)
    return HARD if hard else 1.0


def latents(options: training.Options, side: int) -> flow.Pair:
    """Normalised packed latents of the first SCENES[side] scenes, bfloat16."""
    video = training.load_averaged(options.work, "video_vae", model.video_vae(), options.device)
    audio = training.load_averaged(options.work, "audio_vae", model.audio_vae(), options.device)
    if not (training.has_statistics(video) and training.has_statistics(audio)):
        raise SystemExit("video_vae or audio_vae has not taken its latent statistics: train it further first")

    def make(index: int) -> dict[str, torch.Tensor]:
        some = scenes(index * PIECE, PIECE)
        z = video_vae.latents(video, picture.render(some, side, model.FRAMES, options.device))
        y = audio_vae.scene_latents(audio, some, options.device)
        return {
            "video": flow.packed(video_vae.normalised(video, z)),
            "audio": (y - audio.latents_mean) / audio.latents_std,
        }

    makers = [video.encoder, audio.encoder]
    return flow.Pair(**cache.pieces(options.work / f"latents_{side}.pt", makers, SCENES[side] // PIECE, make))


def sigmas(count: int, generator: torch.Generator) -> torch.Tensor:
    """Noise levels: for a third of the clips where a prompt decides what is where, for the rest where shapes get their edges.

    A clip's 4,096 latent numbers all tell of the few attributes of its scene, so noise hides those only above about 0.95.
    The dev schedule's shift for released clips is near the largest, 7.8.
    """
    shift = torch.tensor(SHIFTS)[torch.arange(count) % len(SHIFTS)]
    u = torch.rand(count, generator=generator)
    return (shift * u / (1 + (shift - 1) * u)).clamp(1e-3, 1)


def train(options: training.Options) -> None:
    torch.manual_seed(options.seed)
    encode = text.trained(options.work, options.device)
    data = {side: latents(options, side) for side in SCENES}
    shown = scenes(0, max(SCENES.values()))
    weights = [weight(s) for s in shown]
    denoiser = flow.Denoiser().to(options.device).train()
    run = training.Run("transformer", options, denoiser, steps=STEPS, rate=RATE, matrix_rate=MATRIX_RATE, average=0.9995)
    batch = options.batch or BATCH
    early = {}  # the video stream after PLACE_BLOCK
    blocks = denoiser.transformer.transformer_blocks
    blocks[PLACE_BLOCK].register_forward_hook(lambda _, __, streams: early.update(video=streams[0]))
    for block in blocks:
        block.compile(dynamic=False)  # a third less time per step; minutes once

    def loss(step: int):
        rng = random.Random(training.fold_in(options.seed, step))
        generator = torch.Generator().manual_seed(training.fold_in(options.seed, step))
        side = model.SIDE // 2 if rng.random() < HALF_SHARE else model.SIDE
        apart = rng.random() < ISOLATED
        rows = rng.choices(range(SCENES[side]), weights[: SCENES[side]], k=batch)
        prompts = [
            rng.choice(("", model.NEGATIVE_PROMPT))
            if rng.random() < NO_PROMPT
            else grammar.describe(scene.mistaken(shown[i], rng, MISTAKEN), rng).prompt
            for i in rows
        ]
        x0 = data[side].map(lambda t: t[rows].float())
        noise = x0.map(lambda t: torch.randn(t.shape, generator=generator))
        x0, noise = (p.map(lambda t: t.to(options.device)) for p in (x0, noise))
        sigma = sigmas(batch, generator).to(options.device)
        torch.compiler.set_stance("force_eager" if apart or side != model.SIDE else "default")  # one shape is compiled
        with training.autocast(options.device), training.attention(options.device):
            contexts = denoiser.contexts(*encode(prompts))
            v = denoiser.velocity(
                flow.blend(x0, noise, sigma), contexts, sigma, side, model.FRAMES, isolate_modalities=apart
            )
        error = v.zip(noise.zip(x0, torch.sub), lambda a, b: (a - b).square().mean())
        scores = denoiser.whereabouts(functional.rms_norm(early["video"].float(), early["video"].shape[-1:]))
        places = flow.places(side, model.FRAMES).to(options.device).expand(batch, -1, -1)
        place = 3 * functional.cross_entropy(scores.unflatten(2, (3, -1)).permute(0, 3, 1, 2), places)
        records = {"video": error.video, "audio": error.audio, "place": place}
        whole = error.video + AUDIO_WEIGHT * error.audio + PLACE_WEIGHT * place
        return whole, {name: float(value.detach()) for name, value in records.items()}

    run.train(loss, following.Oracle(options, encode))
