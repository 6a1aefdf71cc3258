"""Renders of models/tiny in two stages: noise at half size, an upsampler, and the last noise levels at full size."""

import json
from collections.abc import Callable

import torch
from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel

from golden import configs, layouts, lora_cases, pipeline_cases, redraw, tiny
from golden.case import Case, Tensors

SECOND = [0.909375, 0.725, 0.421875, 0.0]
_UPSAMPLER = "upsampler-tiny-x2.safetensors"
_CONFIG = {
    "_class_name": "LatentUpsampler",
    "in_channels": 16,
    "mid_channels": 32,
    "num_blocks_per_stage": 1,
    "dims": 3,
    "spatial_upsample": True,
    "temporal_upsample": False,
    "spatial_scale": 2.0,
    "rational_resampler": True,
}


def upsampler() -> LTX2LatentUpsamplerModel:
    model = LTX2LatentUpsamplerModel(
        in_channels=_CONFIG["in_channels"],
        mid_channels=_CONFIG["mid_channels"],
        num_blocks_per_stage=_CONFIG["num_blocks_per_stage"],
        use_rational_resampler=_CONFIG["rational_resampler"],
    ).eval()
    return redraw.redraw(model, lora_cases.SEED + 10, gain=1.3)


class _Stages:
    """Both transformers, and settings that the mistakes change."""

    def __init__(self, request: dict, distilled: tuple[float, float]) -> None:
        self.request, self.distilled = request, distilled
        self.upsampler, self.parts = upsampler(), tiny.modules(configs.ltx_2_3()["config"])
        self.second, self.noise_scale, self.new_noise = SECOND, SECOND[0], False

    def _pipe(self, strength: float):
        transformer = tiny.modules(configs.ltx_2_3()["config"])["transformer"]
        layers = lora_cases.linears(transformer)
        if strength:
            lora_cases.fuse(layers, lora_cases.style(layers), strength)
        return pipeline_cases.pipeline(self.parts | {"transformer": transformer})

    def _run(self, strength: float, generator: torch.Generator, seen: Tensors, **options):
        """Runs a stage of the pipeline and returns its result. Stores its normalised latents in `seen`."""
        pipe = self._pipe(strength)
        denormalise_video, denormalise_audio = pipe._denormalize_latents, pipe._denormalize_audio_latents

        def video_latent(latents, *args):
            seen["video_latent"] = latents.clone()
            return denormalise_video(latents, *args)

        def audio_latent(latents, *args):
            seen["audio_latent"] = latents.unflatten(2, (8, 16)).transpose(1, 2).contiguous()
            return denormalise_audio(latents, *args)

        pipe._denormalize_latents, pipe._denormalize_audio_latents = video_latent, audio_latent
        request = self.request
        return pipe(
            prompt=request["prompt"],
            negative_prompt=request.get("negative_prompt"),
            num_frames=request["num_frames"],
            frame_rate=request["frame_rate"],
            max_sequence_length=1024,
            generator=generator,
            return_dict=False,
            **options,
        )

    def __call__(self, sound_of: int, stride: int) -> Tensors:
        request, generator = self.request, torch.Generator().manual_seed(int(self.request["seed"]))
        first, second = {}, {}
        video, audio = self._run(
            self.distilled[0],
            generator,
            first,
            width=request["width"] // 2,
            height=request["height"] // 2,
            sigmas=request["sigmas"][:-1],
            num_inference_steps=len(request["sigmas"]) - 1,
            output_type="latent",
            **pipeline_cases.guidance(request),
        )
        with torch.no_grad():
            upsampled = self.upsampler(video)
        if self.new_noise:
            generator.manual_seed(int(request["seed"]))
        frames, waveform = self._run(
            self.distilled[1],
            generator,
            second,
            width=request["width"],
            height=request["height"],
            latents=upsampled,
            audio_latents=audio,
            noise_scale=self.noise_scale,
            sigmas=self.second[:-1],
            num_inference_steps=len(self.second) - 1,
            output_type="np",
            **pipeline_cases.guidance({}),
        )
        if sound_of == 1:
            waveform = self.parts["vocoder"](self.parts["audio_vae"].decode(audio, return_dict=False)[0])
        return {
            "video_latent": second["video_latent"],
            "audio_latent": (first if sound_of == 1 else second)["audio_latent"],
            "frames": torch.from_numpy(frames[0])[:, ::stride, ::stride].contiguous(),
            "waveform": waveform[0],
            "sigmas": torch.tensor(request["sigmas"]),
            "sigmas_stage2": torch.tensor(self.second),
        }


def _case(name: str, request: dict, distilled: tuple[float, float], sound_of: int) -> Case:
    stages, stride = _Stages(request, distilled), 6
    parameters = {
        "request": request,
        "model": f"models/tiny/{tiny.FILE}",
        "text_encoder": "models/tiny/gemma",
        "frame_stride": stride,
        "spatial_upsampler": f"tests/golden/data/{_UPSAMPLER}",
        "distilled_lora": "tests/golden/data/lora-tiny-style.safetensors",
    }
    case = Case(name, "", None, {}, {}, lambda *_: stages(sound_of, stride), {}, parameters)
    state = {k: v.bfloat16() for k, v in layouts.single_file_names("latent_upsampler", stages.upsampler.state_dict()).items()}
    case.files = {_UPSAMPLER: (state, {"config": json.dumps(_CONFIG)})}

    def otherwise(change: Callable[[_Stages], None]) -> Callable[[], Tensors]:
        def run() -> Tensors:
            other = _Stages(request, distilled)
            change(other)
            return other(sound_of, stride)

        return run

    def distilled_as(*strengths: float) -> Callable[[], Tensors]:
        return lambda: _Stages(request, strengths)(sound_of, stride)

    case.mistakes = {
        "the second stage's noise drawn from the beginning": otherwise(lambda s: setattr(s, "new_noise", True)),
        "noise of another scale": otherwise(lambda s: setattr(s, "noise_scale", 0.9)),
        "no LoRA in the second stage": distilled_as(distilled[0], 0.0),
        "another LoRA in the first stage": distilled_as(distilled[0] - 0.5, distilled[1]),
    }
    return case


def cases() -> list[Case]:
    request = pipeline_cases.one_stage_request() | {"width": 128, "height": 64, "recipe": "TWO_STAGE"}
    request["sigmas"] = [1.0, 0.85, 0.4, 0.0]
    unguided = {k: v for k, v in request.items() if k not in ("video_guidance", "audio_guidance", "negative_prompt")}
    distilled = unguided | {"recipe": "DISTILLED_TWO_STAGE", "seed": "11"}
    return [
        _case("pipeline_two_stage", request, (0.0, 1.0), sound_of=1),
        _case("pipeline_distilled_two_stage", distilled, (1.0, 1.0), sound_of=2),
    ]
