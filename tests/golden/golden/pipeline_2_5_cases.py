"""Renders of models/tiny-2.5 through Lightricks' stages, samplers, denoisers and conditions."""

import functools
from collections.abc import Callable

import torch

from golden import condition_cases, configs, lightricks, pipeline_cases, tiny_2_5
from golden.case import Case, Tensors
from golden.condition_cases import Run, Shown, smooth


class Models(condition_cases.Models):
    """The modules of models/tiny-2.5, without LoRAs."""

    def __init__(self) -> None:
        self.meta, self.parts = configs.ltx_2_5(), tiny_2_5.modules()
        files = tiny_2_5.files(self.parts)
        _check_written(files)
        vae = {"vae." + k: v for k, v in files[tiny_2_5.FILES["video_vae"]][0].items()}
        kept = {k: v for k, v in vae.items() if not k.startswith("vae.decoder.")}
        self.encoder = lightricks.load("video_encoder", self.meta, kept)

    def transformer(self, distilled: float):
        return self.parts["transformer"]

    def contexts(self, request: dict) -> list[tuple[torch.Tensor, torch.Tensor]]:
        found = []
        for prompt in (request["prompt"], request.get("negative_prompt", "")):
            states, mask = tiny_2_5.encode(self.parts["text_encoder"], prompt)
            video, audio, _ = self.parts["connectors"](states, mask)
            found.append((video, audio))
        return found

    def upsampled(self, video: torch.Tensor, case: str) -> torch.Tensor:
        vae = self.parts["video_vae"]
        mean, std = (t.view(1, -1, 1, 1, 1) for t in (vae.latents_mean, vae.latents_std))
        return (self.parts["upsampler"](self.denormalised(video)) - mean) / std


def _check_written(files: dict) -> None:
    from safetensors import safe_open

    for name, (tensors, _) in files.items():
        with safe_open(tiny_2_5.FOLDER / name, "pt") as f:
            for key, tensor in tensors.items():
                if not torch.equal(f.get_tensor(key), tensor):
                    raise SystemExit(f"models/tiny-2.5 is not what make_tiny_model.py writes: {name}: {key}")


class _Run(Run):
    """The mistakes change its fields."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.euler_only, self.second_ancestral, self.seed_offset = False, False, 10000
        self.distilled = (1.0, 1.0)

    def sampler(self, stage: int) -> dict:
        from ltx_core.components.diffusion_steps import EulerAncestralDiffusionStep
        from ltx_pipelines.utils.samplers import euler_ancestral_denoising_loop

        distilled = self.request["recipe"].startswith("DISTILLED")
        if not distilled or self.euler_only or (stage == 2 and not self.second_ancestral):
            return {}
        options = {"model_dtype": torch.float32, "noise_seed": int(self.request["seed"]) + self.seed_offset}
        loop = functools.partial(euler_ancestral_denoising_loop, **options)
        return {"stepper": EulerAncestralDiffusionStep(), "loop": loop}


def _case(models: Models, name: str, request: dict, pictures: Tensors, shown: list[Shown]) -> Case:
    parameters = {
        "request": request | {"conditions": [s.as_json() for s in shown]},
        "model": "models/tiny-2.5",
        "kind": "distilled",
        "frame_stride": condition_cases.STRIDE,
    }
    run = lambda *_: _Run(models, request, pictures, shown)()  # noqa: E731
    case = Case(name, "", None, {}, {}, run, {}, parameters, lightricks=True)
    case.plain = {f"in.{k}": v for k, v in pictures.items()}

    def otherwise(change: Callable[[_Run], None]) -> Callable[[], Tensors]:
        def broken() -> Tensors:
            other = _Run(models, request, pictures, shown)
            change(other)
            return other()

        return broken

    def unmarked() -> Tensors:
        embedding = models.parts["transformer"].keyframes_abs_pos_embedding
        kept = embedding.clone()
        embedding.zero_()
        found = run()
        embedding.copy_(kept)
        return found

    case.mistakes["no keyframe marker"] = unmarked
    if request["recipe"].startswith("DISTILLED"):
        case.mistakes["plain Euler"] = otherwise(lambda r: setattr(r, "euler_only", True))
        case.mistakes["noise of the request's seed"] = otherwise(lambda r: setattr(r, "seed_offset", 0))
    if request["recipe"] == "DISTILLED_TWO_STAGE":
        case.mistakes["ancestral second stage"] = otherwise(lambda r: setattr(r, "second_ancestral", True))
    if shown:
        case.mistakes["nothing shown"] = otherwise(lambda r: r.shown.clear())
    return case


def cases() -> list[Case]:
    models = Models()
    dev = pipeline_cases.one_stage_request() | {"sigmas": [1.0, 0.85, 0.4, 0.0]}
    unguided = {k: v for k, v in dev.items() if k not in ("video_guidance", "audio_guidance", "negative_prompt")}
    distilled = unguided | {"recipe": "DISTILLED", "sigmas": [1.0, 0.975, 0.725, 0.421875, 0.0]}
    two = distilled | {"recipe": "DISTILLED_TWO_STAGE", "width": 128, "height": 64, "seed": "12"}
    wide, high = smooth(1, 1, 50, 90), smooth(2, 1, 140, 70)
    both = [Shown("wide", strength=0.9), Shown("high", frame=5, strength=0.75)]
    return [
        _case(models, "pipeline_2_5_one_stage", dev, {}, []),
        _case(models, "pipeline_2_5_distilled_two_stage", two, {}, []),
        _case(models, "pipeline_2_5_distilled_image", distilled, {"wide": wide, "high": high}, both),
    ]
