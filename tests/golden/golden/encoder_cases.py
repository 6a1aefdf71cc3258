"""The encoders of both VAEs: pixels or log-mel rows in, normalised latent out."""

import torch

from golden import configs, layouts, redraw, reference
from golden import sensitivity as s
from golden.case import Case


def encode_video(vae, pixels: torch.Tensor) -> dict:
    mean, std = (t.view(1, -1, 1, 1, 1) for t in (vae.latents_mean, vae.latents_std))
    return {"latent": (vae.encode(pixels).latent_dist.mode() - mean) / std}


def _video_taps(vae) -> dict[str, str]:
    """Numbered as in the single file: resnets of level i are down_blocks.2i, its downsampler is down_blocks.2i+1."""
    found = {"encoder.conv_in": "conv_in", "encoder.mid_block": f"down_blocks.{2 * len(vae.encoder.down_blocks)}"}
    for i, block in enumerate(vae.encoder.down_blocks):
        found[f"encoder.down_blocks.{i}.resnets.{len(block.resnets) - 1}"] = f"down_blocks.{2 * i}"
        found[f"encoder.down_blocks.{i}.downsamplers.0"] = f"down_blocks.{2 * i + 1}"
    return found


def _video_mistakes(case: Case) -> None:
    encoder = case.module.encoder
    convs = [m for m in encoder.modules() if isinstance(m, torch.nn.Conv3d)]
    managers = []
    for conv in convs:
        managers += [
            s.swapped(conv, "padding_mode", "reflect"),
            s.swapped(conv, "_reversed_padding_repeated_twice", [p for p in conv.padding[::-1] for _ in (0, 1)]),
        ]
    if min(case.inputs["pixels"].shape[-2:]) > 32:  # a single cell has nothing to reflect
        case.mistakes["spatial padding reflect"] = s.broken(case, *managers)
    case.mistakes |= {
        "not causal in time": s.broken(case, s.swapped(encoder, "is_causal", False)),
        "rows and columns of patches swapped": s.broken(
            case, s.input_of(encoder.conv_in, lambda x: x.unflatten(1, (-1, 4, 4)).transpose(2, 3).flatten(1, 3))
        ),
        "latent not normalised": s.broken(
            case, s.constant(case.module.latents_std, 1.0), s.constant(case.module.latents_mean, 0.0)
        ),
    }
    for name, module in encoder.named_modules():
        if name.endswith(("conv2", "downsamplers.0.conv")):
            case.removed[name] = s.broken(case, s.removed(module))


def _video(name: str, meta: dict, seed: int, shape: tuple[int, int, int]) -> Case:
    vae = redraw.redraw(reference.video_vae(meta["config"]), seed, gain=1.3)
    gen = torch.Generator().manual_seed(seed + 1)
    pixels = (torch.rand(1, 3, *shape, generator=gen) * 2 - 1).bfloat16().float()
    taps = _video_taps(vae)
    early = ("conv_in", "down_blocks.0", "down_blocks.1")  # large; their errors show in later taps
    case = Case(
        name,
        "video_vae",
        vae,
        meta,
        {"pixels": pixels},
        lambda m, data: encode_video(m, data["pixels"]),
        {m: t for m, t in taps.items() if t not in early},
    )
    weights = layouts.single_file_names("video_vae", vae.state_dict())
    case.weights = {k: v for k, v in weights.items() if not k.startswith("decoder.")}
    _video_mistakes(case)
    return case


def _narrow() -> dict:
    """A 2.3 whose encoder starts narrower than the latent."""
    meta = configs.ltx_2_3()
    blocks = []
    for name, multiplier in (("space", 2), ("time", 1), ("all", 1), ("all", 1)):
        blocks += [["res_x", {"num_layers": 1}], [f"compress_{name}_res", {"multiplier": multiplier}]]
    meta["config"]["vae"] |= {"encoder_base_channels": 4, "encoder_blocks": [*blocks, ["res_x", {"num_layers": 1}]]}
    return meta


