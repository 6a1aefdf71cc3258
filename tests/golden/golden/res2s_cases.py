"""Lightricks' res_2s loop with given predictions: noise from its own generators, masks, and the rounds."""

import torch

from golden import sensitivity
from golden.case import Case, Tensors

# Steps with the hundred rounds (small, above 0.03) and without; the first level is similar to the dev schedule's.
_SIGMAS = [0.99999982, 0.9, 0.7, 0.3, 0.04, 0.028, 0.0]


def prediction(z: torch.Tensor, target: torch.Tensor, sigma: float) -> torch.Tensor:
    """Returns a clean latent that depends on all arguments."""
    return (1 - 0.3 * sigma) * target + 0.2 * torch.tanh(z.float()) + 0.1 * sigma


def state(data: Tensors, which: str):
    """Returns the initial state of the modality `which`."""
    from ltx_core.types import LatentState

    return LatentState(
        latent=data[f"{which}_latent"],
        denoise_mask=data[f"{which}_mask"][..., None],
        positions=torch.zeros(0),
        clean_latent=data[f"{which}_clean"],
    )


def inputs(sigmas: list[float], seed: int) -> Tensors:
    """Returns latents, clean latents, targets and masks of both modalities for the levels `sigmas`."""
    gen = torch.Generator().manual_seed(seed)
    data = {"sigmas": torch.tensor(sigmas)}
    for which, shape in (("video", (1, 11, 16)), ("audio", (1, 5, 8))):
        for part in ("latent", "clean", "target"):
            data[f"{which}_{part}"] = torch.randn(shape, generator=gen)
        data[f"{which}_mask"] = torch.ones(shape[:2])
    data["video_mask"][0, :2], data["video_mask"][0, 2] = 0.0, 0.6
    return data


def _run(data: Tensors, **options) -> Tensors:
    from ltx_core.components.diffusion_steps import Res2sDiffusionStep
    from ltx_pipelines.utils.samplers import res2s_audio_video_denoising_loop
    from ltx_pipelines.utils.types import DenoisedLatentResult

    found, levels = {}, []

    def denoiser(_transformer, video_state, audio_state, sigmas, step_index):
        i, sigma = len(levels), float(sigmas[step_index])
        levels.append(sigma)
        results = []
        for which, at in (("video", video_state), ("audio", audio_state)):
            x0 = prediction(at.latent, data[f"{which}_target"], sigma)
            found[f"{which}_z_{i}"], found[f"{which}_x0_{i}"] = at.latent.clone(), x0.clone()
            results.append(DenoisedLatentResult(denoised=x0))
        return tuple(results)

    video, audio = res2s_audio_video_denoising_loop(
        sigmas=data["sigmas"],
        video_state=state(data, "video"),
        audio_state=state(data, "audio"),
        stepper=Res2sDiffusionStep(),
        transformer=None,
        denoiser=denoiser,
        model_dtype=torch.float32,
        **options,
    )
    return found | {"levels": torch.tensor(levels), "video": video.latent, "audio": audio.latent}


def cases() -> list[Case]:
    data = inputs(_SIGMAS, seed=91)
    case = Case("res2s", "", None, {}, data, lambda _module, inputs: _run(inputs))
    case.mistakes = {
        "no rounds": lambda: _run(data, bongmath=False),
        "ten rounds": lambda: _run(data, bongmath_max_iter=1),
        "other noise half-way": lambda: _run(data, noise_seed_substep=-1),
        "noise of another seed": lambda: _run(data, noise_seed=0, noise_seed_substep=9999),
        "masks after the prediction alone": lambda: _run(data, legacy_mode=False),
        "less noise": lambda: _run(data, eta=0.4),
        "no masks": sensitivity.broken(case, inputs={"video_mask": torch.ones_like(data["video_mask"])}),
    }
    case.lightricks = True
    return [case]
