"""Mistakes and removed parts for the cases of the diffusion video decoder (see sensitivity.py)."""

import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from einops import rearrange

from golden import sensitivity as s


def _blocks(decoder) -> dict[str, torch.nn.Module]:
    """Returns all blocks by name, those of stage 5 last."""
    found = {}
    for i, stage in enumerate(decoder.det_stages):
        found |= {f"stage {i} block {j}": block for j, block in enumerate(stage)}
    return found | {f"diffusion block {j}": block for j, block in enumerate(decoder.diff_blocks)}


def attentions(decoder) -> list[torch.nn.Module]:
    return [block.attn for block in _blocks(decoder).values()]


def truncated_windows() -> contextlib.AbstractContextManager:
    """Cuts windows off at a border, where the reference shifts them inward."""
    from ltx_core.model.video_vae.transformer.fallback_na import eager

    def bounds(length: int, kernel: int, _causal: bool) -> tuple[list[int], list[int]]:
        half = kernel // 2
        return [max(0, i - half) for i in range(length)], [min(length, i + half + 1) for i in range(length)]

    return mock.patch.object(eager, "_window_bounds", bounds)


@contextlib.contextmanager
def small_windows(decoder) -> Iterator[None]:
    """Does not pad a latent; windows are as long as the axis where that is shorter."""
    from ltx_core.model.video_vae.transformer.fallback_na import eager

    def windowed(kernel: tuple[int, int, int]) -> Callable:
        return lambda _attention, q, k, v: eager.na3d(q, k, v, kernel_size=kernel, scale=1.0)

    managers = [s.swapped(decoder, "stage_min_tile_sizes", (1, 1, 1))]
    for attention in attentions(decoder):
        managers.append(s.swapped(attention, "attention_function", windowed(attention.kernel_size)))
        managers.append(s.swapped(attention, "kernel_size", (1, 1, 1)))  # what the reference checks sizes against
    with contextlib.ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager())
        yield


@contextlib.contextmanager
def _rotation(change: Callable) -> Iterator[None]:
    """change(the reference's rotation, x, ...) replaces the rotation of one axis."""
    from ltx_core.model.video_vae.transformer import det_attn_rope, rope_math
    from ltx_core.model.video_vae.transformer.combined import attn

    original = rope_math.rot_abs_axis_impl

    def changed(x, *arguments, **options):
        return change(original, x, *arguments, **options)

    det = mock.patch.object(det_attn_rope, "rot_abs_axis_impl", changed)
    with det, mock.patch.object(attn, "_rot_abs_axis", changed):
        yield


def halves() -> contextlib.AbstractContextManager:
    """Rotates (i, i + d/2) instead of (2i, 2i + 1)."""

    def change(original, x, *arguments, **options):
        interleaved = rearrange(x, "... (two d) -> ... (d two)", two=2)
        return rearrange(original(interleaved, *arguments, **options), "... (d two) -> ... (two d)", two=2)

    return _rotation(change)


