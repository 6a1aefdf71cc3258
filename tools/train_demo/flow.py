"""Flow matching on packed latents: what training, distillation and measuring of the transformer share.

x_sigma = (1 - sigma) x0 + sigma noise; the model gives the velocity noise - x0. Latents are normalised and packed:
video [B, F'·H'·W', C], audio [B, T, AUDIO_CHANNELS]. Both streams share sigma.
"""

import dataclasses
import math

import torch

import model
import training


@dataclasses.dataclass
class Pair:
    """One tensor per modality."""

    video: torch.Tensor
    audio: torch.Tensor

    def map(self, f) -> "Pair":
        return Pair(f(self.video), f(self.audio))

    def zip(self, other: "Pair", f) -> "Pair":
        return Pair(f(self.video, other.video), f(self.audio, other.audio))


def video_tokens(side: int, frames: int) -> int:
    return ((frames - 1) // 8 + 1) * (side // 32) ** 2


def audio_tokens(frames: int) -> int:
    return round(frames / model.FPS * 25)


def places(side: int, frames: int) -> torch.Tensor:
    """[tokens, 3]: frame, row and column of every video token."""
    cells = side // 32
    return torch.cartesian_prod(*(torch.arange(n) for n in ((frames - 1) // 8 + 1, cells, cells)))


class Denoiser(torch.nn.Module):
    """Connectors and transformer, trained together.

    `whereabouts`, which training alone needs and nothing publishes, gives from a video token's hidden state its frame, row
    and column, as PLACES scores each.
    """

    PLACES = model.SIDE // 32

    def __init__(self):
        super().__init__()
        self.connectors = model.connectors()
        self.transformer = model.transformer()
        config = self.transformer.config
        self.whereabouts = torch.nn.Linear(config.num_attention_heads * config.attention_head_dim, 3 * self.PLACES)
        self._coordinates: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def contexts(self, states: torch.Tensor, mask: torch.Tensor) -> Pair:
        """[B, TEXT_ROWS, width] for each modality, from text.Encoder's states."""
        video, audio, _ = self.connectors(states, mask)
        return Pair(video, audio)

    def coordinates(self, side: int, frames: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        key = (side, frames)
        if key not in self._coordinates:
            grid = ((frames - 1) // 8 + 1, side // 32, side // 32)
            self._coordinates[key] = (
                self.transformer.rope.prepare_video_coords(1, *grid, device, fps=model.FPS),
                self.transformer.audio_rope.prepare_audio_coords(1, audio_tokens(frames), device),
            )
        return self._coordinates[key]

    def velocity(self, x: Pair, contexts: Pair, sigma: torch.Tensor, side: int, frames: int, **options) -> Pair:
        """sigma [B] in [0, 1]."""
        coordinates = self.coordinates(side, frames, x.video.device)
        video, audio = self.transformer(
            hidden_states=x.video,
            audio_hidden_states=x.audio,
            encoder_hidden_states=contexts.video,
            audio_encoder_hidden_states=contexts.audio,
            timestep=sigma[:, None] * 1000,
            sigma=sigma * 1000,
            video_coords=coordinates[0].expand(len(sigma), -1, -1, -1),
            audio_coords=coordinates[1].expand(len(sigma), -1, -1, -1),
            use_cross_timestep=True,
            return_dict=False,
            **options,
        )
        return Pair(video.float(), audio.float())


def packed(latents: torch.Tensor) -> torch.Tensor:
    """[B, C, F', H', W'] to [B, F'·H'·W', C]."""
    return latents.flatten(2).transpose(1, 2)


def unpacked(tokens: torch.Tensor, side: int) -> torch.Tensor:
    """[B, F'·H'·W', C] to [B, C, F', H', W']."""
    cells = side // 32
    return tokens.transpose(1, 2).unflatten(2, (-1, cells, cells))


def blend(x0: Pair, noise: Pair, sigma: torch.Tensor) -> Pair:
    s = sigma[:, None, None]
    return x0.zip(noise, lambda a, b: (1 - s) * a + s * b)


def schedule(steps: int) -> list[float]:
    """LTX-2's dev schedule as its pipelines take it: shifted for 4,096 tokens, stretched to end at 0.1, then 0."""
    shift = math.exp(2.05)
    sigmas = [1 - i / steps for i in range(steps)]
    sigmas = [shift / (shift + (1 / s - 1)) for s in sigmas]
    scale = (1 - sigmas[-1]) / (1 - 0.1)
    return [1 - (1 - s) / scale for s in sigmas] + [0.0]


DISTILLED = [1.0, 0.99375, 0.9875, 0.98125, 0.975, 0.909375, 0.725, 0.421875, 0.0]


@torch.no_grad()
def sample(
    denoiser: Denoiser,
    contexts: Pair,
    negative: Pair | None,
    noise: Pair,
    sigmas: list[float],
    side: int,
    frames: int,
    scale: float,
) -> Pair:
    """Euler steps with classifier-free guidance of `scale`, none without `negative`."""
    x = noise
    batch = noise.video.shape[0]
    for now, after in zip(sigmas, sigmas[1:]):
        with training.autocast(str(x.video.device)):
            sigma = torch.full((batch,), now, device=x.video.device)
            v = denoiser.velocity(x, contexts, sigma, side, frames)
            if negative is not None:
                u = denoiser.velocity(x, negative, sigma, side, frames)
                v = u.zip(v, lambda a, b: a + scale * (b - a))
        x = x.zip(v, lambda a, b: a + (after - now) * b)
    return x


def noise(count: int, side: int, frames: int, seed: int, device: str) -> Pair:
    """Where `count` clips of side x side pixels begin."""
    generator = torch.Generator().manual_seed(seed)
    video = torch.randn(count, video_tokens(side, frames), model.LATENT_CHANNELS, generator=generator)
    audio = torch.randn(count, audio_tokens(frames), model.AUDIO_CHANNELS, generator=generator)
    return Pair(video.to(device), audio.to(device))
