"""Cases of Lightricks' own code, where it differs from diffusers or does things that diffusers does not (spec [≠]).

The transformer cases share weights and inputs with transformer_2_3 and transformer_2_0.
"""

import torch

from golden import encoder_cases, layouts, lightricks, transformer_cases, video_vae_cases
from golden import sensitivity as s
from golden.case import Case


def modality(data: dict, stream: str, rows: int, **changes):
    """Returns data's tensors as Lightricks' Modality, with `rows` rows of the batch."""
    from ltx_core.model.transformer.modality import Modality

    latent = data[stream][:1].expand(rows, -1, -1)
    sigma = data["sigma"][:1].expand(rows)
    fields = dict(
        latent=latent,
        sigma=sigma,
        timesteps=sigma[:, None].expand(-1, latent.shape[1]),
        positions=data[f"{stream}_positions"][:1].expand(rows, -1, -1, -1),
        context=data[f"{stream}_context"][:rows],
    )
    return Modality(**(fields | changes))


def _whole_names(case: Case) -> dict[str, torch.Tensor]:
    prefix = layouts.PREFIX[case.module_name]
    return {prefix + name: tensor for name, tensor in case.single_file_weights().items()}


def _per_token(base: Case, model, name: str) -> Case:
    """Image-to-video: latent frame 0 is clean (mask 0), two later tokens have mask 0.3."""
    data = {k: v[:1] for k, v in base.inputs.items()}
    frame = transformer_cases.GRID[1] * transformer_cases.GRID[2]
    mask = torch.ones(1, data["video"].shape[1])
    mask[:, :frame], mask[:, frame + 2], mask[:, -1] = 0.0, 0.3, 0.3
    data["video_mask"] = mask

    def run(m, data):
        video = modality(data, "video", 1, timesteps=data["video_mask"] * data["sigma"][:, None])
        v, a = m(video, modality(data, "audio", 1), None)
        return {"video": v, "audio": a}

    case = Case(
        f"{name}_per_token", "transformer", model, base.meta, data, run, {}, dict(base.parameters, batch=1), name
    )
    for which, cross in (("cross", True), ("own", False)):
        case.mistakes[f"diffusers' AV timesteps: {which}"] = lambda cross=cross: _diffusers(base.module, data, cross)
    case.mistakes["uniform timesteps"] = s.broken(case, inputs={"video_mask": torch.ones_like(mask)})
    if getattr(model, "prompt_adaln_single", None) is not None:
        case.mistakes["prompt AdaLN fed a token's timestep"] = s.broken(
            case, s.input_of(model.prompt_adaln_single, lambda t: t * mask[0, frame + 2])
        )
    return case


def _diffusers(model, data: dict, cross: bool) -> dict:
    sigma = data["sigma"] * 1000
    result = model(
        hidden_states=data["video"],
        audio_hidden_states=data["audio"],
        encoder_hidden_states=data["video_context"],
        audio_encoder_hidden_states=data["audio_context"],
        timestep=data["video_mask"] * sigma,
        audio_timestep=sigma[:, None].expand(-1, data["audio"].shape[1]),
        sigma=sigma,
        video_coords=data["video_positions"],
        audio_coords=data["audio_positions"],
        use_cross_timestep=cross,
    )
    return {"video": result.sample, "audio": result.audio_sample}


def _as_outputs(result: tuple) -> dict:
    return {"video": result[0], "audio": result[1]}


def _frozen_audio(base: Case, model, name: str) -> Case:
    """Audio-to-video: audio has sigma 0 and timestep 0 on every token, video has one sigma."""
    data = {k: v[:1] for k, v in base.inputs.items()}

    def run(m, data):
        zero = torch.zeros(1)
        audio = modality(data, "audio", 1, sigma=zero, timesteps=torch.zeros(1, data["audio"].shape[1]))
        v, a = m(modality(data, "video", 1), audio, None)
        return {"video": v, "audio": a}

    case = Case(
        f"{name}_frozen_audio", "transformer", model, base.meta, data, run, {}, dict(base.parameters, batch=1), name
    )
    case.mistakes["audio not frozen"] = lambda: _as_outputs(
        model(modality(data, "video", 1), modality(data, "audio", 1), None)
    )
    return case


