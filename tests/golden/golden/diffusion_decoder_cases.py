"""The diffusion video decoder by Lightricks' own modules: normalised latent in, frames out. A seed draws the noise."""

import contextlib
from collections.abc import Callable

import torch

from golden import configs, diffusion_decoder, diffusion_decoder_tiles, drawn, tiny, tiny_2_5
from golden import diffusion_decoder_mistakes as mistakes
from golden import sensitivity as s
from golden.case import Case, Tensors
from golden.diffusion_decoder import decode

_SEED = 31  # of the noise
_KEPT = 16  # values of each draw that are written, at its beginning and at its end


def _case(name: str, meta: dict, decoder, shape: tuple[int, int, int], stride: int, weights_from: str = "") -> Case:
    """Returns a case that decodes whole clips. stride: of the rows and columns of out.frames."""
    channels = meta["config"]["vae"]["decoder"]["in_channels"]
    latent = torch.randn(1, channels, *shape, generator=torch.Generator().manual_seed(32 + sum(shape)))
    parameters = {"seed": str(_SEED), "sample_stride": stride}

    def run(m, data, seed=_SEED):
        return {"frames": sampled(decode(m, data["latent"], seed), stride)}

    case = Case(name, "video_vae", decoder, meta, {"latent": latent}, run, {}, parameters, weights_from)
    case.weights = diffusion_decoder.tensors(decoder)
    return case


def sampled(frames: torch.Tensor, stride: int) -> torch.Tensor:
    return frames[..., ::stride, ::stride].contiguous()


def _describe_noise(case: Case) -> None:
    case.inputs |= describe(case.parameters, draws_of(lambda: case.run(case.module, case.inputs)))
    case.mistakes["noise of another seed"] = lambda: case.run(case.module, case.inputs, _SEED + 1)


def describe(parameters: dict, draws: list[torch.Tensor]) -> Tensors:
    """Adds the shapes of the draws to parameters. Returns the ends of each, [draws, 16], with which a test checks that
    it draws the same."""
    parameters["noise"] = [list(d.shape) for d in draws]
    flat = [d.flatten() for d in draws]
    return {"noise_begin": torch.stack([d[:_KEPT] for d in flat]), "noise_end": torch.stack([d[-_KEPT:] for d in flat])}


def draws_of(run: Callable[[], object]) -> list[torch.Tensor]:
    """Returns what run() draws."""
    found, original = [], torch.randn

    def recorded(*arguments, **options):
        found.append(original(*arguments, **options))
        return found[-1]

    with s.swapped(torch, "randn", recorded)():
        run()
    return found


def _tap(case: Case, strides: dict[str, int]) -> None:
    """Adds taps [T, H, W, C]; strides: of the time, rows and columns of the large ones."""
    whole = case.run
    case.parameters["tap_strides"] = strides

    def run(m, data, *seed):
        with diffusion_decoder.taps(m, strides) as found:
            outputs = whole(m, data, *seed)
        return outputs | {f"tap.{name}": value for name, value in found.items()}

    case.run = run


def _whole(meta: dict, decoder) -> Case:
    case = _case("diffusion_decoder", meta, decoder, (4, 3, 5), 7)
    _tap(case, {"stage.1": 3, "stage.2": 3, "stage.3": 7, "conv_in_x_t": 7, "block.0": 7, "block.1": 7})
    _describe_noise(case)
    mistakes.of_maths(case)
    mistakes.of_parts(case)
    return case


def _small(meta: dict, decoder) -> Case:
    """A latent that is padded to 3 x 3 x 3: a frame behind, a row on both sides, a column on the right."""
    case = _case("diffusion_decoder_small", meta, decoder, (2, 1, 2), 3, "diffusion_decoder")
    _describe_noise(case)

    def padded(mode: str, rows: tuple[int, int], columns: tuple[int, int]) -> Callable[[], Tensors]:
        frame, sides = (0, 0, 0, 0, 0, 1), (*columns, *rows, 0, 0)
        latent = torch.nn.functional.pad(case.inputs["latent"], frame, "replicate")
        latent = torch.nn.functional.pad(latent, sides, mode)
        top, left = 32 * rows[0], 32 * columns[0]

        def run() -> Tensors:
            frames = decode(decoder, latent, _SEED)[:, :, :9, top : top + 32, left : left + 64]
            return {"frames": sampled(frames, 3)}

        return run

    case.mistakes |= {
        "both rows in front": padded("replicate", (2, 0), (0, 1)),
        "both rows behind": padded("replicate", (0, 2), (0, 1)),
        "the column on the left": padded("replicate", (1, 1), (1, 0)),
        "zeros around": padded("constant", (1, 1), (0, 1)),
        "no padding but smaller windows": s.broken(case, lambda: mistakes.small_windows(decoder)),
    }
    return case


