"""One part of the model on both sides: an input file for model_bench, and a call of diffusers' module on the same
inputs."""

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
from safetensors.torch import load_file

from bench import machine, models, programs


def _transformer(model, dtype: torch.dtype, grid: tuple[int, int, int]) -> tuple[dict, Callable[[], dict]]:
    frames, height, width = grid
    audio_tokens = round((8 * (frames - 1) + 1) / 24 * 25)
    gen = torch.Generator().manual_seed(5)
    c = model.config
    data = {
        "video": torch.randn(frames * height * width, c.in_channels, generator=gen),
        "audio": torch.randn(audio_tokens, c.audio_in_channels, generator=gen),
        "video_context": torch.randn(programs.TEXT_ROWS, c.cross_attention_dim, generator=gen),
        "audio_context": torch.randn(programs.TEXT_ROWS, c.audio_cross_attention_dim, generator=gen),
        "sigma": torch.tensor([0.725]),
    }
    video_coords = model.rope.prepare_video_coords(1, frames, height, width, "cpu", fps=24.0).float()
    audio_coords = model.audio_rope.prepare_audio_coords(1, audio_tokens, "cpu").float()
    data["video_positions"] = video_coords[0].mean(-1).contiguous()
    data["audio_positions"] = audio_coords[0].mean(-1).contiguous()

    def run() -> dict:
        timestep = data["sigma"] * 1000
        result = model(
            hidden_states=data["video"][None].to(dtype),
            audio_hidden_states=data["audio"][None].to(dtype),
            encoder_hidden_states=data["video_context"][None].to(dtype),
            audio_encoder_hidden_states=data["audio_context"][None].to(dtype),
            timestep=timestep,
            sigma=timestep,
            video_coords=video_coords,
            audio_coords=audio_coords,
            use_cross_timestep=True,
        )
        return {"video": result.sample[0], "audio": result.audio_sample[0]}

    return data, run


def _video_decoder(vae, dtype: torch.dtype, shape: tuple[int, int, int]) -> tuple[dict, Callable[[], dict]]:
    latent = torch.randn(*shape, vae.config.latent_channels, generator=torch.Generator().manual_seed(6))

    def run() -> dict:
        z = latent.permute(3, 0, 1, 2)[None].to(dtype)
        z = z * vae.latents_std.to(dtype).view(1, -1, 1, 1, 1) + vae.latents_mean.to(dtype).view(1, -1, 1, 1, 1)
        return {"frames": vae.decode(z).sample[0].permute(1, 2, 3, 0)}

    return {"latent": latent}, run


def _diffusion_decoder(model, dtype: torch.dtype, shape: tuple[int, int, int]) -> tuple[dict, Callable[[], dict]]:
    from diffusers.models.autoencoders import ltx2_diffusion_decoder

    draw = torch.Generator().manual_seed(10)
    latent = torch.randn(*shape, model.config.latent_channels, generator=draw)
    noise = torch.randn(3, 8 * (shape[0] - 1) + 1, 32 * shape[1], 32 * shape[2], generator=draw)
    given = lambda *_, dtype, **__: noise[None].to(dtype)  # noqa: E731

    def run() -> dict:
        z = latent.permute(3, 0, 1, 2)[None].to(dtype)
        z = z * model.latents_std.to(dtype).view(1, -1, 1, 1, 1) + model.latents_mean.to(dtype).view(1, -1, 1, 1, 1)
        with mock.patch.object(ltx2_diffusion_decoder, "randn_tensor", given):
            return {"frames": model.decode(z).sample[0].permute(1, 2, 3, 0)}

    return {"latent": latent, "noise": noise}, run


