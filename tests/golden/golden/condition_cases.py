"""Renders of models/tiny through Lightricks' stages, samplers, denoisers and conditions.

They cover image and clip conditions, HQ, and two stages with the other upsamplers.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from unittest import mock

import torch

from golden import configs, layouts, lightricks, lora_cases, pipeline_cases, tiny, two_stage_cases, upsampler_cases
from golden.case import Case, Tensors

STRIDE = 6
_DATA = "tests/golden/data/"


@dataclasses.dataclass
class _Upscaling:
    """The upsampling between two stages."""

    up: int = 2  # sides are multiplied by up / down
    down: int = 1
    time: int = 1  # F frames become time * F - (time - 1)
    case: str = ""  # case that holds the weights, if not one of the two_stage cases


_UPSCALINGS = {
    "x2": _Upscaling(),
    "x1.5": _Upscaling(3, 2, case="upsampler_x1_5"),
    "temporal_x2": _Upscaling(1, 1, 2, case="upsampler_temporal_x2"),
}


def smooth(seed: int, frames: int, height: int, width: int) -> torch.Tensor:
    """Returns [frames, height, width, 3] uint8: moving waves with some grain."""
    gen = torch.Generator().manual_seed(seed)
    x, y, t = (torch.arange(n).float() for n in (width, height, frames))
    channels = []
    for _ in range(3):
        a, b, c, d = (torch.rand(4, generator=gen) - 0.5).tolist()
        wave = torch.sin(a * x + 0.3 * c * t[:, None, None] + 6 * d) * torch.cos(b * y[:, None])
        channels.append(wave)
    waves = torch.stack(channels, -1) * 110 + 127 + 8 * torch.randn(frames, height, width, 3, generator=gen)
    return waves.round().clamp(0, 255).to(torch.uint8)


def tones(samples: int) -> torch.Tensor:
    """Returns [1, samples] at 16 kHz."""
    t = torch.arange(samples, dtype=torch.float64)[None] / 16000
    return (0.4 * torch.sin(2 * torch.pi * (300 + 900 * t) * t)).bfloat16().float()


class Models:
    """Shared by all runs: the tiny model in Lightricks' modules, and diffusers' encoders and decoders."""

    def __init__(self) -> None:
        self.meta = configs.ltx_2_3()
        self.parts = tiny.modules(self.meta["config"])
        self.pipe = pipeline_cases.pipeline(self.parts)
        self.encoder = lightricks.load("video_encoder", self.meta, self._encoder_file())
        self.transformers = {}

    def _encoder_file(self) -> Tensors:
        kept = ("vae.encoder.", "vae.per_channel_statistics.")
        return {k: v for k, v in tiny.single_file(self.parts).items() if k.startswith(kept)}

    def transformer(self, distilled: float):
        """Returns the transformer with lora-tiny-style fused in at this strength."""
        if distilled not in self.transformers:
            module = tiny.modules(self.meta["config"])["transformer"]
            layers = lora_cases.linears(module)
            if distilled:
                lora_cases.fuse(layers, lora_cases.style(layers), distilled)
            state = layouts.single_file_names("transformer", module.state_dict())
            whole = {layouts.PREFIX["transformer"] + k: v for k, v in state.items()}
            self.transformers[distilled] = lightricks.load("transformer", self.meta, whole)
        return self.transformers[distilled]

    def contexts(self, request: dict) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Returns (video, audio) contexts of the prompt and of the negative prompt."""
        found = []
        for prompt in (request["prompt"], request.get("negative_prompt", "")):
            embeds, mask, _, _ = self.pipe.encode_prompt(
                prompt, do_classifier_free_guidance=False, max_sequence_length=1024
            )
            video, audio, _ = self.pipe.connectors(embeds, mask)
            found.append((video, audio))
        return found

    def decode(self, video: torch.Tensor, audio: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        vae, audio_vae = self.parts["video_vae"], self.parts["audio_vae"]
        frames = vae.decode(self.denormalised(video), None, return_dict=False)[0]
        packed = audio.transpose(1, 2).flatten(2) * audio_vae.latents_std + audio_vae.latents_mean
        mel = audio_vae.decode(packed.unflatten(2, (8, 16)).transpose(1, 2), return_dict=False)[0]
        return (frames[0] / 2 + 0.5).clamp(0, 1).permute(1, 2, 3, 0), self.parts["vocoder"](mel)[0]

    def denormalised(self, video: torch.Tensor) -> torch.Tensor:
        mean, std = (t.view(1, -1, 1, 1, 1) for t in (self.parts["video_vae"].latents_mean, self.parts["video_vae"].latents_std))
        return video * std + mean

    def upsampled(self, video: torch.Tensor, case: str) -> torch.Tensor:
        mean, std = (t.view(1, -1, 1, 1, 1) for t in (self.parts["video_vae"].latents_mean, self.parts["video_vae"].latents_std))
        upsampler = upsampler_cases.tiny(case) if case else two_stage_cases.upsampler()
        return (upsampler(self.denormalised(video)) - mean) / std


@dataclasses.dataclass
class Shown:
    """A condition of a request. `picture` names its pixels, [frames, height, width, 3] uint8."""

    picture: str
    frame: int = 0
    strength: float = 1.0
    append: bool = False

    def as_json(self) -> dict:
        return dataclasses.asdict(self)


class Run:
    """One render. The mistakes change its fields."""

    def __init__(self, models: Models, request: dict, pictures: Tensors, shown: list[Shown]) -> None:
        self.models, self.request, self.pictures, self.shown = models, request, pictures, shown
        self.single_frame, self.squashed, self.second_sound, self.deaf = 1, False, False, False
        self.hq, self.upscaling = request["recipe"] == "HQ", _UPSCALINGS[request.get("upsampler", "x2")]
        self.distilled, self.euler, self.seeds = (0.25, 0.5) if self.hq else (0.0, 1.0), not self.hq, (-1, -1)
        self.time = self.upscaling.time  # frames of the clip per frame of the first stage
        self.retake = request.get("retake")
        self.window = (self.retake["start_seconds"], self.retake["end_seconds"]) if self.retake else None

    def pixels(self, name: str, height: int, width: int) -> torch.Tensor:
        from ltx_pipelines.utils.media_io.resize import resize_and_center_crop

        picture = self.pictures[name].float()
        if self.squashed:
            fitted = torch.nn.functional.interpolate(picture.permute(0, 3, 1, 2), (height, width), mode="bilinear")
            fitted = fitted.permute(1, 0, 2, 3)[None]
        else:
            fitted = resize_and_center_crop(picture, height, width)
        return fitted / 127.5 - 1.0

    def conditions(self, height: int, width: int, time: int) -> list:
        from ltx_core.conditioning.types.keyframe_cond import VideoConditionByKeyframeIndex
        from ltx_core.conditioning.types.latent_cond import VideoConditionByLatentIndex

        found = []
        for shown in self.shown:
            latent = self.models.encoder(self.pixels(shown.picture, height, width))
            if shown.frame == 0 and not shown.append:
                found.append(VideoConditionByLatentIndex(latent=latent, strength=shown.strength, latent_idx=0))
                continue
            frames = self.pictures[shown.picture].shape[0]
            found.append(
                VideoConditionByKeyframeIndex(
                    keyframes=latent,
                    frame_idx=shown.frame // time,
                    strength=shown.strength,
                    num_pixel_frames=self.single_frame if frames == 1 else frames,
                )
            )
        return found

    def sound(self) -> torch.Tensor:
        """Returns the latent of the retake's mono sound, used for both channels; zeros after the sound's end."""
        from ltx_core.model.audio_vae.ops import AudioProcessor
        from ltx_core.types import Audio

        processor = AudioProcessor(target_sample_rate=16000, mel_bins=64, mel_hop_length=160, n_fft=1024)
        both = self.pictures["sound"].expand(2, -1)[None]
        mel = processor.waveform_to_mel(Audio(waveform=both, sampling_rate=self.retake["sound_rate"]))
        vae = self.models.parts["audio_vae"]
        packed = vae.encode(mel).latent_dist.mode().transpose(1, 2).flatten(2)
        latent = ((packed - vae.latents_mean) / vae.latents_std).unflatten(2, (8, 16)).transpose(1, 2)
        latents = round(self.request["num_frames"] / self.request["frame_rate"] * 25)
        return torch.nn.functional.pad(latent, (0, 0, 0, max(0, latents - latent.shape[2])))[:, :, :latents]

    def heard(self, context):
        from ltx_core.conditioning.types.noise_mask_cond import TemporalRegionMask
        from ltx_pipelines.utils.types import ModalitySpec

        if "sound" not in self.pictures or self.deaf:
            return ModalitySpec(context=context)
        window = TemporalRegionMask(*self.window, fps=self.request["frame_rate"])
        return ModalitySpec(context=context, conditionings=[window], initial_latent=self.sound())

    def spec(self, context, width: int, height: int, latent=None, noise_scale: float = 1.0, time: int = 1):
        from ltx_core.conditioning.types.noise_mask_cond import TemporalRegionMask
        from ltx_pipelines.utils.types import ModalitySpec

        conditions = self.conditions(height, width, time)
        if self.retake:
            latent = self.models.encoder(self.pixels(self.retake["picture"], height, width))
            conditions.append(TemporalRegionMask(*self.window, fps=self.request["frame_rate"]))
        return ModalitySpec(context=context, conditionings=conditions, initial_latent=latent, noise_scale=noise_scale)

    def sampler(self, stage: int) -> dict:
        from ltx_core.components.diffusion_steps import Res2sDiffusionStep
        from ltx_pipelines.utils.samplers import res2s_audio_video_denoising_loop

        if self.euler:
            return {}
        options = {"model_dtype": torch.float32, "noise_seed": self.seeds[stage - 1]}
        return {
            "stepper": Res2sDiffusionStep(),
            "loop": functools.partial(res2s_audio_video_denoising_loop, **options),
        }

    def noiser(self, height: int, width: int):
        """Returns the noiser for both stages; the first stage has this size."""
        return _noiser(self.request, height, width, self.upscaling.time)

    def stage(self, stage: int, denoiser, sigmas: list[float], noiser, height: int, width: int, video, audio):
        from ltx_core.model.transformer.model import X0Model
        from ltx_pipelines.utils.blocks import DiffusionStage

        class Stage(DiffusionStage):
            supports_generated_keyframes = False

            def _transformer_ctx(self, **_):
                return contextlib.nullcontext(X0Model(model))

        class Builder:
            checkpoint = "models/tiny"

        model = self.models.transformer(self.distilled[stage - 1])
        time = self.upscaling.time if stage == 1 else 1
        with _latents_of(self.models.meta["config"]["transformer"]["in_channels"]):
            return Stage(Builder(), torch.float32, torch.device("cpu"))(
                denoiser,
                torch.tensor(sigmas),
                noiser,
                width,
                height,
                (self.request["num_frames"] - 1) // time + 1,
                self.request["frame_rate"] / time,
                video,
                audio,
                max_batch_size=4,
                **self.sampler(stage),
            )

    def first_denoiser(self, contexts):
        from ltx_core.components.guiders import MultiModalGuider, MultiModalGuiderParams
        from ltx_pipelines.utils.denoisers import GuidedDenoiser, SimpleDenoiser

        (video, audio), negative = contexts
        if "video_guidance" not in self.request:
            return SimpleDenoiser(video, audio)
        guiders = []
        for terms, context in zip((self.request["video_guidance"], self.request["audio_guidance"]), negative, strict=True):
            params = MultiModalGuiderParams(
                cfg_scale=terms["cfg_scale"],
                stg_scale=terms["stg_scale"],
                stg_blocks=terms["stg_blocks"],
                rescale_scale=terms["rescale"],
                modality_scale=terms["modality_scale"],
            )
            guiders.append(MultiModalGuider(params=params, negative_context=context))
        return GuidedDenoiser(video, audio, *guiders)

    def decode(self, video: torch.Tensor, audio: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.models.decode(video, audio)

    def __call__(self) -> Tensors:
        from ltx_pipelines.utils.denoisers import SimpleDenoiser
        from ltx_pipelines.utils.types import ModalitySpec

        request, two, up = self.request, _in_two_stages(self.request), self.upscaling
        height, width = (request[k] * up.down // up.up if two else request[k] for k in ("height", "width"))
        contexts = self.models.contexts(request)
        video_context, audio_context = contexts[0]
        noiser = self.noiser(height, width)
        video, audio = self.stage(
            1,
            self.first_denoiser(contexts),
            request["sigmas"],
            noiser,
            height,
            width,
            self.spec(video_context, width, height, time=self.time),
            self.heard(audio_context),
        )
        sound, second = audio, {}
        if two:
            height, width, scale = request["height"], request["width"], two_stage_cases.SECOND[0]
            upsampled = self.models.upsampled(video.latent, up.case)
            video, audio = self.stage(
                2,
                SimpleDenoiser(video_context, audio_context),
                two_stage_cases.SECOND,
                noiser,
                height,
                width,
                self.spec(video_context, width, height, upsampled, scale),
                ModalitySpec(context=audio_context, initial_latent=audio.latent, noise_scale=scale),
            )
            second = {"sigmas_stage2": torch.tensor(two_stage_cases.SECOND)}
            of_second = request["recipe"] == "DISTILLED_TWO_STAGE" or any(shown.append for shown in self.shown)
            sound = audio if of_second != self.second_sound else sound
        frames, waveform = self.decode(video.latent, sound.latent)
        large = len(frames) > 9 or self.hq or up.case
        return (second if large else second | {"waveform": waveform}) | {
            "video_latent": video.latent,
            "audio_latent": sound.latent,
            "frames": frames[:, ::STRIDE, ::STRIDE].contiguous(),
            "sigmas": torch.tensor(request["sigmas"]),
        }


def _latents_of(channels: int):
    """Stages assume that latents have the released models' 128 channels; this changes it."""
    from ltx_core.types import VideoLatentShape

    released = VideoLatentShape.from_pixel_shape
    return mock.patch.object(
        VideoLatentShape, "from_pixel_shape", staticmethod(functools.partial(released, latent_channels=channels))
    )


def _in_two_stages(request: dict) -> bool:
    return request["recipe"].endswith("TWO_STAGE") or request["recipe"] == "HQ"


def _noiser(request: dict, height: int, width: int, time: int):
    """Uses one generator. The first draws of video and audio are unpacked, as in diffusers; appended tokens are drawn
    after those of the video's grid."""
    from ltx_core.components.noisers import GaussianNoiser

    class Noiser(GaussianNoiser):
        draws = 0

        def _sample_noise(self, state):
            self.draws += 1
            if self.draws > 2:
                return super()._sample_noise(state)
            _, tokens, channels = state.latent.shape
            if self.draws == 2:
                audio = torch.randn(1, 8, tokens, 16, generator=self.generator)
                return audio.transpose(1, 2).flatten(2)
            grid = ((request["num_frames"] - 1) // time // 8 + 1, height // 32, width // 32)
            video = torch.randn(1, channels, *grid, generator=self.generator).flatten(2).transpose(1, 2)
            rest = tokens - video.shape[1]
            return torch.cat([video, torch.randn(1, rest, channels, generator=self.generator)], 1) if rest else video

    return Noiser(torch.Generator().manual_seed(int(request["seed"])))


def case_of(models: Models, name: str, request: dict, pictures: Tensors, shown: list[Shown]) -> Case:
    whole = request | {"conditions": [s.as_json() for s in shown]}
    parameters = {
        "request": whole,
        "model": f"models/tiny/{tiny.FILE}",
        "text_encoder": "models/tiny/gemma",
        "frame_stride": STRIDE,
    }
    if _in_two_stages(request):
        upscaling = _UPSCALINGS[request.get("upsampler", "x2")]
        if upscaling.case:
            parameters["upsampler_case"] = upscaling.case
        else:
            parameters["spatial_upsampler"] = f"{_DATA}upsampler-tiny-x2.safetensors"
        parameters["distilled_lora"] = f"{_DATA}lora-tiny-style.safetensors"
    run = lambda *_: Run(models, request, pictures, shown)()  # noqa: E731
    case = Case(name, "", None, {}, {}, run, {}, parameters, lightricks=True)
    case.plain = {f"in.{k}": v for k, v in pictures.items()}

    def otherwise(change: Callable[[Run], None]) -> Callable[[], Tensors]:
        def broken() -> Tensors:
            other = Run(models, request, pictures, [dataclasses.replace(s) for s in shown])
            change(other)
            return other()

        return broken

    def each(change: Callable[[Shown], None]) -> Callable[[], Tensors]:
        return otherwise(lambda run: [change(s) for s in run.shown])

    if shown:
        case.mistakes["nothing shown"] = otherwise(lambda run: run.shown.clear())
        case.mistakes["squashed"] = otherwise(lambda run: setattr(run, "squashed", True))
        case.mistakes["other strength"] = each(lambda s: setattr(s, "strength", 0.5 * s.strength))
    if any(s.frame for s in shown):
        case.mistakes["a frame earlier"] = each(lambda s: setattr(s, "frame", max(0, s.frame - 1)))
    if any(s.frame and len(pictures[s.picture]) == 1 for s in shown):
        case.mistakes["pictures of eight frames"] = otherwise(lambda run: setattr(run, "single_frame", 8))
    if any(s.append for s in shown):
        case.mistakes["not appended"] = each(lambda s: setattr(s, "append", False))
    if request["recipe"] == "HQ":
        case.mistakes["steps of Euler"] = otherwise(lambda run: setattr(run, "euler", True))
        case.mistakes["noise that goes on in the second stage"] = otherwise(lambda run: setattr(run, "seeds", (-1, 7)))
        case.mistakes["a whole LoRA in the second stage"] = otherwise(lambda run: setattr(run, "distilled", (0.25, 1.0)))
        case.mistakes["no LoRA in the first stage"] = otherwise(lambda run: setattr(run, "distilled", (0.0, 0.5)))
    if request.get("upsampler") == "temporal_x2" and any(s.frame for s in shown):
        case.mistakes["the clip's frames in the first stage"] = otherwise(lambda run: setattr(run, "time", 1))
    if _in_two_stages(request):
        case.mistakes["the other stage's sound"] = otherwise(lambda run: setattr(run, "second_sound", True))
    if "retake" in request:
        case.mistakes["its sound not heard"] = otherwise(lambda run: setattr(run, "deaf", True))
        case.mistakes["another window"] = otherwise(lambda run: setattr(run, "window", (0.1, 0.4)))
    return case


def cases() -> list[Case]:
    models = Models()
    dev = pipeline_cases.one_stage_request() | {"sigmas": [1.0, 0.85, 0.4, 0.0]}
    unguided = {k: v for k, v in dev.items() if k not in ("video_guidance", "audio_guidance", "negative_prompt")}
    short = unguided | {"recipe": "DISTILLED", "num_frames": 17}
    two = dev | {"recipe": "TWO_STAGE", "width": 128, "height": 64}
    hq = two | {"recipe": "HQ"}
    for name, terms in (("video_guidance", {"rescale": 0.45}), ("audio_guidance", {"rescale": 1.0})):
        hq[name] = dev[name] | {"stg_scale": 0.0} | terms
    wider = two | {"width": 192, "height": 96, "upsampler": "x1.5"}
    # 9 frames at 24 fps have as many audio latents as 17 at 48.
    slower = two | {"width": 96, "num_frames": 17, "frame_rate": 48.0, "upsampler": "temporal_x2"}
    wide, high = smooth(1, 1, 50, 90), smooth(2, 1, 140, 70)
    both = [Shown("wide", strength=0.9), Shown("high", frame=5, strength=0.75)]
    return [
        case_of(models, "pipeline_hq", hq, {}, []),
        case_of(models, "pipeline_hq_image", hq, {"wide": wide, "high": high}, both),
        case_of(models, "pipeline_x1_5", wider, {}, []),
        case_of(models, "pipeline_x1_5_image", wider, {"wide": wide}, both[:1]),
        case_of(models, "pipeline_temporal_x2", slower, {}, []),
        case_of(
            models,
            "pipeline_temporal_x2_image",
            slower,
            {"wide": wide, "high": high},
            [both[0], Shown("high", frame=11, strength=0.75)],
        ),
        case_of(
            models,
            "pipeline_image",
            dev,
            {"wide": wide, "high": high},
            [Shown("wide"), Shown("high", frame=5, strength=0.75)],
        ),
        case_of(
            models,
            "pipeline_clip",
            short,
            {"start": smooth(4, 9, 40, 48), "later": smooth(5, 9, 32, 60)},
            [Shown("start", strength=0.8), Shown("later", frame=8)],
        ),
        case_of(models, "pipeline_two_stage_image", two, {"wide": wide}, [Shown("wide", strength=0.9)]),
        case_of(
            models,
            "pipeline_keyframes",
            two,
            {"wide": wide, "high": high},
            [Shown("wide", append=True), Shown("high", frame=8, strength=0.8)],
        ),
        case_of(
            models,
            "pipeline_retake",
            short | {"retake": {"picture": "clip", "start_seconds": 0.1, "end_seconds": 0.3, "sound_rate": 16000}},
            {"clip": smooth(6, 17, 32, 48), "sound": tones(9600)},
            [],
        ),
    ]
