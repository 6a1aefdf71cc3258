"""models/tiny-2.5: the modules of the committed random-weight LTX-2.5, rebuilt from their seeds, in the layout of the
files that Lightricks released."""

import json
from pathlib import Path

import torch

from golden import configs, diffusion_decoder, gemma4_cases, layouts, lightricks, redraw, reference, safetensors_file
from golden import upsampler_cases

SEED = 20260816
FOLDER = Path(__file__).resolve().parents[3] / "models" / "tiny-2.5"
FILES = {
    "transformer": "diffusion_models/ltx-2.5-tiny-transformer.safetensors",
    "text_encoder": "text_encoders/gemma4-tiny-with-proj-ltx-2.5.safetensors",
    "video_vae": "vae/ltx-2.5-tiny-video-vae-conv.safetensors",
    "diffusion_vae": "vae/ltx-2.5-tiny-video-vae.safetensors",
    "audio_vae": "vae/ltx-2.5-tiny-audio-vae.safetensors",
    "upsampler": "latent_upscale_models/ltx-2.5-tiny-latent-spatial-upscaler-x2.safetensors",
    "duration_head": "model_patches/ltx-2.5-tiny-duration-head.safetensors",
}
UPSAMPLER = {
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


def text_config() -> dict:
    """Returns Gemma-4's text_config for the vocabulary of tokenizer_json."""
    vocabulary = json.loads(gemma4_cases.tokenizer_json())
    ids = [*vocabulary["model"]["vocab"].values(), *(t["id"] for t in vocabulary["added_tokens"])]
    return configs.GEMMA4 | {"vocab_size": (max(ids) + 16) // 16 * 16, "sliding_window": 64}


def duration_config(config: dict) -> dict:
    widths = {k: config["transformer"][k] for k in ("cross_attention_dim", "audio_cross_attention_dim")}
    head = {"pooler_hidden_dim": 16, "num_queries": 1, "num_pooler_heads": 2, "mlp_hidden": 16}
    return {"transformer": widths, "duration_head": head}


def _video_vae(config: dict) -> torch.nn.Module:
    decoder = {"decoder.conv_out.conv.weight": 0.3}
    return redraw.redraw(reference.video_vae(config), SEED + 2, gain=1.3, gains=decoder)


def diffusion_decoder_of(video_vae: torch.nn.Module) -> torch.nn.Module:
    """Returns the redrawn diffusion decoder with the statistics of video_vae. Needs Lightricks' code."""
    meta = configs.ltx_2_5_diffusion()
    return diffusion_decoder.redrawn(meta, SEED + 8, video_vae.latents_mean, video_vae.latents_std)


def modules() -> dict[str, torch.nn.Module]:
    """Returns every module with redrawn weights. Needs Lightricks' code."""
    from ltx_core.duration_head.model_configurator import DurationHeadConfigurator

    meta, text = configs.ltx_2_5(), text_config()
    config, states = meta["config"], text["num_hidden_layers"] + 1
    video_vae = _video_vae(config)
    return {
        "transformer": redraw.redraw(lightricks.build("transformer", meta), SEED),
        "connectors": redraw.redraw(reference.connectors(config, states, text["hidden_size"]), SEED + 1),
        "video_vae": video_vae,
        "diffusion_decoder": diffusion_decoder_of(video_vae),
        "audio_vae": redraw.redraw(reference.audio_vae(config), SEED + 3, gain=1.3),
        "vocoder": redraw.redraw_vocoder(reference.vocoder(config), config, SEED + 4),
        "text_encoder": gemma4_cases.redrawn_encoder(text, SEED + 5),
        "upsampler": upsampler_cases.redrawn(UPSAMPLER, SEED + 6),
        "duration_head": redraw.redraw(
            DurationHeadConfigurator.from_metadata({"config": duration_config(config)}).eval(), SEED + 7
        ),
    }


def _named(kind: str, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    state = layouts.single_file_names(kind, module.state_dict())
    return {layouts.PREFIX[kind] + key: value.bfloat16() for key, value in state.items()}


def files(parts: dict[str, torch.nn.Module]) -> dict[str, tuple[dict[str, torch.Tensor], dict[str, str]]]:
    """Returns the tensors and the metadata of each of FILES, given the result of modules()."""
    meta = configs.ltx_2_5()
    config, version = meta["config"], {"model_version": meta["model_version"]}

    def metadata(*sections: str, config: dict = config) -> dict[str, str]:
        own = {section: config[section] for section in sections}
        return version | {"config": json.dumps(own)}

    text, connectors = configs.gemma4_file(text_config()), _named("connectors", parts["connectors"])
    projection = {k: v for k, v in connectors.items() if k.startswith("text_embedding_projection.")}
    source = {"ltx_version": "2.5.0", "gemma_version": text["gemma_version"]}
    absent = {section: None for section in ("vae", "audio_vae", "vocoder")}
    transformer = {section: config[section] for section in ("transformer", "scheduler")} | absent
    tokenizer = torch.tensor(list(gemma4_cases.tokenizer_json().encode()), dtype=torch.uint8)
    vae = {k.removeprefix("vae."): v for k, v in _named("video_vae", parts["video_vae"]).items()}
    diffusion = {k: v.bfloat16() for k, v in diffusion_decoder.tensors(parts["diffusion_decoder"]).items()}
    diffusion |= {k: v for k, v in vae.items() if not k.startswith("decoder.")}
    return {
        FILES["transformer"]: (
            _named("transformer", parts["transformer"]) | {k: v for k, v in connectors.items() if k not in projection},
            version | {"config": json.dumps(transformer), "gemma_source_checkpoint": json.dumps(source)},
        ),
        FILES["text_encoder"]: (
            {k: v.bfloat16() for k, v in gemma4_cases.flat_weights(parts["text_encoder"]).items()}
            | projection
            | {"tokenizer_json": tokenizer},
            {"format": "pt", "gemma_config": json.dumps(text)},
        ),
        FILES["video_vae"]: (vae, metadata("vae")),
        FILES["diffusion_vae"]: (diffusion, metadata("vae", config=configs.ltx_2_5_diffusion()["config"])),
        FILES["audio_vae"]: (
            _named("audio_vae", parts["audio_vae"]) | _named("vocoder", parts["vocoder"]),
            metadata("audio_vae", "vocoder"),
        ),
        FILES["upsampler"]: (_named("latent_upsampler", parts["upsampler"]), {"config": json.dumps(UPSAMPLER)}),
        FILES["duration_head"]: (
            _named("duration_head", parts["duration_head"]),
            version | {"config": json.dumps(duration_config(config))},
        ),
    }


def decoder_of_diffusion() -> torch.nn.Module:
    """Returns the diffusion decoder of modules()."""
    return diffusion_decoder_of(_video_vae(configs.ltx_2_5()["config"]))


def write(folder: Path) -> None:
    for name, (tensors, metadata) in files(modules()).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        safetensors_file.save(tensors, folder / name, metadata)


def encode(encoder, prompt: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns stacked hidden states [1, 1024, width, states] and the mask [1, 1024], as Lightricks' encoder does."""
    encoder.tokenizer = gemma4_cases.reference_tokenizer(max_length=1024)
    (states, mask), *_ = encoder.encode([prompt])
    return torch.stack(states, -1), mask