def _video_encoder(vae, dtype: torch.dtype, shape: tuple[int, int, int]) -> tuple[dict, Callable[[], dict]]:
    frames, height, width = 8 * (shape[0] - 1) + 1, 32 * shape[1], 32 * shape[2]
    pixels = torch.rand(frames, height, width, 3, generator=torch.Generator().manual_seed(8)) * 2 - 1

    def run() -> dict:
        z = vae.encode(pixels.permute(3, 0, 1, 2)[None].to(dtype)).latent_dist.mode()
        z = (z - vae.latents_mean.to(dtype).view(1, -1, 1, 1, 1)) / vae.latents_std.to(dtype).view(1, -1, 1, 1, 1)
        return {"latent": z[0].permute(1, 2, 3, 0)}

    return {"pixels": pixels}, run


def _upsampler(model, dtype: torch.dtype, shape: tuple[int, int, int]) -> tuple[dict, Callable[[], dict]]:
    latent = torch.randn(*shape, model.config.in_channels, generator=torch.Generator().manual_seed(9))
    mean, std = (x.to(dtype).view(1, -1, 1, 1, 1) for x in model.latent_statistics)

    def run() -> dict:
        z = latent.permute(3, 0, 1, 2)[None].to(dtype) * std + mean
        return {"upsampled": ((model(z) - mean) / std)[0].permute(1, 2, 3, 0)}

    return {"latent": latent}, run


def _gemma(model, dtype: torch.dtype, shape: tuple[int, int]) -> tuple[dict, Callable[[], dict]]:
    ids = torch.randint(8, 1000, shape, generator=torch.Generator().manual_seed(7))

    def run() -> dict:  # without the output head, as in the pipeline
        # Gemma-4's is called without its towers, as in Lightricks' encoder.
        whole = model.model.language_model if hasattr(model.config, "gemma_version") else model.model
        result = whole(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True)
        return {"hidden": result.hidden_states[-1].flatten(0, 1)}

    return {"input_ids": ids}, run


_MAKERS = {
    "transformer": _transformer,
    "video_decoder": _video_decoder,
    "diffusion_decoder": _diffusion_decoder,
    "video_encoder": _video_encoder,
    "upsampler": _upsampler,
    "gemma": _gemma,
}


def cases(size: str) -> list[tuple[str, str, Callable, object]]:
    """Returns (name, part, maker, argument) tuples."""
    return [(name, part, _MAKERS[part], shape) for name, part, shape in programs.cases(size)]


MODULE = {
    "transformer": "transformer",
    "video_decoder": "video_vae",
    "diffusion_decoder": "diffusion_decoder",
    "video_encoder": "video_vae",
    "upsampler": "latent_upsampler",
    "gemma": "gemma",
}


def difference(ours: dict, theirs: dict) -> float:
    """Returns the largest relative difference of any output, in the L2 norm."""
    found = 0.0
    for name, value in theirs.items():
        value = value.float().reshape(ours[name].shape)
        found = max(found, ((ours[name].float() - value).norm() / value.norm()).item())
    return found


def compare(
    program: Path, folder: Path, part: str, make, argument, module, precision: str, threads: int, runs: int
) -> dict:
    """Returns medians of `runs` alternating runs, after one uncounted run of each."""
    dtype = torch.float32 if precision == "f32" else torch.bfloat16
    data, run = make(module, dtype, argument)
    inputs = folder / "inputs.safetensors"
    models.safetensors_file.save(data, inputs, {})
    ours = programs.Ours(program, part, precision, threads, inputs, programs.written(folder))
    ours.run()
    theirs = run()
    outputs = folder / "outputs.safetensors"
    ours.save(outputs)
    line = {"gflop": ours.gflop, "difference": difference(load_file(outputs), theirs)}
    outputs.unlink()
    del theirs
    times = []
    for _ in range(runs):
        machine.settle()
        mine = ours.run()
        machine.settle()
        times.append((mine, machine.timed(run)))
    for side, name in enumerate(("ours", "diffusers")):
        line[name] = machine.median(t[side][0] for t in times)
        line[name + "_processor"] = machine.median(t[side][1] for t in times)
    ours.close()
    return line
