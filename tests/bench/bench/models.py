"""A mid-size random LTX-2.3, or LTX-2.5, that fits a small machine: one file in Lightricks' layout, loaded by both sides.

Its structure is that of the released model (block lists, head widths, number of guidance terms); widths and layers are
smaller.
"""

import copy
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "golden"))
from bench.programs import DIFFUSION_FILE, MODEL_FILE, UPSAMPLER_FILE  # noqa: E402
from golden import configs, layouts, redraw, reference, safetensors_file, tiny  # noqa: E402

# Transformer blocks, heads of 128 (video) and of 64 (audio), base width of the video decoder, Gemma's layers and heads
# of 256, widest channels of the vocoder. Those of LTX-2.5 have its transformer and Gemma-4, whose full layers have heads
# of 512.
SIZES = {
    "tiny": {"layers": 1, "heads": 2, "decoder": 16, "gemma_layers": 2, "gemma_heads": 2, "vocoder": 32},
    "mid": {"layers": 6, "heads": 8, "decoder": 64, "gemma_layers": 12, "gemma_heads": 4, "vocoder": 256},
}
SIZES |= {f"{name}-2.5": sizes for name, sizes in SIZES.items()}
_ENCODER_BLOCKS = [  # the released 2.3's
    ["res_x", {"num_layers": 4}],
    ["compress_space_res", {"multiplier": 2}],
    ["res_x", {"num_layers": 6}],
    ["compress_time_res", {"multiplier": 2}],
    ["res_x", {"num_layers": 4}],
    ["compress_all_res", {"multiplier": 2}],
    ["res_x", {"num_layers": 2}],
    ["compress_all_res", {"multiplier": 1}],
    ["res_x", {"num_layers": 2}],
]
_DECODER_BLOCKS = [  # the released 2.3's
    ["res_x", {"num_layers": 4}],
    ["compress_space", {"multiplier": 2}],
    ["res_x", {"num_layers": 6}],
    ["compress_time", {"multiplier": 2}],
    ["res_x", {"num_layers": 4}],
    ["compress_all", {"multiplier": 1}],
    ["res_x", {"num_layers": 2}],
    ["compress_all", {"multiplier": 2}],
    ["res_x", {"num_layers": 2}],
]
_UPSAMPLES = ([1, 2, 2], [2, 1, 1], [2, 2, 2], [2, 2, 2])  # the diffusion decoder's


def is_2_5(size: str) -> bool:
    return size.endswith("-2.5")


def config(size: str) -> dict:
    """Returns {"config", "model_version"} as in the metadata of a single file."""
    s = SIZES[size]
    meta = copy.deepcopy(configs.ltx_2_5() if is_2_5(size) else configs.ltx_2_3())
    width, audio_width = 128 * s["heads"], 64 * s["heads"]
    meta["config"]["transformer"] |= {
        "in_channels": 128,
        "out_channels": 128,
        "num_layers": s["layers"],
        "num_attention_heads": s["heads"],
        "attention_head_dim": 128,
        "cross_attention_dim": width,
        "audio_num_attention_heads": s["heads"],
        "audio_attention_head_dim": 64,
        "audio_cross_attention_dim": audio_width,
        "caption_channels": gemma_config(size)["hidden_size"],
        "connector_num_attention_heads": s["heads"],
        "connector_attention_head_dim": 128,
        "audio_connector_num_attention_heads": s["heads"],
        "audio_connector_attention_head_dim": 64,
    }
    vae = {
        "latent_channels": 128,
        "encoder_base_channels": 128,  # equal to the latent's, as both readers assume
        "encoder_blocks": _ENCODER_BLOCKS,
        "decoder_base_channels": s["decoder"],
        "decoder_blocks": _DECODER_BLOCKS,
    }
    meta["config"]["vae"] |= vae
    meta["config"]["audio_vae"]["model"]["params"]["ddconfig"]["ch"] = s["vocoder"] // 8
    meta["config"]["vocoder"]["vocoder"]["upsample_initial_channel"] = s["vocoder"]
    meta["config"]["vocoder"]["bwe"]["upsample_initial_channel"] = s["vocoder"] // 2
    return meta


def gemma_config(size: str) -> dict:
    """Returns Gemma's text_config."""
    s = SIZES[size]
    if is_2_5(size):
        layers = s["gemma_layers"]
        full = {min(5, layers - 1), layers - 1, *range(5, layers, 6)}
        return configs.GEMMA4 | {
            "head_dim": 256,
            "global_head_dim": 512,
            "hidden_size": 256 * s["gemma_heads"],
            "intermediate_size": 1024 * s["gemma_heads"],
            "layer_types": [f"{'full' if i in full else 'sliding'}_attention" for i in range(layers)],
            "num_attention_heads": s["gemma_heads"],
            "num_key_value_heads": s["gemma_heads"] // 2,
            "num_hidden_layers": layers,
            "sliding_window": 1024,
            "vocab_size": 1024,
        }
    return configs.GEMMA | {
        "head_dim": 256,
        "hidden_size": 256 * s["gemma_heads"],
        "intermediate_size": 1024 * s["gemma_heads"],
        "num_attention_heads": s["gemma_heads"],
        "num_key_value_heads": s["gemma_heads"] // 2,
        "num_hidden_layers": s["gemma_layers"],
        "query_pre_attn_scalar": 256,
        "sliding_window": 1024,
    }