def _guidance_passes(base: Case, model, name: str) -> Case:
    """One batch [uncond, cond, STG on block 1 of both modalities, modality: no AV cross-attention in any block].

    Additional outputs: stg_video_only and stg_audio_only [1, ...] perturb one modality's self-attention in block 0.
    audio_skipped: the audio stream is not updated (skip_step) but still provides keys and values for the video.
    """
    from ltx_core.guidance.perturbations import (
        BatchedPerturbationConfig,
        Perturbation,
        PerturbationConfig,
        PerturbationType,
    )

    data = dict(base.inputs)
    data["video_context"] = data["video_context"][[0, 1, 1, 1]]
    data["audio_context"] = data["audio_context"][[0, 1, 1, 1]]
    for stream in ("video", "audio"):
        data[stream], data[f"{stream}_positions"] = data[stream][:1], data[f"{stream}_positions"][:1]
    data["sigma"] = data["sigma"][:1]
    layers, kinds = base.meta["config"]["transformer"]["num_layers"], PerturbationType

    def config(*perturbations):
        return PerturbationConfig([Perturbation(kind, blocks) for kind, blocks in perturbations])

    def batch(passes):
        return BatchedPerturbationConfig(passes, layers, dtype=torch.float32)

    def run(m, data):
        passes = [
            config(),
            config(),
            config((kinds.SKIP_VIDEO_SELF_ATTN, [1]), (kinds.SKIP_AUDIO_SELF_ATTN, [1])),
            config((kinds.SKIP_A2V_CROSS_ATTN, None), (kinds.SKIP_V2A_CROSS_ATTN, None)),
        ]
        found = {}
        found["video"], found["audio"] = m(modality(data, "video", 4), modality(data, "audio", 4), batch(passes))
        for which, kind in (("video", kinds.SKIP_VIDEO_SELF_ATTN), ("audio", kinds.SKIP_AUDIO_SELF_ATTN)):
            one = batch([config((kind, [0]))])
            positive = {f"{s}_context": data[f"{s}_context"][1:2] for s in ("video", "audio")}
            v, a = m(modality(data | positive, "video", 1), modality(data | positive, "audio", 1), one)
            found[f"stg_{which}_only.video"], found[f"stg_{which}_only.audio"] = v, a
        v, _ = m(modality(data, "video", 4), modality(data, "audio", 4, enabled=False), batch(passes))
        found["audio_skipped.video"] = v
        return found

    parameters = dict(base.parameters, batch=4, stg_blocks=[1], single_stg_blocks=[0])
    case = Case(f"{name}_guidance", "transformer", model, base.meta, data, run, {}, parameters, name)

    def rows(order):
        found = run(model, data)
        return found | {k: found[k][order] for k in ("video", "audio")}

    def skipped_as_if_not():
        found = run(model, data)
        return found | {"audio_skipped.video": found["video"]}

    case.mistakes |= {
        "conditions swapped": lambda: rows([1, 0, 2, 3]),
        "STG pass not perturbed": lambda: rows([0, 1, 1, 3]),
        "modality pass with cross-attention": lambda: rows([0, 1, 2, 1]),
        "audio stream not skipped": skipped_as_if_not,
    }
    return case


def _masked(base: Case, model, name: str) -> Case:
    """Video self-attention with a mask of values in 0..1. The bias is its logarithm; 0 masks completely."""
    data = {k: v[:1] for k, v in base.inputs.items()}
    tokens = data["video"].shape[1]
    gen = torch.Generator().manual_seed(81)
    mask = torch.rand(1, tokens, tokens, generator=gen)
    mask[:, :, 40:] = 0.0  # only the last five tokens attend to the last five
    mask[:, 40:, 40:] = 1.0
    mask[:, :20, :20] = 1.0
    data["video_attention_mask"] = mask

    def run(m, data):
        v, a = m(
            modality(data, "video", 1, attention_mask=data["video_attention_mask"]), modality(data, "audio", 1), None
        )
        return {"video": v, "audio": a}

    case = Case(f"{name}_mask", "transformer", model, base.meta, data, run, {}, dict(base.parameters, batch=1), name)
    for what, other in (
        ("no mask", torch.ones_like(mask)),
        ("diffusers' bias", torch.exp((1 - mask) * -10000.0)),
        ("queries and keys swapped", mask.transpose(1, 2)),
    ):
        case.mistakes[what] = s.broken(case, inputs={"video_attention_mask": other})
    return case


def _tiled(base: Case, name: str, shape: tuple[int, int, int], tiles: dict[str, tuple[int, int]]) -> Case:
    """Tiled decode with blending. out.frames is every 5th row and column of [1, 3, F, H, W]."""
    model = lightricks.load("video_decoder", base.meta, _whole_names(base))
    channels = base.meta["config"]["vae"]["latent_channels"]
    latent = torch.randn(1, channels, *shape, generator=torch.Generator().manual_seed(91))

    def run(m, _data):
        return _decode_tiled(m, latent, tiles)

    case = Case(
        name,
        "video_vae",
        model,
        base.meta,
        {"latent": latent},
        run,
        {},
        {"tiles": tiles, "sample_stride": 5},
        base.name,
    )

    def untiled():
        return run(model, {}) | {"frames": model(latent)[..., ::5, ::5]}

    def other(axis, size, overlap):
        return lambda: _decode_tiled(model, latent, tiles | {axis: (size, overlap)})

    case.mistakes["not tiled"] = untiled
    case.mistakes["other overlap in width"] = other("width", tiles["width"][0], 32)
    case.mistakes["other overlap in time"] = other("frames", tiles["frames"][0], 0)
    return case


def _decode_tiled(model, latent: torch.Tensor, tiles: dict) -> dict:
    from ltx_core.tiling import DimensionSizeConfig, TileSizeConfig

    config = TileSizeConfig(**{axis: DimensionSizeConfig(tile_size=s, overlap=o) for axis, (s, o) in tiles.items()})
    chunks = [c.clone() for c in model.tiled_decode(latent, config)]
    return {
        "frames": torch.cat(chunks, 2)[..., ::5, ::5].contiguous(),
        "chunk_frames": torch.tensor([c.shape[2] for c in chunks]),
    }