def _tiled(meta: dict, decoder) -> Case:
    """Two tiles in time and height and three in width, where a tile of the middle is shorter than its two ramps."""
    tiles = {"frames": (16, 8), "height": (64, 32), "width": (96, 64)}
    case = _case("diffusion_decoder_tiled", meta, decoder, (3, 3, 5), 7, "diffusion_decoder")

    def run(m, data, seed=_SEED, tiles=tiles):
        chunks = diffusion_decoder.chunks(m, data["latent"], seed, tiles)
        lengths = torch.tensor([c.shape[2] for c in chunks])
        return {"frames": sampled(torch.cat(chunks, 2), 7), "chunk_frames": lengths}

    untiled = case.run
    case.run = run
    case.parameters |= {"tiles": tiles, "plan": diffusion_decoder_tiles.plan(decoder, case.inputs["latent"], tiles)}
    _describe_noise(case)
    case.mistakes |= {
        name: s.broken(case, manager) for name, manager in diffusion_decoder_tiles.mistakes(decoder).items()
    }
    case.mistakes |= {
        "not tiled": lambda: run(decoder, case.inputs) | untiled(decoder, case.inputs),
        "other overlap in height": lambda: run(decoder, case.inputs, tiles=tiles | {"height": (64, 40)}),
    }
    return case


def _repeat(meta: dict, decoder) -> Case:
    """The form that Lightricks' pipelines use by default, with slabs of eight columns and halos of two."""
    case = _case("diffusion_decoder_repeat", meta, decoder, (3, 3, 4), 7, "diffusion_decoder")
    case.parameters["width_borders"] = "repeat"
    shifted = case.run

    def run(m, data, *seed):
        with diffusion_decoder.chunked(m):
            return shifted(m, data, *seed)

    case.run = run
    _describe_noise(case)
    columns = 8 * case.inputs["latent"].shape[-1]
    case.mistakes |= {
        "windows shifted at the left and the right": lambda: shifted(decoder, case.inputs),
        "columns repeated for RoPE too": s.broken(case, lambda: mistakes.clamped_columns(columns)),
        "slabs without halos": s.broken(case, mistakes.no_halos),
        "windows truncated": s.broken(case, mistakes.truncated_windows),
    }
    return case


def _repeat_tiled(meta: dict, decoder) -> Case:
    """The same form in tiles, each of which repeats its own left and right column."""
    tiles = {"height": (64, 32), "width": (96, 64)}
    case = _case("diffusion_decoder_repeat_tiled", meta, decoder, (3, 3, 5), 11, "diffusion_decoder")

    def run(m, data, seed=_SEED, form=diffusion_decoder.chunked):
        with form(m):
            return {"frames": sampled(torch.cat(diffusion_decoder.chunks(m, data["latent"], seed, tiles), 2), 11)}

    def untiled(m, data):
        with diffusion_decoder.chunked(m):
            return {"frames": sampled(decode(m, data["latent"], _SEED), 11)}

    case.run = run
    case.parameters |= {"tiles": tiles, "width_borders": "repeat"}
    _describe_noise(case)
    case.mistakes |= {
        "windows shifted at the left and the right": lambda: run(decoder, case.inputs, form=contextlib.nullcontext),
        "not tiled": lambda: untiled(decoder, case.inputs),
    }
    return case


def _steps(meta: dict, decoder) -> Case:
    """Two steps: with velocities whole and in tiles, and with predictions of the picture."""
    case = _case("diffusion_decoder_steps", meta, decoder, (3, 3, 3), 9, "diffusion_decoder")
    steps, tiles = 2, {"width": (64, 32)}
    plan = diffusion_decoder_tiles.plan(decoder, case.inputs["latent"], tiles)
    case.parameters |= {"steps": steps, "tiles": tiles, "plan": plan}

    def run(m, data, seed=_SEED, times=torch.linspace(1, 1 / steps, steps)):
        found = {}
        for name, kind, split in (("v", "v", None), ("v_tiled", "v", tiles), ("x0", "x0", None)):
            managers = (s.swapped(m, "default_inference_timesteps", times), s.swapped(m, "model_output_type", kind))
            with managers[0](), managers[1]():
                found[f"frames.{name}"] = sampled(decode(m, data["latent"], seed, split), 9)
        return found

    case.run = run
    _describe_noise(case)
    # Every output has the same noise.
    case.inputs |= describe(case.parameters, draws_of(lambda: run(decoder, case.inputs))[:1])

    def exchanged(name: str, other: str) -> Callable[[], Tensors]:
        def found() -> Tensors:
            outputs = run(decoder, case.inputs)
            return outputs | {f"frames.{name}": outputs[f"frames.{other}"]}

        return found

    def with_times(*times: float) -> Callable[[], Tensors]:
        return lambda: run(decoder, case.inputs, times=torch.tensor(times))

    case.mistakes |= {
        "velocities taken for pictures": exchanged("v", "x0"),
        "pictures taken for velocities": exchanged("x0", "v"),
        "not tiled": exchanged("v_tiled", "v"),
        "one step": with_times(1.0),
        "steps to 0": with_times(1.0, 1e-6),
        "three steps": with_times(1.0, 2 / 3, 1 / 3),
    }
    return case


