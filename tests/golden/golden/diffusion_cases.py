"""Noise from torch's CPU generator, and Euler steps. Cases in which the references differ are in
lightricks_cases.py."""

import torch
from diffusers import FlowMatchEulerDiscreteScheduler

from golden.case import Case

# torch fills 16 elements at a time by Box-Muller (and redoes the last 16 of an uneven size). Below 16 it draws them one
# by one, and an odd count leaves half a pair for the next draw. All draws of a seed come from one sequence.
_DRAWS = ((16, 3, 4, 6), (8, 13, 16), (5,), (3,), (15,), (16,), (17,), (1,), (1, 40), (2, 2), (100,))
_SEEDS = (0, 10, 42, 4294967295, 2**63 - 1)


def _noise() -> Case:
    def run(*_):
        found = {}
        for seed in _SEEDS:
            gen = torch.Generator("cpu").manual_seed(seed)
            for i, shape in enumerate(_DRAWS):
                found[f"seed{seed}.draw{i}"] = torch.randn(shape, generator=gen)
        return found

    return Case("noise", "", None, {}, {}, run, {}, {"seeds": [str(s) for s in _SEEDS], "draws": _DRAWS})


def _euler() -> Case:
    """The loop with explicit sigmas and given velocities; latents are float32 throughout."""
    sigmas, gen = [1.0, 0.9, 0.725, 0.421875], torch.Generator().manual_seed(71)
    latent = torch.randn(1, 13, 16, generator=gen)
    velocity = torch.randn(len(sigmas), 1, 13, 16, generator=gen)

    def run(*_):
        scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=False, shift_terminal=None)
        scheduler.set_timesteps(sigmas=sigmas)
        scheduler.set_begin_index(0)
        found, z = {"sigmas": scheduler.sigmas.clone(), "timesteps": scheduler.timesteps.clone()}, latent
        for i, t in enumerate(scheduler.timesteps):
            found[f"x0_{i}"] = z - velocity[i] * scheduler.sigmas[i]
            z = scheduler.step(velocity[i], t, z, return_dict=False)[0]
            found[f"latent_{i}"] = z
        return found

    return Case("euler", "", None, {}, {"latent": latent, "velocity": velocity, "sigmas": torch.tensor(sigmas)}, run)


def cases() -> list[Case]:
    return [_noise(), _euler()]
