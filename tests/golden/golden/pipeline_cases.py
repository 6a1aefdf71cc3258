"""Whole renders of models/tiny through diffusers: explicit sigmas, noise as torch draws it for the request's seed."""

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.ltx2.pipeline_ltx2 import LTX2Pipeline
from safetensors import safe_open
from transformers import AutoTokenizer

from golden import configs, tiny
from golden.case import Case

_PROMPT = (
    "A red fox runs through a snowy forest at dawn, the camera pans left. Soft piano music plays in the background, "
    "birds chirping, wind in the leaves; warm colors, volumetric fog, 35mm film grain — 一只红色的狐狸在雪林中奔跑。 🦊"
)
_NEGATIVE = "blurry, low quality, watermark, subtitles"
SAMPLING = {"frame_stride": 3, "context_row_stride": 17}  # subset of frames and contexts that is stored


def _check_tiny(parts: dict) -> None:
    with safe_open(tiny.FOLDER / tiny.FILE, "pt") as f:
        for name, tensor in tiny.single_file(parts).items():
            if not torch.equal(f.get_tensor(name), tensor):
                raise SystemExit(f"models/tiny is not what make_tiny_model.py writes: {name}")


def pipeline(parts: dict) -> LTX2Pipeline:
    pipe = LTX2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=False, shift_terminal=None),
        vae=parts["video_vae"],
        audio_vae=parts["audio_vae"],
        text_encoder=tiny.gemma(),
        tokenizer=AutoTokenizer.from_pretrained(tiny.FOLDER / "gemma"),
        connectors=parts["connectors"],
        transformer=parts["transformer"],
        vocoder=parts["vocoder"],
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _noise(request: dict) -> dict[str, torch.Tensor]:
    """Returns video_noise and audio_noise from one generator, video first, in the unpacked layouts."""
    frames, height, width = (request["num_frames"] - 1) // 8 + 1, request["height"] // 32, request["width"] // 32
    gen = torch.Generator().manual_seed(int(request["seed"]))
    channels = configs.ltx_2_3()["config"]["transformer"]["in_channels"]
    video = torch.randn(1, channels, frames, height, width, generator=gen)
    audio_frames = round(request["num_frames"] / request["frame_rate"] * 25)
    return {"video_noise": video, "audio_noise": torch.randn(1, 8, audio_frames, 16, generator=gen)}


def guidance(request: dict) -> dict:
    if "video_guidance" not in request:
        return dict(
            guidance_scale=1.0,
            stg_scale=0.0,
            modality_scale=1.0,
            guidance_rescale=0.0,
            audio_guidance_scale=1.0,
            audio_stg_scale=0.0,
            audio_modality_scale=1.0,
            audio_guidance_rescale=0.0,
        )
    found = {"spatio_temporal_guidance_blocks": request["video_guidance"]["stg_blocks"]}
    for prefix, terms in (("", request["video_guidance"]), ("audio_", request["audio_guidance"])):
        found |= {
            f"{prefix}guidance_scale": terms["cfg_scale"],
            f"{prefix}stg_scale": terms["stg_scale"],
            f"{prefix}modality_scale": terms["modality_scale"],
            f"{prefix}guidance_rescale": terms["rescale"],
        }
    return found


def _render(pipe: LTX2Pipeline, parameters: dict, request: dict, noise: dict) -> dict[str, torch.Tensor]:
    seen, text_rows = {}, parameters.get("text_rows", 1024)

    def contexts(_module, _args, output):
        rows = list(range(0, text_rows, parameters["context_row_stride"]))
        video, audio = output[0][:, rows], output[1][:, rows]
        seen["video_context"], seen["audio_context"] = video[-1:].clone(), audio[-1:].clone()
        if video.shape[0] == 2:
            seen["video_context_negative"], seen["audio_context_negative"] = video[:1].clone(), audio[:1].clone()

    denormalise_video, denormalise_audio = pipe._denormalize_latents, pipe._denormalize_audio_latents

    def video_latent(latents, *args):
        seen["video_latent"] = latents.clone()
        return denormalise_video(latents, *args)

    def audio_latent(latents, *args):
        seen["audio_latent"] = latents.unflatten(2, (8, 16)).transpose(1, 2).contiguous()
        return denormalise_audio(latents, *args)

    def first_latents(_module, _args, kwargs):
        seen.setdefault("first_video", kwargs["hidden_states"][:1].clone())
        seen.setdefault("first_audio", kwargs["audio_hidden_states"][:1].clone())

    first = pipe.transformer.register_forward_pre_hook(first_latents, with_kwargs=True)
    handle = pipe.connectors.register_forward_hook(contexts)
    pipe._denormalize_latents, pipe._denormalize_audio_latents = video_latent, audio_latent
    frames, audio = pipe(
        prompt=request["prompt"],
        negative_prompt=request.get("negative_prompt"),
        width=request["width"],
        height=request["height"],
        num_frames=request["num_frames"],
        frame_rate=request["frame_rate"],
        max_sequence_length=text_rows,
        sigmas=request["sigmas"][:-1],
        num_inference_steps=len(request["sigmas"]) - 1,
        generator=torch.Generator().manual_seed(int(request["seed"])),
        output_type="np",
        return_dict=False,
        **guidance(request),
    )
    handle.remove()
    first.remove()
    if not torch.equal(seen.pop("first_video"), noise["video_noise"].flatten(2).transpose(1, 2)):
        raise SystemExit("diffusers drew other video noise")
    if not torch.equal(seen.pop("first_audio"), noise["audio_noise"].transpose(1, 2).flatten(2)):
        raise SystemExit("diffusers drew other audio noise")
    pipe._denormalize_latents, pipe._denormalize_audio_latents = denormalise_video, denormalise_audio
    stride = parameters["frame_stride"]
    sampled = torch.from_numpy(frames[0])[:, ::stride, ::stride].contiguous()
    ids = pipe.tokenizer(request["prompt"].strip()).input_ids
    return {
        **seen,
        "input_ids": torch.tensor(ids),
        "sigmas": pipe.scheduler.sigmas.clone(),
        "frames": sampled,
        "waveform": audio[0],
    }


