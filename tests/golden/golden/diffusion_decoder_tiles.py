"""Tiles of the diffusion video decoder: the reference's plan as plain numbers, and mistakes in tiled decoding."""

import contextlib
from collections.abc import Callable
from unittest import mock

import torch

from golden.diffusion_decoder import size_config

Tiles = dict[str, tuple[int, int]]
_AXES = ("frames", "height", "width")


def plan(decoder, latent: torch.Tensor, tiles: Tiles) -> dict[str, list[dict]]:
    """Returns the tiles of every axis: [first, end) on the grid of stage 4's input and in pixels or frames, and the
    lengths of the ramps in pixels or frames."""
    from ltx_core.model.video_vae import diffusion_tiling as tiling

    strides, stride = [tuple(up.stride) for up in decoder.upsamples], tuple(decoder.upsamples[3].stride)
    cells = tiling.stage4_thw_from_latent(strides, *latent.shape[2:])
    scale = tiling.stage4_to_pixel_scale_factors(stride, decoder.patch_size)
    options = {"min_tile_size": decoder.tile_min_sizes, "causal_temporal": False}
    found = {}
    for i, split in enumerate(size_config(tiles).to_splitters(scale, **options)):
        found[_AXES[i]] = []
        for cell in split(cells[i]).intervals:
            pixel = tiling._propagate_interval_through_upsample_hops(cell, [stride[i]], causal=i == 0)
            if i > 0:
                pixel = tiling._propagate_interval_through_upsample_hops(pixel, [decoder.patch_size], causal=False)
            found[_AXES[i]].append(
                {
                    "cells": [cell.start, cell.end],
                    "pixels": [pixel.start, pixel.end],
                    "ramps": [pixel.left_ramp, pixel.right_ramp],
                }
            )
    return found


def _origin_everywhere(original: Callable) -> Callable:
    def changed(*arguments, **options):
        feature, _, trailing, shape = original(*arguments, **options)
        return feature, True, trailing, shape

    return changed


def _no_ghosts(original: Callable) -> Callable:
    def changed(feature, tile, *, content_frames):
        feature, origin, _, shape = original(feature[:, :content_frames], tile, content_frames=content_frames)
        return feature, origin, False, shape

    return changed


def _width_first(original: Callable) -> Callable:
    def changed(tiles):
        place = lambda tile: (tile.out_coords[4].start, tile.out_coords[3].start)  # noqa: E731
        return [sorted(group, key=place) for group in original(tiles)]

    return changed


def _from_zero(original: Callable) -> Callable:
    return lambda length, left, right, **_: original(length, left, right, left_starts_from_0=True)


def _not_moved(original: Callable) -> Callable:
    """Puts later tiles a frame later."""

    def changed(interval, strides, causal):
        from dataclasses import replace

        found = original(interval, strides, causal)
        return replace(found, start=found.start + 1) if causal and interval.start else found

    return changed


@contextlib.contextmanager
def _noise_of_the_clip(decoder):
    """Cuts the noise of the tiles out of that of the clip."""
    original = decoder._decode_temporal_group_isolated
    kept = []

    def changed(tiles, feature, frames, _noise, timestep, shape, part, generator, **options):
        if not kept:
            kept.append(torch.randn(shape.to_torch_shape(), generator=generator))
        return original(tiles, feature, frames, kept[0], timestep, shape, part, generator, **options)

    with mock.patch.object(decoder, "_decode_temporal_group_isolated", changed):
        yield


def mistakes(decoder) -> dict[str, Callable[[], contextlib.AbstractContextManager]]:
    from ltx_core.model.video_vae import diffusion_tiling as tiling
    from ltx_core.model.video_vae import diffusion_video_decoder as module

    def replaced(owner, name: str, change: Callable) -> Callable[[], contextlib.AbstractContextManager]:
        return lambda: mock.patch.object(owner, name, change(getattr(owner, name)))

    return {
        "every tile drops its first frame": replaced(tiling, "slice_stage4_tile", _origin_everywhere),
        "no ghost frames in the last tiles": replaced(tiling, "slice_stage4_tile", _no_ghosts),
        "noise of columns before rows": replaced(module, "group_tiles_by_temporal_slice", _width_first),
        "noise of the clip": lambda: _noise_of_the_clip(decoder),
        "ramps from 0": replaced(tiling, "compute_trapezoidal_mask_1d", _from_zero),
        "later tiles a frame later": replaced(tiling, "_propagate_interval_through_upsample_hops", _not_moved),
        "not divided by the sum of the ramps": replaced(module, "masks_are_complementary", lambda _: lambda *_: True),
    }
