"""A render of models/tiny in which every draw of noise is given by name (`kinora-render --noise`), none by the seed.

It is HQ with an appended picture: the initial noise of both stages, for the grid, the appended tokens and the sound,
and the noise that res_2s adds half-way and at the end of each step.
"""

import functools

import torch

from golden import condition_cases, pipeline_cases
from golden.case import Case, Tensors
from golden.condition_cases import Models, Run, Shown, smooth

_SEED = 1234  # of the given noise; the request's seed differs


def _draws(request: dict, appended: int) -> Tensors:
    """`appended` is the number of pictures, of one latent frame each."""
    generator, found = torch.Generator().manual_seed(_SEED), {}
    frames, audio = (request["num_frames"] - 1) // 8 + 1, round(request["num_frames"] / request["frame_rate"] * 25)
    steps = {1: len(request["sigmas"]) - 1, 2: 3}
    for stage, ending, shrunk in ((1, "", 2), (2, "_stage2", 1)):
        cells = [request[side] // shrunk // 32 for side in ("height", "width")]
        for use, draws in (("", 1), ("_substep", steps[stage]), ("_step", steps[stage])):
            shapes = {
                f"video_noise{use}": [draws, 16, frames, *cells],
                f"video_noise_appended{use}": [draws, appended * cells[0] * cells[1], 16],
                f"audio_noise{use}": [draws, 8, audio, 16],
            }
            found |= {name + ending: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return found


class _Given(Run):
    def __init__(self, models: Models, request: dict, pictures: Tensors, shown: list[Shown], noise: Tensors) -> None:
        super().__init__(models, request, pictures, shown)
        self.noise = noise

    def _packed(self, modality: str, use: str, stage: int, draw: int) -> torch.Tensor:
        """[1, tokens, channels]"""
        ending = "_stage2" if stage == 2 else ""
        drawn = self.noise[f"{modality}_noise{use}{ending}"][draw : draw + 1]
        if modality == "audio":
            return drawn.transpose(1, 2).flatten(2)
        appended = self.noise[f"video_noise_appended{use}{ending}"][draw : draw + 1]
        return torch.cat([drawn.flatten(2).transpose(1, 2), appended], 1)

    def noiser(self, height: int, width: int):
        from ltx_core.components.noisers import GaussianNoiser

        packed, draws = self._packed, iter([("video", 1), ("audio", 1), ("video", 2), ("audio", 2)])

        class Noiser(GaussianNoiser):
            def _sample_noise(self, state):
                modality, stage = next(draws)
                return packed(modality, "", stage, 0)

        return Noiser(torch.Generator())

    def sampler(self, stage: int) -> dict:
        steps = self.noise["video_noise_step"].shape[0]
        draws = iter([(m, use, i) for i in range(steps) for use in ("_substep", "_step") for m in ("video", "audio")])

        def given(_latent: torch.Tensor, _generator: torch.Generator) -> torch.Tensor:
            modality, use, draw = next(draws)
            return self._packed(modality, use, stage, draw).double()

        options = super().sampler(stage)
        return options | {"loop": functools.partial(options["loop"], new_noise_fn=given)}


def cases() -> list[Case]:
    models = Models()
    request = pipeline_cases.one_stage_request() | {"sigmas": [1.0, 0.85, 0.4, 0.0], "recipe": "HQ", "width": 128}
    pictures = {"wide": smooth(8, 1, 30, 50), "high": smooth(9, 1, 60, 40)}
    shown = [Shown("wide", strength=0.9), Shown("high", frame=5, strength=0.1)]
    noise = _draws(request, appended=1)
    case = condition_cases.case_of(models, "pipeline_given_noise", request, pictures, shown)
    case.run = lambda *_: _Given(models, request, pictures, shown, noise)()
    case.parameters["given_noise"] = True
    case.plain |= noise

    def otherwise(name: str):
        swapped = noise | {name: noise[name].flip(1)}
        return lambda: _Given(models, request, pictures, shown, swapped)()

    case.mistakes = {f"{name} is not taken": otherwise(name) for name in noise}
    return [case]
