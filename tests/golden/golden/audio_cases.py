"""Audio VAE decoder, vocoder of 2.0, vocoder with bandwidth extension of 2.3 (with Lightricks' clamp)."""

import torch

from golden import configs, layouts, module_mistakes, redraw, reference
from golden.case import Case


def decode(vae, latent: torch.Tensor) -> dict:
    """`latent` is normalised [1, 8, T, 16]; the statistics apply to the packed channels c * 16 + m."""
    packed = latent.transpose(1, 2).flatten(2) * vae.latents_std + vae.latents_mean
    z = packed.unflatten(2, latent.shape[1::2]).transpose(1, 2)
    return {"tap.denormalised": z.contiguous(), "mel": vae.decode(z).sample}


def _audio_decoder() -> Case:
    meta = configs.ltx_2_3()
    meta["config"]["audio_vae"]["model"]["params"]["ddconfig"] |= {"ch": 8, "num_res_blocks": 2}
    vae = redraw.redraw(reference.audio_vae(meta["config"]), 51, gain=1.3)
    latent = torch.randn(1, 8, 5, 16, generator=torch.Generator().manual_seed(52))
    taps = {
        "decoder.conv_in": "conv_in",
        "decoder.mid": "mid",
        "decoder.up.2.upsample": "up.2",
        "decoder.up.1.upsample": "up.1",
    }
    taps = {k: v for k, v in taps.items() if k in dict(vae.named_modules())}
    case = Case(
        "audio_decoder", "audio_vae", vae, meta, {"latent": latent}, lambda m, data: decode(m, data["latent"]), taps, {}
    )
    weights = layouts.single_file_names("audio_vae", vae.state_dict())
    case.weights = {k: v for k, v in weights.items() if not k.startswith("encoder.")}
    module_mistakes.audio_decoder(case)
    return case


def _vocoder(name: str, meta: dict, seed: int, frames: int) -> Case:
    config = meta["config"]
    model = redraw.redraw_vocoder(reference.vocoder(config), config, seed)
    mel = torch.randn(1, 2, frames, 64, generator=torch.Generator().manual_seed(seed + 1)) - 0.5
    if "bwe" in config["vocoder"]:
        taps = {
            "vocoder.conv_in": "conv_pre",
            "vocoder.upsamplers.0": "ups.0",
            "vocoder.resnets.0": "resblocks.0",
            "vocoder.upsamplers.1": "ups.1",
            "vocoder": "base",
            "mel_stft": "bwe_mel",
            "bwe_generator": "residual",
            "resampler": "skip",
        }
    else:
        taps = {"conv_in": "conv_pre", "upsamplers.0": "ups.0", "resnets.0": "resblocks.0", "upsamplers.1": "ups.1"}
    case = Case(name, "vocoder", model, meta, {"mel": mel}, lambda m, data: {"waveform": m(data["mel"])}, taps, {})
    module_mistakes.vocoder(case)
    return case


def cases() -> list[Case]:
    return [
        _audio_decoder(),
        _vocoder("vocoder_2_3", configs.ltx_2_3(), 61, 7),
        _vocoder("vocoder_2_0", configs.ltx_2_0(), 62, 9),
    ]