def encode_audio(vae, mel: torch.Tensor) -> dict:
    """The statistics apply to the packed channels c * 16 + m."""
    mean = vae.encode(mel).latent_dist.mode().transpose(1, 2).flatten(2)
    return {"latent": (mean - vae.latents_mean) / vae.latents_std}


def _audio() -> Case:
    meta = configs.ltx_2_3()
    meta["config"]["audio_vae"]["model"]["params"]["ddconfig"] |= {"ch": 8, "num_res_blocks": 2}
    vae = redraw.redraw(reference.audio_vae(meta["config"]), 95, gain=1.3)
    mel = torch.randn(1, 2, 18, 64, generator=torch.Generator().manual_seed(96)) - 0.5
    taps = {"encoder.conv_in": "conv_in", "encoder.mid.block_2": "mid"}
    for i in (0, 1):
        taps[f"encoder.down.{i}.downsample"] = f"down.{i}"
    case = Case(
        "audio_encoder", "audio_vae", vae, meta, {"mel": mel}, lambda m, data: encode_audio(m, data["mel"]), taps
    )
    weights = layouts.single_file_names("audio_vae", vae.state_dict())
    case.weights = {k: v for k, v in weights.items() if not k.startswith("decoder.")}
    convs = [m for m in vae.encoder.modules() if type(m).__name__ == "LTX2AudioCausalConv2d"]

    def end(conv):
        left, right, top, bottom = conv.padding
        return s.swapped(conv, "padding", (left, right, bottom, top))

    case.mistakes |= {
        "padding at the end of time": s.broken(case, *[end(c) for c in convs]),
        "latent not normalised": s.broken(case, s.constant(vae.latents_std, 1.0), s.constant(vae.latents_mean, 0.0)),
    }
    for name, module in vae.encoder.named_modules():
        if name.endswith(("conv2", "downsample")):
            case.removed[name] = s.broken(case, s.removed(module))
    return case


def _sound(samples: int, seed: int) -> torch.Tensor:
    """Returns [2, samples]: tones, and noise 40 dB below them."""
    t = torch.arange(samples, dtype=torch.float64) / 16000
    noise = torch.randn(2, samples, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    tones = torch.stack([torch.sin(2 * torch.pi * 440 * t), torch.sin(2 * torch.pi * (300 + 4000 * t) * t)])
    return (0.5 * tones + 0.005 * noise).bfloat16().float()


def _mel() -> Case:
    import torchaudio  # needed only by this case

    def run(_module, data):
        transform = torchaudio.transforms.MelSpectrogram(
            sample_rate=16000,
            n_fft=1024,
            win_length=1024,
            hop_length=160,
            f_min=0.0,
            f_max=8000.0,
            n_mels=64,
            window_fn=torch.hann_window,
            center=True,
            pad_mode="reflect",
            power=1.0,
            mel_scale="slaney",
            norm="slaney",
        )
        mel = transform(data["sound"])
        return {"mel": mel.clamp(min=1e-5).log().transpose(1, 2).contiguous(), "filters": transform.mel_scale.fb.T.contiguous()}

    return Case("mel_front_end", "", None, {}, {"sound": _sound(5000, 97)}, run)


def _resample() -> Case:
    import torchaudio

    rates = [(44100, 16000), (48000, 16000), (22050, 16000), (8000, 16000), (11025, 16000), (16001, 16000)]

    def run(_module, data):
        return {f"{a}_{b}": torchaudio.functional.resample(data["sound"], a, b) for a, b in rates}

    return Case("resample", "", None, {}, {"sound": _sound(3001, 98)}, run, parameters={"rates": rates})


def cases() -> list[Case]:
    return [
        _video("video_encoder_2_3", configs.ltx_2_3(), 91, (17, 64, 96)),
        _video("video_encoder_2_0", configs.ltx_2_0(), 92, (9, 96, 64)),
        _video("video_encoder_narrow", _narrow(), 93, (9, 32, 32)),
        _audio(),
        _mel(),
        _resample(),
    ]