def _gemma4(size: str) -> nn.Module:
    from transformers import AutoModelForImageTextToText
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    made = CONFIG_MAPPING["gemma4_unified"].from_dict(configs.gemma4_file(gemma_config(size)))
    made._attn_implementation = "sdpa"
    return AutoModelForImageTextToText.from_config(made).eval()


def _gemma(size: str) -> nn.Module:
    if is_2_5(size):
        return _gemma4(size)
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    made = Gemma3Config(text_config=gemma_config(size), vision_config=dict(tiny.VISION), mm_tokens_per_image=4)
    made._attn_implementation = "sdpa"
    return Gemma3ForConditionalGeneration(made).eval()


def upsampler_config(size: str) -> dict:
    """The released x2 upsampler's, at half width if the decoder has half its width."""
    return {
        "_class_name": "LatentUpsampler",
        "in_channels": 128,
        "mid_channels": 8 * SIZES[size]["decoder"],
        "num_blocks_per_stage": 4,
        "dims": 3,
        "spatial_upsample": True,
        "temporal_upsample": False,
        "spatial_scale": 2.0,
        "rational_resampler": False,
    }


def _upsampler(size: str) -> nn.Module:
    from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel

    c = upsampler_config(size)
    return LTX2LatentUpsamplerModel(
        in_channels=c["in_channels"],
        mid_channels=c["mid_channels"],
        num_blocks_per_stage=c["num_blocks_per_stage"],
        rational_spatial_scale=c["spatial_scale"],
        use_rational_resampler=False,
    ).eval()


def diffusion_config(size: str) -> dict:
    """The section `vae` of a diffusion decoder's file: the released widths and denoiser, or narrow ones; small windows
    before, which fit a latent that diffusers' attention has memory for."""
    small = size.startswith("tiny")
    return {
        "_class_name": "CausalDiffusionVAE",
        "model_output_type": "x0",
        "decoder": {
            "in_channels": 128,
            "head_dim": 64,
            "stage_channels": [128, 64, 64, 64, 64] if small else [2048, 1024, 512, 512, 256],
            "stage_depths": [1] * 5 if small else [4, 6, 4, 2, 8],
            "stage_kernels": [[3, 3, 3]] * 5,
            "upsamples": [[s, r] for s, r in zip(_UPSAMPLES, (2, 1, 1, 1) if small else (2, 2, 1, 2), strict=True)],
            "stage5_kernel": [11, 11, 11],
            "timestep_scale_multiplier": 1000,
            "default_num_inference_steps": 1,
        },
    }


def _diffusion_decoder(size: str) -> nn.Module:
    from diffusers.models.autoencoders.ltx2_diffusion_decoder import LTX2VideoDiffusionDecoderModel

    c = diffusion_config(size)["decoder"]
    return LTX2VideoDiffusionDecoderModel(
        latent_channels=c["in_channels"],
        decoder_stage_channels=c["stage_channels"],
        decoder_stage_depths=c["stage_depths"],
        decoder_stage_kernels=c["stage_kernels"][:4],
        decoder_upsample_channel_reductions=[reduction for _, reduction in c["upsamples"]],
        decoder_stage5_kernel=c["stage5_kernel"],
    ).eval()


_RELEASED_NAMES = {  # parts of diffusers' names, and of the released file's
    "latents_mean": "per_channel_statistics.mean-of-means",
    "latents_std": "per_channel_statistics.std-of-means",
    "t_embedder.timestep_embedder.linear_1.": "t_embedder.mlp.0.",
    "t_embedder.timestep_embedder.linear_2.": "t_embedder.mlp.2.",
    ".attn.to_out.0.": ".attn.proj.",
    ".attn.norm_q.": ".attn.q_norm.",
    ".attn.norm_k.": ".attn.k_norm.",
}


def _write_diffusion_decoder(size: str, path: Path) -> None:
    state = redraw.redraw(_diffusion_decoder(size), 10, gains={"decoder.conv_out.weight": 0.5}).state_dict()
    tensors = {}
    for name, value in state.items():
        if ".to_k." in name or ".to_v." in name:
            continue
        if ".to_q." in name:
            value = torch.cat([state[name.replace(".to_q.", f".to_{part}.")] for part in "qkv"])
            name = name.replace(".to_q.", ".qkv.")
        for ours, released in _RELEASED_NAMES.items():
            name = name.replace(ours, released)
        tensors[name] = value.bfloat16()
    metadata = {"config": json.dumps({"vae": diffusion_config(size)}), "model_version": "2.5.0"}
    safetensors_file.save(tensors, path, metadata)
    torch.save({k: v.bfloat16() for k, v in state.items()}, path.with_suffix(".pt"))


