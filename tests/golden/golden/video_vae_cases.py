"""The convolutional video VAE decoder, 2.0 (reflect, residual) and 2.3 (zeros): normalised latent in, frames out."""

import torch

from golden import configs, layouts, module_mistakes, redraw, reference
from golden.case import Case


def decode(vae, latent: torch.Tensor) -> dict:
    """`latent` is in the transformer's normalised space; the statistics are applied first, as in Lightricks'
    decoder."""
    z = latent * vae.latents_std.view(1, -1, 1, 1, 1) + vae.latents_mean.view(1, -1, 1, 1, 1)
    return {"tap.denormalised": z, "frames": vae.decode(z).sample}


def taps(vae) -> dict[str, str]:
    """Returns a tap for every stage, numbered as in the single file: decoder.up_blocks.0 is the mid block."""
    found = {"decoder.conv_in": "conv_in", "decoder.mid_block": "up_blocks.0"}
    for i in range(len(vae.decoder.up_blocks)):
        found[f"decoder.up_blocks.{i}.upsamplers.0"] = f"up_blocks.{2 * i + 1}"
        found[f"decoder.up_blocks.{i}"] = f"up_blocks.{2 * i + 2}"
    return found


def _case(name: str, meta: dict, seed: int, shape: tuple[int, int, int]) -> Case:
    vae = redraw.redraw(
        reference.video_vae(meta["config"]), seed, gain=1.3, gains={"decoder.conv_out.conv.weight": 0.3}
    )
    latent = torch.randn(
        1, meta["config"]["vae"]["latent_channels"], *shape, generator=torch.Generator().manual_seed(seed + 1)
    )
    all_taps = taps(vae)
    late = [t for t in all_taps.values() if t.startswith("up_blocks.")][-3:]  # large; their errors show in `frames`
    kept = {m: t for m, t in all_taps.items() if t not in late}
    case = Case(
        name,
        "video_vae",
        vae,
        meta,
        {"latent": latent},
        lambda m, data: decode(m, data["latent"]),
        kept,
        {"latent_shape": shape},
    )
    weights = layouts.single_file_names("video_vae", vae.state_dict())
    case.weights = {k: v for k, v in weights.items() if not k.startswith("encoder.")}
    module_mistakes.video_decoder(case)
    return case


def cases() -> list[Case]:
    return [
        _case("video_decoder_2_3", configs.ltx_2_3(), 21, (2, 3, 2)),
        _case("video_decoder_2_0", configs.ltx_2_0(), 22, (2, 2, 3)),
    ]