def _pattern(frames: int, height: int, width: int) -> torch.Tensor:
    """Returns [1, 3, frames, height, width]: pixels that a test can compute itself, with eight bits in -1..1."""
    f, y, x = torch.meshgrid(*(torch.arange(n) for n in (frames, height, width)), indexing="ij")
    channels = [(7 * x + 13 * y + 29 * f + 85 * c + x * y // 16 + 3 * x * f // 8) % 256 for c in range(3)]
    return torch.stack(channels)[None].float() / 127.5 - 1


def _encoded_in_tiles(base: Case, name: str, shape: tuple[int, int, int], tiles: dict[str, tuple[int, int]]) -> Case:
    """Tiled encode with blending of _pattern."""
    from ltx_core.tiling import DimensionSizeConfig, TileSizeConfig

    model, pixels = lightricks.load("video_encoder", base.meta, _whole_names(base)), _pattern(*shape)

    def encode(tiles: dict) -> dict:
        config = TileSizeConfig(**{axis: DimensionSizeConfig(tile_size=s, overlap=o) for axis, (s, o) in tiles.items()})
        return {"latent": model.tiled_encode(pixels, config)}

    parameters = {"shape": shape, "tiles": tiles}
    case = Case(name, "video_vae", model, base.meta, {}, lambda *_: encode(tiles), {}, parameters, base.name)
    case.mistakes["not tiled"] = lambda: {"latent": model(pixels)}
    case.mistakes["other overlap in width"] = lambda: encode(tiles | {"width": (tiles["width"][0] + 32, 64)})
    case.mistakes["other overlap in time"] = lambda: encode(tiles | {"frames": (tiles["frames"][0] + 8, 16)})
    return case


def _schedule() -> Case:
    """sigmas.TOKENS.STEPS is Lightricks' schedule; its pipelines always use 4096 tokens."""
    from ltx_core.components.schedulers import LTX2Scheduler

    def run(*_):
        found = {}
        for tokens in (1536, 4096, 6144, 15360):
            for steps in (1, 2, 8, 30, 40):
                if steps > 1:  # stretching a single step would divide by zero
                    found[f"sigmas.{tokens}.{steps}"] = LTX2Scheduler().execute(steps, default_number_of_tokens=tokens)
        return found

    return Case("schedule", "", None, {}, {}, run)


def _guidance() -> Case:
    """out.guided.I is the result for parameters.sets[I] = [cfg, stg, modality, rescale]."""
    from ltx_core.components.guiders import MultiModalGuider, MultiModalGuiderParams

    sets = [
        (3.0, 1.0, 3.0, 0.7),
        (7.0, 1.0, 3.0, 0.7),
        (3.0, 0.0, 1.0, 0.0),
        (1.0, 1.0, 1.0, 0.45),
        (3.0, 0.0, 3.0, 1.0),
        (1.0, 0.0, 1.0, 0.0),
    ]
    gen = torch.Generator().manual_seed(95)
    cond = torch.randn(1, 45, 16, generator=gen) + 0.3
    data = {"cond": cond} | {
        k: cond + 0.4 * torch.randn(cond.shape, generator=gen) for k in ("uncond", "stg", "modality")
    }

    def run(*_):
        found = {}
        for i, (cfg, stg, modality, rescale) in enumerate(sets):
            guider = MultiModalGuider(
                MultiModalGuiderParams(cfg_scale=cfg, stg_scale=stg, modality_scale=modality, rescale_scale=rescale)
            )
            found[f"guided.{i}"] = guider.calculate(data["cond"], data["uncond"], data["stg"], data["modality"])
        return found

    return Case("guidance", "", None, {}, data, run, {}, {"sets": sets})


def cases() -> list[Case]:
    found = []
    for base in transformer_cases.cases():
        model = lightricks.load("transformer", base.meta, _whole_names(base))
        for make in (_per_token, _guidance_passes) + (
            (_frozen_audio, _masked) if base.name == "transformer_2_3" else ()
        ):
            found.append(make(base, model, base.name))
    decoders = {c.name: c for c in video_vae_cases.cases()}
    found.append(
        _tiled(
            decoders["video_decoder_2_3"],
            "video_decoder_2_3_tiled",
            (5, 4, 3),
            {"frames": (24, 8), "height": (64, 32), "width": (64, 0)},
        )
    )
    found.append(
        _tiled(
            decoders["video_decoder_2_0"],
            "video_decoder_2_0_tiled",
            (4, 3, 4),
            {"frames": (16, 8), "height": (64, 32), "width": (96, 64)},
        )
    )
    encoders = {c.name: c for c in encoder_cases.cases()}
    found.append(
        _encoded_in_tiles(
            encoders["video_encoder_2_3"],
            "video_encoder_2_3_tiled",
            (33, 128, 160),
            {"frames": (24, 16), "height": (96, 64), "width": (96, 64)},
        )
    )
    found += [_schedule(), _guidance()]
    for case in found:
        case.lightricks = True
    return found
