"""The latent upsamplers: x2 in space (plain, rational, per frame), x1.5 in space, x2 in time."""

import torch
from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel

from golden import redraw
from golden import sensitivity as s
from golden.case import Case

_CONFIG = {
    "_class_name": "LatentUpsampler",
    "in_channels": 8,
    "mid_channels": 32,
    "num_blocks_per_stage": 1,
    "dims": 3,
    "spatial_upsample": True,
    "temporal_upsample": False,
    "spatial_scale": 2.0,
    "rational_resampler": False,
}
_RATIONAL = {"rational_resampler": True}
_TINY = {  # with as many channels as the latents of models/tiny: seed, shape, changes
    "upsampler_x1_5": (83, (2, 4, 6), _RATIONAL | {"in_channels": 16, "spatial_scale": 1.5}),
    "upsampler_temporal_x2": (
        84,
        (3, 4, 3),
        {"in_channels": 16, "spatial_upsample": False, "temporal_upsample": True},
    ),
}


def _run(model, data: dict) -> dict:
    mean, std = (data[k].view(1, -1, 1, 1, 1) for k in ("mean", "std"))
    z = data["latent"] * std + mean
    return {"tap.denormalised": z, "latent": (model(z) - mean) / std}


def _mistakes(case: Case, config: dict) -> None:
    model, data = case.module, case.inputs
    norms = [m for m in model.modules() if isinstance(m, torch.nn.GroupNorm)]
    for name, module in model.named_modules():
        if name.endswith("conv2"):
            case.removed[name] = s.broken(case, s.removed(module))
    case.mistakes |= {
        "latent not de-normalised": s.broken(
            case, inputs={"mean": torch.zeros_like(data["mean"]), "std": torch.ones_like(data["std"])}
        ),
        "norms of 16 groups": s.broken(case, *[s.swapped(n, "num_groups", 16) for n in norms]),
        "norms without biases": s.broken(case, *[s.constant(n.bias, 0.0) for n in norms]),
    }
    if config["dims"] == 2:  # one norm over all frames

        def whole_clip(x: torch.Tensor, norm: torch.nn.GroupNorm) -> torch.Tensor:
            clip = torch.nn.functional.group_norm(
                x.transpose(0, 1)[None], norm.num_groups, norm.weight, norm.bias, norm.eps
            )
            return clip[0].transpose(0, 1)

        case.mistakes["norms over the clip"] = s.broken(
            case, *[s.swapped(n, "forward", lambda x, n=n: whole_clip(x, n)) for n in norms]
        )
    if config["temporal_upsample"]:
        case.mistakes["the last frame dropped"] = s.broken(
            case, s.output_of(model.upsampler, lambda x: x.roll(1, dims=2))
        )
    if config["spatial_scale"] == 1.5:
        case.mistakes["no filter"] = s.broken(
            case, s.output_of(model.upsampler.pixel_shuffle, lambda x: x), s.swapped(
                model.upsampler.blur_down, "forward", lambda x: x[:, :, ::2, ::2]
            )
        )


def redrawn(config: dict, seed: int) -> LTX2LatentUpsamplerModel:
    model = LTX2LatentUpsamplerModel(
        in_channels=config["in_channels"],
        mid_channels=config["mid_channels"],
        num_blocks_per_stage=config["num_blocks_per_stage"],
        dims=config["dims"],
        spatial_upsample=config["spatial_upsample"],
        temporal_upsample=config["temporal_upsample"],
        rational_spatial_scale=config["spatial_scale"],
        use_rational_resampler=config["rational_resampler"],
    ).eval()
    return redraw.redraw(model, seed, gain=1.3)


def _case(name: str, seed: int, shape: tuple[int, int, int], **changes) -> Case:
    config = _CONFIG | changes
    model = redrawn(config, seed)
    gen = torch.Generator().manual_seed(seed + 1)
    channels = config["in_channels"]
    inputs = {
        "latent": torch.randn(1, channels, *shape, generator=gen),
        "mean": (0.3 * torch.randn(channels, generator=gen)).bfloat16().float(),
        "std": (0.7 + 0.6 * torch.rand(channels, generator=gen)).bfloat16().float(),
    }
    taps = {"initial_activation": "initial"} if config["dims"] == 3 else {}
    for i in range(config["num_blocks_per_stage"] if config["dims"] == 3 else 0):
        taps |= {f"res_blocks.{i}": f"res_blocks.{i}", f"post_upsample_res_blocks.{i}": f"post_upsample_res_blocks.{i}"}
    case = Case(
        name, "latent_upsampler", model, {"config": config, "model_version": ""}, inputs, _run, taps, {"shape": shape}
    )
    _mistakes(case, config)
    return case


def tiny(name: str) -> LTX2LatentUpsamplerModel:
    """Returns the module of a case for the latents of models/tiny."""
    seed, _, changes = _TINY[name]
    return redrawn(_CONFIG | changes, seed)


def cases() -> list[Case]:
    return [
        _case("upsampler_x2", 81, (3, 3, 4)),
        _case("upsampler_x2_rational", 82, (2, 3, 4), **_RATIONAL, num_blocks_per_stage=2),
        *[_case(name, seed, shape, **changes) for name, (seed, shape, changes) in _TINY.items()],
        _case("upsampler_x2_frames", 85, (3, 3, 4), dims=2, mid_channels=64),
    ]
