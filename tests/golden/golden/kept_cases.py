"""Guided retakes of models/tiny that keep the whole picture or sound, through Lightricks' stages.

The kept modality is clean from the start, where the reference would start with noise. Like the generated one it is
perturbed in the STG pass, which predicts the other modality from it.
"""

import dataclasses
from collections.abc import Callable

from golden import pipeline_cases, tiny
from golden.case import Case, Tensors
from golden.condition_cases import Models, Run, smooth, tones

_OFF = {"cfg_scale": 1.0, "stg_scale": 0.0, "stg_blocks": [], "modality_scale": 1.0, "rescale": 0.0}


class _Kept(Run):
    def __init__(self, models: Models, request: dict, pictures: Tensors) -> None:
        super().__init__(models, request, pictures, [])
        self.noised = False

    def _frozen(self, spec):
        from ltx_core.conditioning.types.noise_mask_cond import TemporalRegionMask

        nowhere = TemporalRegionMask(-2.0, -1.0, fps=self.request["frame_rate"])
        return dataclasses.replace(spec, conditionings=[] if self.noised else [nowhere], frozen=True)

    def heard(self, context):
        spec = super().heard(context)
        return self._frozen(spec) if self.retake.get("keep_audio") else spec

    def spec(self, context, *args, **options):
        spec = super().spec(context, *args, **options)
        return self._frozen(spec) if self.retake.get("keep_video") else spec

    def __call__(self) -> Tensors:
        return {k: v for k, v in super().__call__().items() if k != "waveform"}


def _case(models: Models, name: str, kept: str, request: dict, pictures: Tensors) -> Case:
    parameters = {
        "request": request,
        "model": f"models/tiny/{tiny.FILE}",
        "text_encoder": "models/tiny/gemma",
        "frame_stride": 6,
    }
    run = lambda *_: _Kept(models, request, pictures)()  # noqa: E731
    case = Case(name, "", None, {}, {}, run, {}, parameters, lightricks=True)
    case.plain = {f"in.{k}": v for k, v in pictures.items()}

    def guided(**terms) -> Callable[[], Tensors]:
        field = f"{kept}_guidance"
        return lambda: _Kept(models, request | {field: request[field] | terms}, pictures)()

    def noised() -> Tensors:
        run = _Kept(models, request, pictures)
        run.noised = True
        return run()

    case.mistakes = {
        "what is kept is not perturbed": guided(stg_scale=0.0),
        "it is perturbed in the other's block": guided(stg_blocks=[1]),
        "it enters as noise": noised,
    }
    return case


def cases() -> list[Case]:
    models = Models()
    dev = pipeline_cases.one_stage_request() | {"sigmas": [1.0, 0.85, 0.4, 0.0]}
    pictures = {"clip": smooth(7, 9, 20, 30), "sound": tones(6000)}
    window = {"picture": "clip", "start_seconds": 0.1, "end_seconds": 0.3, "sound_rate": 16000}
    return [
        _case(
            models,
            f"pipeline_retake_keep_{kept}",
            kept,
            dev | {"retake": window | {f"keep_{kept}": True}, f"{kept}_guidance": _OFF | {"stg_scale": 1.0, "stg_blocks": [0]}},
            pictures,
        )
        for kept in ("video", "audio")
    ]
