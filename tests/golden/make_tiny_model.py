#!/usr/bin/env python3
"""Writes models/tiny: a random-weight LTX-2.3 in Lightricks' single-file layout, and its Gemma-3 folder.

    python tests/golden/make_tiny_model.py [--output models/tiny] [--lightricks CHECKOUT]

Needs torch, diffusers, transformers, sentencepiece, protobuf. Deterministic. With --lightricks every component is also
built by Lightricks' own configurators from the written metadata and loaded strictly from the written tensors.
"""

import argparse
import json
from pathlib import Path

import torch

from golden import configs, layouts, reference, redraw, safetensors_file, tokenizer

SEED = 20260101
FILE = "ltx-2.3-tiny-dev.safetensors"
VISION = {"hidden_size": 16, "image_size": 28, "intermediate_size": 16, "model_type": "siglip_vision_model",
          "num_attention_heads": 2, "num_hidden_layers": 1, "patch_size": 14, "vision_use_head": False}


def modules(config: dict) -> dict[str, torch.nn.Module]:
    """The five components of the single file with redrawn weights."""
    text = configs.GEMMA
    built = {
        "transformer": redraw.redraw(reference.transformer(config), SEED),
        "connectors": redraw.redraw(
            reference.connectors(config, text["num_hidden_layers"] + 1, text["hidden_size"]), SEED + 1),
        "video_vae": redraw.redraw(reference.video_vae(config), SEED + 2, gain=1.3, gains={"decoder.conv_out.conv.weight": 0.3}),
        "audio_vae": redraw.redraw(reference.audio_vae(config), SEED + 3, gain=1.3),
        "vocoder": redraw.redraw_vocoder(reference.vocoder(config), config, SEED + 4),
    }
    return built


def single_file(config: dict) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, module in modules(config).items():
        state = layouts.single_file_names(name, module.state_dict())
        tensors |= {layouts.PREFIX[name] + key: value.bfloat16() for key, value in state.items()}
    stats = "vae.per_channel_statistics."  # statistics that the published files hold and nothing reads
    std = tensors[stats + "std-of-means"]
    tensors[stats + "mean-of-stds"] = std * 0.1
    tensors[stats + "mean-of-stds_over_std-of-means"] = torch.full_like(std, 0.1)
    tensors[stats + "channel"] = torch.arange(std.numel()).bfloat16()
    return tensors


def write_text_encoder(folder: Path) -> None:
    """config.json, model.safetensors with Google's key names, tokenizer.model, tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    gemma = redraw.redraw(reference.gemma(configs.GEMMA, VISION), SEED + 5)
    state = layouts.single_file_names("gemma", gemma.state_dict())
    safetensors_file.save({k: v.bfloat16() for k, v in state.items()}, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 6, "eoi_token_index": 7,
        "eos_token_id": [1, 106], "image_token_index": 8, "initializer_range": 0.02, "mm_tokens_per_image": 4,
        "model_type": "gemma3", "text_config": configs.GEMMA, "torch_dtype": "bfloat16", "vision_config": VISION,
    }, indent=2) + "\n")
    model = tokenizer.train()
    (folder / "tokenizer.model").write_bytes(model)
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>",
        "unk_token": "<unk>", "clean_up_tokenization_spaces": False, "model_max_length": 1000000000000000019884624838656,
        "sp_model_kwargs": None, "spaces_between_special_tokens": False, "tokenizer_class": "GemmaTokenizer",
        "use_default_system_prompt": False,
        "added_tokens_decoder": tokenizer.added_tokens(model),
    }, ensure_ascii=False, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--output", type=Path, default=root / "models" / "tiny")
    parser.add_argument("--lightricks", type=Path, help="checkout of Lightricks/LTX-2 to load the result with")
    args = parser.parse_args()
    torch.set_num_threads(1)
    meta = configs.ltx_2_3()
    args.output.mkdir(parents=True, exist_ok=True)
    metadata = {"config": json.dumps(meta["config"]), "model_version": meta["model_version"]}
    safetensors_file.save(single_file(meta["config"]), args.output / FILE, metadata)
    write_text_encoder(args.output / "gemma")
    size = sum(f.stat().st_size for f in args.output.rglob("*") if f.is_file())
    print(f"{args.output}: {size} bytes")
    if size > 3_000_000:
        raise SystemExit("larger than 3 MB")
    if args.lightricks:
        from golden import lightricks
        lightricks.enable(args.lightricks)
        lightricks.check_loads(args.output / FILE)
        print("loaded strictly by Lightricks' configurators")


if __name__ == "__main__":
    main()