@contextlib.contextmanager
def _slabs(change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """change(columns of a slab) replaces the columns that RoPE gets in the chunked form."""
    from ltx_core.model.video_vae.transformer.chunked import attn

    original = attn._apply_in_slab_abs_rope

    def changed(x, split, inverse, columns, **options):
        return original(x, split, inverse, change(columns), **options)

    with mock.patch.object(attn, "_apply_in_slab_abs_rope", changed):
        yield


def clamped_columns(columns: int) -> contextlib.AbstractContextManager:
    return _slabs(lambda found: found.clamp(0, columns - 1))


@contextlib.contextmanager
def no_halos() -> Iterator[None]:
    """Shifts the windows at the borders of every slab."""
    from ltx_core.model.video_vae.transformer.chunked import attn

    original = attn._run_w_chunked_residual

    def changed(x, scale, shift, packed, slabs, _halo, function):
        return original(x, scale, shift, packed, slabs, 0, function)

    with mock.patch.object(attn, "_run_w_chunked_residual", changed):
        yield


def _time_last(attn) -> list[Callable]:
    """Gives time the last columns of a head instead of the first."""
    t, h, w = attn.rope_inv_t, attn.rope_inv_h, attn.rope_inv_w
    size_t, size_h, size_w = attn.rope_dim_split
    by_axis = {"t": h, "h": w, "w": t}
    order = [s.swapped(attn, f"rope_inv_{axis}", inv) for axis, inv in by_axis.items()]
    return [s.swapped(attn, "rope_dim_split", (size_h, size_w, size_t)), *order]


def _gate_as_up(block) -> list[Callable]:
    gate, up = block.mlp.w_gate, block.mlp.w_up
    return [s.swapped(gate, "weight", up.weight), s.swapped(up, "weight", gate.weight)]


def _modulated_otherwise(block, rows: tuple[int, int, int, int]) -> Callable:
    """rows: of the attention's scale and shift and of the MLP's."""

    def modulation(given):
        found = [given[i] + block.scale_shift_table[i].view(1, 1, 1, 1, -1) for i in range(7)]
        return tuple(found[i] for i in rows)

    return lambda: mock.patch.object(block, "_modulation", modulation)


def _from_cells(decoder, pattern: str) -> list[Callable]:
    """Reads the channels of the upsamplers' projections in another order."""

    def reordered(up):
        p1, p2, p3 = up.stride
        return lambda y: rearrange(y, f"... ({pattern}) -> ... (c p1 p2 p3)", p1=p1, p2=p2, p3=p3)

    return [s.output_of(up.proj, reordered(up)) for up in decoder.upsamples]


def _patches(decoder, pattern: str) -> list[Callable]:
    """Reads the channels of a patch of pixels in another order, in front of the blocks and behind."""
    sizes = {"q": decoder.patch_size, "r": decoder.patch_size}
    return [
        s.input_of(decoder.conv_in_x_t, lambda x: rearrange(x, f"... (c r q) -> ... ({pattern})", **sizes)),
        s.output_of(decoder.conv_out, lambda x: rearrange(x, f"... ({pattern}) -> ... (c r q)", **sizes)),
    ]


@contextlib.contextmanager
def _removed(*weights: torch.Tensor) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for weight in weights:
            stack.enter_context(s.constant(weight, 0.0)())
        yield


def _of_attention(decoder) -> dict[str, list[Callable]]:
    found, inverse = attentions(decoder), ("rope_inv_t", "rope_inv_h", "rope_inv_w")
    return {
        "windows truncated at borders": [truncated_windows],
        "no RoPE": [s.constant(getattr(a, name), 0.0) for a in found for name in inverse],
        "RoPE of halves": [halves],
        "RoPE with time last": [manager for a in found for manager in _time_last(a)],
        "q not scaled": [s.swapped(a, "scale", 1.0) for a in found],
        "q scaled twice": [s.swapped(a, "scale", a.scale**2) for a in found],
        "q norm weights ignored": [s.constant(a.q_norm.weight, 1.0) for a in found],
        "k norm weights ignored": [s.constant(a.k_norm.weight, 1.0) for a in found],
    }


def of_maths(case) -> None:
    """Attaches mistakes of the decoder's maths, which every form and tiling shares."""
    decoder = case.module
    statistics, blocks = decoder.per_channel_statistics, _blocks(decoder).values()
    mean, std = (statistics.get_buffer(f"{name}-of-means") for name in ("mean", "std"))
    mistakes = _of_attention(decoder) | {
        "latent not de-normalised": [s.constant(mean, 0.0), s.constant(std, 1.0)],
        "gate and up swapped": [m for block in blocks for m in _gate_as_up(block)],
        "upsampler's channels last": _from_cells(decoder, "p1 p2 p3 c"),
        "upsampler's rows and columns swapped": _from_cells(decoder, "c p1 p3 p2"),
        "a patch's rows before its columns": _patches(decoder, "c q r"),
        "a patch's channels last": _patches(decoder, "r q c"),
        "scale and shift swapped": [_modulated_otherwise(b, (1, 0, 4, 3)) for b in decoder.diff_blocks],
        "MLP's scale and shift from rows 2 and 3": [_modulated_otherwise(b, (0, 1, 2, 3)) for b in decoder.diff_blocks],
        "timestep not times 1000": [s.swapped(decoder, "timestep_scale_multiplier", 1.0)],
        "sine before cosine": [s.swapped(decoder.t_embedder.time_proj, "flip_sin_to_cos", False)],
    }
    case.mistakes |= {name: s.broken(case, *managers) for name, managers in mistakes.items()}
    no_ghosts = s.broken(case, s.swapped(decoder, "_natten_trailing_pad_latent_frames", 0))
    # The shapes of some taps differ without them.
    case.mistakes["no ghost frames"] = lambda: case.run(decoder, case.inputs) | {"frames": no_ghosts()["frames"]}


def of_parts(case) -> None:
    """Attaches the removal of every sublayer."""
    for name, block in _blocks(case.module).items():
        attention, mlp = (block.attn.proj.weight, block.attn.proj.bias), (block.mlp.w_down.weight,)
        parts = {"attention": attention, "MLP": mlp}
        if hasattr(block, "context_proj"):
            parts["context"] = (block.context_proj.weight, block.context_proj.bias)
        for part, weights in parts.items():
            case.removed[f"{name} {part}"] = s.broken(case, lambda weights=weights: _removed(*weights))