def empty(size: str, name: str) -> nn.Module:
    """Returns a reference module with its initial weights."""
    if name == "latent_upsampler":
        return _upsampler(size)
    if name == "diffusion_decoder":
        return _diffusion_decoder(size)
    meta, text = config(size)["config"], gemma_config(size)
    if name == "gemma":
        return _gemma(size)
    if name == "connectors":
        return reference.connectors(meta, text["num_hidden_layers"] + 1, text["hidden_size"])
    return getattr(reference, name)(meta)


NAMES = ("transformer", "connectors", "video_vae", "audio_vae", "vocoder")


def write(size: str, folder: Path) -> None:
    """Writes folder/model.safetensors and folder/gemma in bfloat16, unless they exist for this configuration."""
    meta, mark = config(size), folder / "written.json"
    wanted = json.dumps([meta, gemma_config(size), upsampler_config(size), diffusion_config(size)])
    if mark.exists() and mark.read_text() == wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for i, name in enumerate(NAMES):
        module = empty(size, name)
        if name == "vocoder":
            redraw.redraw_vocoder(module, meta["config"], i)
        else:
            redraw.redraw(module, i, gains={"decoder.conv_out.conv.weight": 0.3})
        state = layouts.single_file_names(name, module.state_dict())
        tensors |= {layouts.PREFIX[name] + k: v.bfloat16() for k, v in state.items()}
    metadata = {"config": json.dumps(meta["config"]), "model_version": meta["model_version"]}
    if is_2_5(size):
        source = {"gemma_version": configs.gemma4_file({})["gemma_version"]}
        metadata["gemma_source_checkpoint"] = json.dumps(source)
    safetensors_file.save(tensors, folder / MODEL_FILE, metadata)
    del tensors
    _write_gemma(size, folder / "gemma")
    state = redraw.redraw(_upsampler(size), 8).state_dict()
    named = layouts.single_file_names("latent_upsampler", {k: v.bfloat16() for k, v in state.items()})
    safetensors_file.save(named, folder / UPSAMPLER_FILE, {"config": json.dumps(upsampler_config(size))})
    if is_2_5(size):
        _write_diffusion_decoder(size, folder / DIFFUSION_FILE)
    mark.write_text(wanted)


def _gemma_names(size: str, state: dict) -> dict:
    """Returns the same values under the names of the text encoder's file, without what Kinora does not read of Gemma-4."""
    if not is_2_5(size):
        return layouts.single_file_names("gemma", state)
    prefix = "model.language_model."
    return {"model." + k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def _write_gemma(size: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    if is_2_5(size):
        # Logits have no scale, so weights around 1 would give attention to one key alone.
        state = _gemma_names(size, redraw.redraw(_gemma(size), 9, gains={"q_norm.weight": 0.15}).state_dict())
        metadata = {"gemma_config": json.dumps(configs.gemma4_file(gemma_config(size)))}
        safetensors_file.save({k: v.bfloat16() for k, v in state.items()}, folder / MODEL_FILE, metadata)
        return
    state = layouts.single_file_names("gemma", redraw.redraw(_gemma(size), 9).state_dict())
    safetensors_file.save({k: v.bfloat16() for k, v in state.items()}, folder / MODEL_FILE, {"format": "pt"})
    for name in ("tokenizer.model", "tokenizer_config.json", "config.json"):
        shutil.copy(tiny.FOLDER / "gemma" / name, folder / name)
    written = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(written | {"text_config": gemma_config(size)}))


def load(size: str, folder: Path, name: str, dtype: torch.dtype) -> nn.Module:
    """Returns the module with the written weights in its own memory (not mapped)."""
    module = empty(size, name).to(dtype)
    if name == "diffusion_decoder":
        module.load_state_dict(torch.load((folder / DIFFUSION_FILE).with_suffix(".pt")))
        return module.eval()
    own_names = {k: k for k in module.state_dict()}
    renamed = _gemma_names(size, own_names) if name == "gemma" else layouts.single_file_names(name, own_names)
    path = folder / {"gemma": f"gemma/{MODEL_FILE}", "latent_upsampler": UPSAMPLER_FILE}.get(name, MODEL_FILE)
    with safe_open(path, "pt") as f, torch.no_grad():
        own = module.state_dict()
        for new, old in renamed.items():
            own[old].copy_(f.get_tensor(layouts.PREFIX.get(name, "") + new))
    if name == "latent_upsampler":  # it works on latents before normalisation
        with safe_open(folder / MODEL_FILE, "pt") as f:
            names = (f"vae.per_channel_statistics.{kind}-of-means" for kind in ("mean", "std"))
            module.latent_statistics = tuple(f.get_tensor(n) for n in names)
    return module.eval()
