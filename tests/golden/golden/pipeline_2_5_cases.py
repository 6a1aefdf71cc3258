"""Renders of models/tiny-2.5 through Lightricks' stages, samplers, denoisers and conditions."""

import functools
from collections.abc import Callable

import torch

from golden import condition_cases, configs, diffusion_decoder_cases, lightricks, pipeline_cases, sound_cases, tiny_2_5
from golden.case import Case, Tensors
from golden.condition_cases import Run, Shown, smooth, tones


_DECODED = ("frames", "waveform")


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

        if self.hq:
            return super().sampler(stage)
        distilled = self.request["recipe"].startswith("DISTILLED") and not self.retake
        if not distilled or self.euler_only or (stage == 2 and not self.second_ancestral):
            return {}
        options = {"model_dtype": torch.float32, "noise_seed": int(self.request["seed"]) + self.seed_offset}
        loop = functools.partial(euler_ancestral_denoising_loop, **options)
        return {"stepper": EulerAncestralDiffusionStep(), "loop": loop}


class _Diffused(_Run):
    """A run with the diffusion decoder, in its combined form and without tiles. The mistakes change its fields."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.convolution, self.seeded_again = False, False

    def noiser(self, height: int, width: int):
        found = super().noiser(height, width)
        self.generator = found.generator  # the decoder draws its noise after all other draws
        return found

    def decode(self, video: torch.Tensor, audio: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        frames, waveform = super().decode(video, audio)
        if self.convolution:
            return frames, waveform
        if self.seeded_again:
            self.generator.manual_seed(int(self.request["seed"]))
        (chunk,) = self.models.parts["diffusion_decoder"].decode_video(video, generator=self.generator)
        return chunk, waveform


def _diffused(models: Models, name: str, request: dict) -> Case:
    case = _case(models, name, request, {}, [], ("waveform",))
    case.parameters["video_vae"] = f"models/tiny-2.5/{tiny_2_5.FILES['diffusion_vae']}"

    def run(**fields: bool) -> Tensors:
        made = _Diffused(models, request, {}, [])
        vars(made).update(fields)
        return {k: v for k, v in made().items() if k != "waveform"}

    case.run = lambda *_: run()
    ends = diffusion_decoder_cases.describe(case.parameters, diffusion_decoder_cases.draws_of(run)[-1:])
    case.plain = {f"in.{name}": values for name, values in ends.items()}
    case.mistakes = {
        "the convolution decoder": lambda: run(convolution=True),
        "the decoder's noise from the seed alone": lambda: run(seeded_again=True),
    }
    return case


def _case(
    models: Models, name: str, request: dict, pictures: Tensors, shown: list[Shown], left_out: tuple[str, ...] = ()
) -> Case:
    """left_out: outputs that are not written, to keep the file small."""
    parameters = {
        "request": request | {"conditions": [s.as_json() for s in shown]},
        "model": "models/tiny-2.5",
        "kind": "distilled",
        "frame_stride": condition_cases.STRIDE,
    }
    def run(*_) -> Tensors:
        return {k: v for k, v in _Run(models, request, pictures, shown)().items() if k not in left_out}

    case = Case(name, "", None, {}, {}, run, {}, parameters, lightricks=True)
    case.plain = {f"in.{k}": v for k, v in pictures.items()}

    def otherwise(change: Callable[[_Run], None]) -> Callable[[], Tensors]:
        def broken() -> Tensors:
            other = _Run(models, request, pictures, list(shown))
            change(other)
            return {k: v for k, v in other().items() if k not in left_out}

        return broken

    def unmarked() -> Tensors:
        embedding = models.parts["transformer"].keyframes_abs_pos_embedding
        kept = embedding.clone()
        embedding.zero_()
        found = run()
        embedding.copy_(kept)
        return found

    case.mistakes["no keyframe marker"] = unmarked
    if request["recipe"].startswith("DISTILLED") and "retake" not in request:
        case.mistakes["plain Euler"] = otherwise(lambda r: setattr(r, "euler_only", True))
        case.mistakes["noise of the request's seed"] = otherwise(lambda r: setattr(r, "seed_offset", 0))
    if request["recipe"] == "DISTILLED_TWO_STAGE":
        case.mistakes["ancestral second stage"] = otherwise(lambda r: setattr(r, "second_ancestral", True))
    if shown:
        case.mistakes["nothing shown"] = otherwise(lambda r: r.shown.clear())
    if request["recipe"] == "HQ":
        case.mistakes["steps of Euler"] = otherwise(lambda r: setattr(r, "hq", False))
    if "retake" in request:
        case.mistakes["its sound not heard"] = otherwise(lambda r: setattr(r, "deaf", True))
        case.mistakes["ancestral"] = otherwise(lambda r: setattr(r, "sampler", _Run(models, distilled_of(request), {}, []).sampler))
    return case


def distilled_of(request: dict) -> dict:
    return {k: v for k, v in request.items() if k != "retake"}


class _Heard(sound_cases._Run):
    """A run for a given sound, or of sound alone."""

    models: Models

    def __init__(self, request: dict) -> None:
        super().__init__(request)
        self.meta, self.parts = self.models.meta, self.models.parts

    def contexts(self) -> tuple[dict, dict]:
        return tuple({"video": video, "audio": audio} for video, audio in self.models.contexts(self.request))

    def transformer(self, distilled: float = 0.0):
        from ltx_core.model.transformer import X0Model

        return X0Model(self.models.transformer(distilled))

    def frames(self, latent: torch.Tensor, stride: int) -> torch.Tensor:
        return latent


def _of_sound(models: Models, name: str, request: dict, inputs: Tensors) -> Case:
    _Heard.models = models

    def whole(run: _Heard, data: Tensors) -> Tensors:
        made = sound_cases._for_sound(run, data["sound"], 1) if inputs else sound_cases._sound_alone(run)
        return {k: v for k, v in made.items() if k not in ("frames", "waveform")}

    case = Case(name, "", None, {}, inputs, lambda _, data: whole(_Heard(request), data), lightricks=True)
    case.parameters = {"request": request, "model": "models/tiny-2.5", "kind": "dev", "sound_rate": sound_cases.RATE}

    def otherwise(**terms: float) -> Callable[[], Tensors]:
        names = [k for k in ("video_guidance", "audio_guidance") if k in request]
        return lambda: whole(_Heard(request | {k: request[k] | terms for k in names}), inputs)

    case.mistakes = {"no classifier-free guidance": otherwise(cfg_scale=1.0), "no rescale": otherwise(rescale=0.0)}
    return case


def _length(models: Models, request: dict) -> Case:
    """The seconds that the duration head predicts for a prompt."""
    (video, audio), (negative_video, negative_audio) = models.contexts(request)
    head = models.parts["duration_head"]
    parameters = {"request": request, "model": "models/tiny-2.5", "kind": "dev"}
    run = lambda *_: {"seconds": head(video, audio)}  # noqa: E731
    case = Case("pipeline_2_5_length", "", None, {}, {}, run, {}, parameters, lightricks=True)
    case.mistakes["the negative prompt"] = lambda: {"seconds": head(negative_video, negative_audio)}
    case.mistakes["sound alone"] = lambda: {"seconds": head(None, audio)}
    case.mistakes["half of the rows"] = lambda: {"seconds": head(video[:, :512], audio[:, :512])}
    return case


def _recipes(models: Models, dev: dict, unguided: dict) -> list[Case]:
    """The other recipes: small inputs, and latents alone."""
    low, high = smooth(1, 1, 20, 30), smooth(2, 1, 30, 16)
    two = dev | {"recipe": "TWO_STAGE", "width": 128, "height": 64}
    hq = two | {"recipe": "HQ"}
    for name, terms in (("video_guidance", {"rescale": 0.45}), ("audio_guidance", {"rescale": 1.0})):
        hq[name] = dev[name] | {"stg_scale": 0.0} | terms
    retake = {"picture": "clip", "start_seconds": 0.1, "end_seconds": 0.3, "sound_rate": 16000}
    retaken = unguided | {"recipe": "DISTILLED", "sigmas": [1.0, 0.975, 0.725, 0.421875, 0.0], "retake": retake}
    keys = [Shown("low", append=True), Shown("high", frame=8, strength=0.8)]
    heard = {k: v for k, v in dev.items() if k != "audio_guidance"} | {"audio": {"start_seconds": 0.1}, "seed": "21"}
    alone = {k: v for k, v in dev.items() if k not in ("video_guidance", "width", "height")}
    alone |= {"audio_only": True, "seed": "23", "audio_guidance": dev["audio_guidance"] | {"modality_scale": 1.0}}
    sound = {"sound": sound_cases._sound(sound_cases.RATE // 2)}
    clip = {"clip": smooth(7, 9, 20, 30), "sound": tones(6000)}
    return [
        _case(models, "pipeline_2_5_hq_image", hq, {"low": low}, [Shown("low", strength=0.9)], _DECODED),
        _case(models, "pipeline_2_5_keyframes", two, {"low": low, "high": high}, keys, _DECODED),
        _case(models, "pipeline_2_5_retake", retaken, clip, [], _DECODED),
        _of_sound(models, "pipeline_2_5_sound", heard, sound),
        _of_sound(models, "pipeline_2_5_sound_alone", alone, {}),
    ]


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
        _case(models, "pipeline_2_5_distilled_image", distilled, {"wide": wide, "high": high}, both, ("waveform",)),
        _diffused(models, "pipeline_2_5_diffusion_decoder", distilled | {"width": 64, "height": 32, "seed": "13"}),
        _length(models, dev),
        *_recipes(models, dev, unguided),
    ]
