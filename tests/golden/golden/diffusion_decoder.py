"""Lightricks' diffusion video decoder in float32: built, with its tensors named as in the released file, and run.

Neighborhood attention is the reference's own fallback in plain torch, so natten is not needed.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from unittest import mock

import torch

from golden import lightricks, redraw

_RELEASED = {  # parts of the reference's names, and of the file's
    "t_embedder.timestep_embedder.linear_1.": "t_embedder.mlp.0.",
    "t_embedder.timestep_embedder.linear_2.": "t_embedder.mlp.2.",
}
GATES = ("gate_msa", "gate_mlp", "gate_ctx")


def build(meta: dict) -> torch.nn.Module:
    """Returns the decoder in its combined form, with uninitialised weights."""
    decoder = lightricks.build("video_decoder", meta)
    set_form(decoder, chunked=False)
    return decoder


def set_form(decoder: torch.nn.Module, chunked: bool) -> None:
    """combined: attention over the whole width. chunked: the default of Lightricks' pipelines, in four slabs."""
    from ltx_core.model.video_vae.transformer import apply, config

    kind = config.DiffVAEBlockKind.CHUNKED if chunked else config.DiffVAEBlockKind.COMBINED
    recipe = config.DiffVAEConfig(
        block=kind,
        w_chunks=4 if chunked else 1,
        natten_backend=None,
        attention=config.NAttentionKind.EAGER_SDPA,
        compile_blocks=False,
        compile_det_stages=False,
    )
    with mock.patch.object(apply, "warn_no_natten", lambda **_: None):
        apply.apply_diffvae_config(decoder, recipe)


def redrawn(meta: dict, seed: int, mean: torch.Tensor, std: torch.Tensor) -> torch.nn.Module:
    """mean, std: the statistics of the latent."""
    gains = {"conv_out.weight": 0.5, "conv_out.bias": 0.3}
    decoder = redraw.redraw(build(meta), seed, gains=gains)
    statistics = decoder.per_channel_statistics
    statistics.get_buffer("mean-of-means").copy_(mean)
    statistics.get_buffer("std-of-means").copy_(std)
    return decoder


def tensors(decoder: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the weights under the names of a released file, without a prefix: q, k and v are one tensor, and type_emb
    is there, which this decoder does not read."""
    found = {}
    for name, tensor in decoder.state_dict().items():
        for ours, released in _RELEASED.items():
            name = name.replace(ours, released)
        if re.search(r"\.qkv\.to_[kv]\.", name):
            continue
        if ".qkv.to_q." in name:
            parts = [decoder.get_parameter(name.replace("to_q", f"to_{letter}")) for letter in "qkv"]
            name, tensor = name.replace(".to_q.", "."), torch.cat([p.detach() for p in parts])
        found[name if name.startswith("per_channel_statistics.") else f"decoder.{name}"] = tensor
    channels = decoder.conv_in.in_channels
    found["decoder.type_emb"] = torch.linspace(-1, 1, channels).bfloat16().float()
    return found


def load(decoder: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Loads `weights` as Lightricks' loader does, strictly but for type_emb."""
    from ltx_core.model.video_vae import model_configurator

    gates = {k.removeprefix("decoder."): v for k, v in weights.items() if k.endswith(GATES)}
    rules, state = model_configurator._build_diffusion_vae_decoder_sd_ops(gates), {}
    for name, tensor in weights.items():
        key = rules.apply_to_key(name)
        if key is not None and key != "type_emb":
            state |= {result.new_key: result.new_value for result in rules.apply_to_key_value(key, tensor)}
    decoder.load_state_dict(state, strict=True)


def size_config(tiles: dict[str, tuple[int, int]]):
    """tiles: (size, overlap) per axis, in frames or pixels; axes that are missing are whole."""
    from ltx_core.tiling import DimensionSizeConfig, TileSizeConfig

    return TileSizeConfig(**{axis: DimensionSizeConfig(tile_size=s, overlap=o) for axis, (s, o) in tiles.items()})


def chunks(decoder, latent: torch.Tensor, seed: int, tiles: dict[str, tuple[int, int]]) -> list[torch.Tensor]:
    """Returns the chunks [1, 3, f, H, W] in which frames leave."""
    generator = torch.Generator().manual_seed(seed)
    return [c.clone() for c in decoder.tiled_decode(latent, size_config(tiles), generator=generator)]


def decode(decoder, latent: torch.Tensor, seed: int, tiles: dict[str, tuple[int, int]] | None = None) -> torch.Tensor:
    """Returns [1, 3, F, H, W], not clamped. A generator of this seed draws the noise."""
    if tiles is None:
        return decoder(latent, generator=torch.Generator().manual_seed(seed))
    return torch.cat(chunks(decoder, latent, seed, tiles), 2)


@contextlib.contextmanager
def chunked(decoder) -> Iterator[None]:
    set_form(decoder, chunked=True)
    try:
        yield
    finally:
        set_form(decoder, chunked=False)


def _observed(module: torch.nn.Module, method: str, keep: Callable[[torch.Tensor], None]):
    original = getattr(module, method)

    def observed(*arguments, **options):
        output = original(*arguments, **options)
        keep(output)
        return output

    return mock.patch.object(module, method, observed)


@contextlib.contextmanager
def taps(decoder, strides: dict[str, int]) -> Iterator[dict[str, torch.Tensor]]:
    """Fills a dictionary while the combined form decodes a whole clip in one step: [T, H, W, C], every Nth place in
    time, row and column for a tap of stride N, and `modulation` [7, C]."""
    found = {}

    def keep(name: str) -> Callable[[torch.Tensor], None]:
        n = strides.get(name, 1)
        return lambda value: found.update({name: value[0, ::n, ::n, ::n].clone(memory_format=torch.contiguous_format)})

    with contextlib.ExitStack() as stack:
        stack.enter_context(_observed(decoder.conv_in, "forward", keep("conv_in")))
        for i, up in enumerate(decoder.upsamples):
            stack.enter_context(_observed(up, "forward", keep(f"stage.{i}")))
        modulation = lambda rows: found.update(modulation=torch.cat([r.flatten(1) for r in rows]))  # noqa: E731
        stack.enter_context(_observed(decoder.shared_adaln, "forward", modulation))
        stack.enter_context(_observed(decoder.conv_in_x_t, "forward", keep("conv_in_x_t")))
        for i, block in enumerate(decoder.diff_blocks):
            stack.enter_context(_observed(block, "forward_combined", keep(f"block.{i}")))
        yield found