def render_case(pipe: LTX2Pipeline, name: str, request: dict, model: dict) -> Case:
    """`model` contains parameters that locate the weights, and deviations from SAMPLING."""
    noise = _noise(request)
    parameters = {"request": request} | model | {"text_encoder": "models/tiny/gemma"} | SAMPLING | model
    case = Case(name, "", None, {}, {}, lambda *_: _render(pipe, parameters, request, noise), {}, parameters)
    case.plain = noise

    def otherwise(changes: dict) -> dict:
        other = _render(pipe, parameters, request | changes, noise)
        compared = ("video_latent", "audio_latent", "frames", "waveform")  # without CFG there is no negative context
        return _render(pipe, parameters, request, noise) | {k: other[k] for k in compared}

    if "video_guidance" in request:
        for term, off in (("cfg_scale", 1.0), ("stg_scale", 0.0), ("modality_scale", 1.0), ("rescale", 0.0)):
            terms = {k: request[k] | {term: off} for k in ("video_guidance", "audio_guidance")}
            case.removed[f"guidance {term}"] = lambda terms=terms: otherwise(terms)
    case.mistakes["other frame rate"] = lambda: otherwise({"frame_rate": request["frame_rate"] + 0.1})
    return case


def _generation_2_0(request: dict) -> Case:
    meta = configs.ltx_2_0_small()
    parts = tiny.modules(meta["config"], tiny.SEED + 100)
    model = {"model": "tests/golden/data/ltx-2.0-tiny.safetensors"}
    case = render_case(pipeline(parts), "pipeline_2_0", request, model)
    unused = ("vae.encoder.", "audio_vae.encoder.")
    tensors = {k: v for k, v in tiny.single_file(parts).items() if not k.startswith(unused)}
    case.meta, case.model_file = meta, ("ltx-2.0-tiny.safetensors", tensors)
    return case


def one_stage_request() -> dict:
    return {
        "prompt": _PROMPT,
        "negative_prompt": _NEGATIVE,
        "width": 96,
        "height": 64,
        "num_frames": 9,
        "frame_rate": 24.0,
        "seed": "10",
        "recipe": "ONE_STAGE",
        "sigmas": [1.0, 0.97, 0.85, 0.6, 0.25, 0.0],
        "video_guidance": {
            "cfg_scale": 3.0,
            "stg_scale": 1.0,
            "stg_blocks": [1],
            "modality_scale": 3.0,
            "rescale": 0.7,
        },
        "audio_guidance": {
            "cfg_scale": 7.0,
            "stg_scale": 1.0,
            "stg_blocks": [1],
            "modality_scale": 3.0,
            "rescale": 0.7,
        },
    }


def distilled_request() -> dict:
    return {
        "prompt": "An astronaut walks past a paper boat.",
        "width": 64,
        "height": 96,
        "num_frames": 17,
        "frame_rate": 25.0,
        "seed": "42",
        "recipe": "DISTILLED",
        "sigmas": [1.0, 0.99375, 0.9875, 0.98125, 0.975, 0.909375, 0.725, 0.421875, 0.0],
    }


def cases() -> list[Case]:
    parts = tiny.modules(configs.ltx_2_3()["config"])
    _check_tiny(parts)
    pipe, model = pipeline(parts), {"model": f"models/tiny/{tiny.FILE}"}
    dev = one_stage_request()
    terms = {"cfg_scale": 5.0, "stg_scale": 1.0, "stg_blocks": [0], "modality_scale": 3.0, "rescale": 0.7}
    older = dev | {"seed": "7", "video_guidance": terms, "audio_guidance": terms | {"cfg_scale": 9.0}}
    return [
        render_case(pipe, "pipeline_one_stage", dev, model),
        render_case(pipe, "pipeline_distilled", distilled_request(), model),
        _generation_2_0(older),
    ]
