"""Renders of models/tiny for a given sound, and of sound without video, through Lightricks' denoising loop and
denoisers.

Follows ltx_pipelines/a2vid_two_stage.py and t2a_one_stage.py in float32, with the noise of diffusers' pipelines: the
first stage's is drawn in the latent's own layout, the second's packed, and none for a given modality.
"""

from collections.abc import Callable

import torch

from golden import configs, layouts, lightricks, lora_cases, pipeline_cases, tiny, two_stage_cases
from golden.case import Case, Tensors

RATE = 11025
_UPSAMPLER, _LORA = "upsampler-tiny-x2.safetensors", "lora-tiny-style.safetensors"


def _sound(samples: int) -> torch.Tensor:
    """Returns [2, samples]: a rising tone in one channel, two steady ones in the other."""
    t = torch.arange(samples, dtype=torch.float64) / RATE
    left = torch.sin(2 * torch.pi * (200 + 1500 * t) * t)
    right = 0.6 * torch.sin(2 * torch.pi * 330 * t) + 0.4 * torch.sin(2 * torch.pi * 2750 * t)
    return (0.5 * torch.stack([left, right])).bfloat16().float()


class _Run:
    """One run. The mistakes change its fields and methods."""

    def __init__(self, request: dict) -> None:
        self.request, self.meta = request, configs.ltx_2_3()
        self.parts = tiny.modules(self.meta["config"])
        self.pipe = pipeline_cases.pipeline(self.parts)
        self.generator = torch.Generator().manual_seed(int(request["seed"]))
        self.frozen, self.negative_sound, self.sound_shift, self.second_audio = True, False, 0, True
        self.latents = round(request["num_frames"] / request["frame_rate"] * 25)

    def contexts(self) -> tuple[dict, dict]:
        """Returns {"video", "audio"} for the prompt and for the negative prompt."""
        prompts = [self.request["prompt"], self.request.get("negative_prompt", "")]
        embeds, mask, _, _ = self.pipe.encode_prompt(prompts, do_classifier_free_guidance=False, max_sequence_length=1024)
        video, audio, _ = self.pipe.connectors(embeds, mask, padding_side="left")
        return tuple({"video": video[i : i + 1], "audio": audio[i : i + 1]} for i in (0, 1))

    def transformer(self, distilled: float = 0.0):
        from ltx_core.model.transformer import X0Model

        model = tiny.modules(self.meta["config"])["transformer"]
        if distilled:
            layers = lora_cases.linears(model)
            lora_cases.fuse(layers, lora_cases.style(layers), distilled)
        names = layouts.single_file_names("transformer", model.state_dict())
        tensors = {layouts.PREFIX["transformer"] + name: value for name, value in names.items()}
        return X0Model(lightricks.load("transformer", self.meta, tensors))

    def heard(self, sound: torch.Tensor) -> torch.Tensor:
        """Returns the samples for the clip, cut as by decode_audio_from_file."""
        begin = round(self.request["audio"]["start_seconds"] * RATE) + self.sound_shift
        return sound[:, begin : begin + round(self.request["num_frames"] / self.request["frame_rate"] * RATE)]

    def encoded(self, heard: torch.Tensor) -> torch.Tensor:
        """Returns [1, 8, latents, 16], normalised."""
        from ltx_core.model.audio_vae.ops import AudioProcessor
        from ltx_core.types import Audio

        processor = AudioProcessor(target_sample_rate=16000, mel_bins=64, mel_hop_length=160, n_fft=1024)
        mel = processor.waveform_to_mel(Audio(waveform=heard[None], sampling_rate=RATE))
        vae = self.parts["audio_vae"]
        packed = vae.encode(mel).latent_dist.mode().transpose(1, 2).flatten(2)
        packed = (packed - vae.latents_mean) / vae.latents_std
        return packed.unflatten(2, (8, 16)).transpose(1, 2)[:, :, : self.latents].contiguous()

    def stage(self, transformer, denoiser, sigmas, size, video=None, audio=None):
        """Runs one DiffusionStage from its initial video [1, C, F, H, W] and audio [1, 8, T, 16]; None: absent."""
        from ltx_core.components.diffusion_steps import EulerDiffusionStep
        from ltx_core.components.patchifiers import AudioPatchifier, VideoLatentPatchifier
        from ltx_core.tools import AudioLatentTools, VideoLatentTools
        from ltx_core.types import AudioLatentShape, VideoLatentShape, VideoPixelShape
        from ltx_pipelines.utils.samplers import euler_denoising_loop

        request, states, tools = self.request, {}, {}
        shape = VideoPixelShape(1, request["num_frames"], size[0], size[1], request["frame_rate"])
        if video is not None:
            latent = VideoLatentShape.from_pixel_shape(shape)._replace(channels=video.shape[1])
            tools["video"] = VideoLatentTools(VideoLatentPatchifier(patch_size=1), latent, request["frame_rate"])
            states["video"] = tools["video"].create_initial_state("cpu", torch.float32, video)
        if audio is not None:
            latent = AudioLatentShape.from_video_pixel_shape(shape)
            tools["audio"] = AudioLatentTools(AudioPatchifier(patch_size=1), latent)
            state = tools["audio"].create_initial_state("cpu", torch.float32, audio)
            if "audio" in request:
                state.denoise_mask.zero_()
                state = type(state)(**(vars(state) | {"frozen": self.frozen}))
            states["audio"] = state
        found = euler_denoising_loop(
            torch.tensor(sigmas), states.get("video"), states.get("audio"), EulerDiffusionStep(), transformer, denoiser
        )
        return [tools[k].unpatchify(s).latent if s is not None else None for k, s in zip(("video", "audio"), found)]

    def guided(self, positive: dict, negative: dict):
        from ltx_core.components.guiders import MultiModalGuider, MultiModalGuiderParams
        from ltx_pipelines.utils.denoisers import GuidedDenoiser

        def guider(name: str, context: torch.Tensor | None):
            terms = self.request.get(f"{name}_guidance")
            if terms is None:
                return MultiModalGuider(params=MultiModalGuiderParams(), negative_context=context)
            params = {k: terms[k] for k in ("cfg_scale", "stg_scale", "stg_blocks", "modality_scale")}
            params = MultiModalGuiderParams(**params, rescale_scale=terms["rescale"])
            return MultiModalGuider(params=params, negative_context=context)

        given = "audio" in self.request and not self.negative_sound
        return GuidedDenoiser(
            positive["video"],
            positive["audio"],
            guider("video", negative["video"]),
            guider("audio", None if given else negative["audio"]),
        )

    def noise(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator)

    def frames(self, latent: torch.Tensor, stride: int) -> torch.Tensor:
        vae = self.parts["video_vae"]
        latent = self.pipe._denormalize_latents(latent, vae.latents_mean, vae.latents_std, vae.config.scaling_factor)
        pixels = vae.decode(latent, None, return_dict=False)[0]
        frames = self.pipe.video_processor.postprocess_video(pixels, output_type="np")
        return torch.from_numpy(frames[0])[:, ::stride, ::stride].contiguous()

    def first_video(self, scale: int) -> torch.Tensor:
        request = self.request
        cells = (request["height"] // 32 // scale, request["width"] // 32 // scale)
        return self.noise(1, self.meta["config"]["transformer"]["in_channels"], (request["num_frames"] - 1) // 8 + 1, *cells)


def _common(run: _Run, sound: torch.Tensor, stride: int, video: torch.Tensor, audio: torch.Tensor) -> Tensors:
    return {
        "video_latent": video,
        "audio_latent": audio,
        "frames": run.frames(video, stride),
        "waveform": run.heard(sound),
        "sigmas": torch.tensor(run.request["sigmas"]),
    }


def _for_sound(run: _Run, sound: torch.Tensor, stride: int) -> Tensors:
    positive, negative = run.contexts()
    audio = run.encoded(run.heard(sound))
    size, sigmas = (run.request["height"], run.request["width"]), run.request["sigmas"]
    video, kept = run.stage(
        run.transformer(), run.guided(positive, negative), sigmas, size, video=run.first_video(1), audio=audio
    )
    return _common(run, sound, stride, video, kept)


def _for_sound_in_two_stages(run: _Run, sound: torch.Tensor, stride: int) -> Tensors:
    from ltx_pipelines.utils.denoisers import SimpleDenoiser

    positive, negative = run.contexts()
    audio = run.encoded(run.heard(sound))
    height, width, sigmas = run.request["height"], run.request["width"], run.request["sigmas"]
    video, _ = run.stage(
        run.transformer(),
        run.guided(positive, negative),
        sigmas,
        (height // 2, width // 2),
        video=run.first_video(2),
        audio=audio,
    )
    mean, std = (t.view(1, -1, 1, 1, 1) for t in (run.parts["video_vae"].latents_mean, run.parts["video_vae"].latents_std))
    video = (two_stage_cases.upsampler()(video * std + mean) - mean) / std
    second = two_stage_cases.SECOND
    noise = run.noise(1, video[0, 0].numel(), video.shape[1]).transpose(1, 2).reshape(video.shape)
    video = second[0] * noise + (1 - second[0]) * video
    denoiser = SimpleDenoiser(positive["video"], positive["audio"])
    heard = audio if run.second_audio else 0 * audio
    video, _ = run.stage(run.transformer(1.0), denoiser, second, (height, width), video=video, audio=heard)
    return _common(run, sound, stride, video, audio) | {"sigmas_stage2": torch.tensor(second)}


def _sound_alone(run: _Run) -> Tensors:
    positive, negative = run.contexts()
    positive["video"] = negative["video"] = None
    noise = run.noise(1, 8, run.latents, 16)
    _, audio = run.stage(run.transformer(), run.guided(positive, negative), run.request["sigmas"], (32, 32), audio=noise)
    vae = run.parts["audio_vae"]
    packed = audio.transpose(1, 2).flatten(2) * vae.latents_std + vae.latents_mean
    mel = vae.decode(packed.unflatten(2, (8, 16)).transpose(1, 2), return_dict=False)[0]
    return {
        "audio_latent": audio,
        "waveform": run.parts["vocoder"](mel)[0],
        "sigmas": torch.tensor(run.request["sigmas"]),
    }


def _case(name: str, request: dict, run: Callable[[_Run, dict], Tensors], inputs: Tensors, parameters: dict) -> Case:
    model = {"model": f"models/tiny/{tiny.FILE}", "text_encoder": "models/tiny/gemma"}
    case = Case(name, "", None, {}, inputs, lambda _module, data: run(_Run(request), data), {}, {}, lightricks=True)
    case.parameters = {"request": request} | model | parameters

    def otherwise(change: Callable[[_Run], None], changed: dict | None = None) -> Callable[[], Tensors]:
        def broken() -> Tensors:
            other = _Run(request | (changed or {}))
            change(other)
            return run(other, inputs)

        return broken

    def guidance_off(term: str, off: float) -> Callable[[], Tensors]:
        names = [k for k in ("video_guidance", "audio_guidance") if k in request]
        return otherwise(lambda _: None, {k: request[k] | {term: off} for k in names})

    case.removed = {
        f"guidance {term}": guidance_off(term, off)
        for term, off in (("cfg_scale", 1.0), ("stg_scale", 0.0), ("rescale", 0.0))
    }
    if "audio" in request:
        case.mistakes = {
            "the sound's own level not 0": otherwise(lambda r: setattr(r, "frozen", False)),
            "the negative pass hears the negative prompt": otherwise(lambda r: setattr(r, "negative_sound", True)),
            "the sound from its beginning": otherwise(lambda r: setattr(r, "sound_shift", -500)),
        }
    return case


def cases() -> list[Case]:
    base = pipeline_cases.one_stage_request()
    for name in ("video_guidance", "audio_guidance"):
        base[name] = dict(base[name])
    sound, stride = {"sound": _sound(RATE // 2)}, 6
    given = {k: v for k, v in base.items() if k != "audio_guidance"} | {"audio": {"start_seconds": 0.1}, "seed": "21"}
    given["sigmas"] = [1.0, 0.85, 0.4, 0.0]
    given["video_guidance"] = base["video_guidance"] | {"cfg_scale": 6.0}
    two = given | {"width": 128, "height": 64, "recipe": "TWO_STAGE", "seed": "22"}
    alone = {k: v for k, v in base.items() if k not in ("video_guidance", "width", "height")}
    alone |= {"audio_only": True, "seed": "23"}
    alone["audio_guidance"]["modality_scale"] = 1.0
    data = "tests/golden/data/"
    files = {"spatial_upsampler": data + _UPSAMPLER, "distilled_lora": data + _LORA}
    shown = {"frame_stride": stride, "sound_rate": RATE}
    cases = [
        _case("pipeline_sound", given, lambda r, d: _for_sound(r, d["sound"], stride), sound, shown),
        _case(
            "pipeline_sound_two_stage",
            two,
            lambda r, d: _for_sound_in_two_stages(r, d["sound"], stride),
            sound,
            shown | files,
        ),
        _case("pipeline_sound_alone", alone, lambda r, _: _sound_alone(r), {}, {}),
    ]
    cases[1].removed = {}  # the second stage has no guidance, and hides most of the first's
    cases[1].mistakes["the second stage hears nothing"] = _second_stage_deaf(two, sound["sound"], stride)
    return cases


def _second_stage_deaf(request: dict, sound: torch.Tensor, stride: int) -> Callable[[], Tensors]:
    def broken() -> Tensors:
        run = _Run(request)
        run.second_audio = False
        return _for_sound_in_two_stages(run, sound, stride)

    return broken