def _gates(meta: dict) -> Case:
    """Static gates, powers of two so that folding them is exact in bfloat16, and a preview's weights to be dropped.

    Width and head size have their optional names; there is no type_emb.
    """
    section = meta["config"]["vae"]["decoder"]
    section |= {"stage_channels": [16] * 5, "stage5_channels": 32, "na_head_dim": section.pop("head_dim")}
    section["stage_depths"] = [1] * 5
    section |= {"upsamples": [[stride, 1] for stride, _ in section["upsamples"]], "t_emb_dim": 24}
    channels = section["in_channels"]
    decoder = diffusion_decoder.redrawn(meta, 33, torch.zeros(channels), torch.ones(channels))
    # Copies: loading the gates folds them into the decoder's own tensors.
    stored = {k: v.clone() for k, v in diffusion_decoder.tensors(decoder).items() if k != "decoder.type_emb"}
    generator, values = torch.Generator().manual_seed(34), torch.tensor([-2, -1, -0.5, 0.5, 1, 2])
    gates = {}
    for i in range(len(decoder.diff_blocks)):
        for kind in diffusion_decoder.GATES:
            gates[f"decoder.diff_blocks.{i}.{kind}"] = values[torch.randint(6, (32,), generator=generator)]
    diffusion_decoder.load(decoder, stored | gates)
    case = _case("diffusion_decoder_gates", meta, decoder, (3, 3, 3), 9)
    case.weights = stored | gates | {"decoder.coarse_out.weight": torch.ones(4, 16)}
    _describe_noise(case)

    def without(kind: str) -> Callable[[], Tensors]:
        def found() -> Tensors:
            other = diffusion_decoder.build(meta)
            kept = {k: torch.ones_like(v) if k.endswith(kind) else v for k, v in gates.items()}
            diffusion_decoder.load(other, stored | kept)
            return case.run(other, case.inputs)

        return found

    case.mistakes |= {f"{kind} ignored": without(kind) for kind in diffusion_decoder.GATES}
    return case


def _released(meta: dict) -> Case:
    """The kernels and the head size of the released model, with narrow stages and drawn weights. The latent is the
    smallest that is not padded."""
    meta["config"]["vae"]["decoder"] |= {
        "head_dim": 64,
        "stage_channels": [256, 128, 128, 128, 128],
        "stage_kernels": [[3, 7, 7], [3, 7, 7], [3, 5, 5], [3, 5, 5], [11, 11, 11]],
        "stage5_kernel": [11, 11, 11],
    }
    decoder = diffusion_decoder.build(meta)
    weights = {f"vae.{k}": v for k, v in diffusion_decoder.tensors(decoder).items() if k != "decoder.type_emb"}
    description = drawn.draw_tensors(weights, 35, f"models/tiny/{tiny.FILE}")
    diffusion_decoder.load(decoder, {k.removeprefix("vae."): v for k, v in weights.items()})
    case = _case("diffusion_decoder_released", meta, decoder, (3, 7, 7), 13)
    case.drawn = description
    strides = {"conv_in": 4, "stage.0": 5, "stage.1": 5, "stage.2": 7, "stage.3": 13}
    _tap(case, strides | {"conv_in_x_t": 13, "block.0": 13, "block.1": 13})
    _describe_noise(case)
    case.mistakes |= {
        "windows truncated at borders": s.broken(case, mistakes.truncated_windows),
        "RoPE of halves": s.broken(case, mistakes.halves),
        "q not scaled": s.broken(case, *[s.swapped(a, "scale", 1.0) for a in mistakes.attentions(decoder)]),
    }
    return case


def cases() -> list[Case]:
    meta, decoder = configs.ltx_2_5_diffusion(), tiny_2_5.decoder_of_diffusion()
    found = [make(meta, decoder) for make in (_whole, _small, _tiled, _repeat, _repeat_tiled, _steps)]
    found += [_gates(configs.ltx_2_5_diffusion()), _released(configs.ltx_2_5_diffusion())]
    for case in found:
        case.lightricks = True
    return found
