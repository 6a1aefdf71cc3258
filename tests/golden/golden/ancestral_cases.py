"""Lightricks' ancestral Euler loop with given predictions: noise from its own generator, masks, the last step."""

import torch

from golden import res2s_cases, sensitivity
from golden.case import Case, Tensors

# The distilled levels.
_SIGMAS = [1.0, 0.99375, 0.9875, 0.98125, 0.975, 0.909375, 0.725, 0.421875, 0.0]
_SEED = 42


def _run(data: Tensors, eta: float = 1.0, seed: int = _SEED + 10000) -> Tensors:
    from ltx_core.components.diffusion_steps import EulerAncestralDiffusionStep
    from ltx_pipelines.utils.samplers import euler_ancestral_denoising_loop
    from ltx_pipelines.utils.types import DenoisedLatentResult

    found = {}

    def denoiser(_transformer, video_state, audio_state, sigmas, step_index):
        results = []
        for which, at in (("video", video_state), ("audio", audio_state)):
            x0 = res2s_cases.prediction(at.latent, data[f"{which}_target"], float(sigmas[step_index]))
            found[f"{which}_z_{step_index}"], found[f"{which}_x0_{step_index}"] = at.latent.clone(), x0.clone()
            results.append(DenoisedLatentResult(denoised=x0))
        return tuple(results)

    video, audio = euler_ancestral_denoising_loop(
        sigmas=data["sigmas"],
        video_state=res2s_cases.state(data, "video"),
        audio_state=res2s_cases.state(data, "audio"),
        stepper=EulerAncestralDiffusionStep(eta=eta),
        transformer=None,
        denoiser=denoiser,
        noise_seed=seed,
        model_dtype=torch.float32,
    )
    return found | {"video": video.latent, "audio": audio.latent}


def _without_last_blend(data: Tensors) -> Tensors:
    """Mixes predictions with the clean latents, but not what a step returns."""
    from ltx_pipelines.utils import samplers

    blend, calls = samplers.post_process_latent, 0

    def first_two_of_four(latent, mask, clean):  # both predictions of a step, then both results
        nonlocal calls
        calls += 1
        return blend(latent, mask, clean) if (calls - 1) % 4 < 2 else latent

    with sensitivity.swapped(samplers, "post_process_latent", first_two_of_four)():
        return _run(data)


def cases() -> list[Case]:
    data = res2s_cases.inputs(_SIGMAS, seed=93)
    case = Case("ancestral", "", None, {}, data, lambda _module, inputs: _run(inputs), {}, {"seed": str(_SEED)})
    case.mistakes = {
        "no noise": lambda: _run(data, eta=0.0),
        "less noise": lambda: _run(data, eta=0.9),
        "noise of the request's seed": lambda: _run(data, seed=_SEED),
        "masks after the prediction alone": lambda: _without_last_blend(data),
        "no masks": sensitivity.broken(case, inputs={"video_mask": torch.ones_like(data["video_mask"])}),
    }
    case.lightricks = True
    return [case]
