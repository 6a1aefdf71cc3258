#!/usr/bin/env python3
"""Writes models/tiny: a random-weight LTX-2.3 in Lightricks' single-file layout, and its Gemma-3 folder.

    python tests/golden/make_tiny_model.py [--output models/tiny] [--lightricks CHECKOUT]

Needs torch, diffusers, transformers, sentencepiece, protobuf. Deterministic. With --lightricks, Lightricks' own
configurators also build every component from the written metadata and load the written tensors strictly, and
models/tiny-2.5 is written: a random-weight LTX-2.5 in the layout of Lightricks' separate files.
"""

import argparse
import json
from pathlib import Path

import torch

from golden import configs, layouts, safetensors_file, tiny, tokenizer


def write_text_encoder(folder: Path) -> None:
    """Writes config.json, model.safetensors with Google's key names, tokenizer.model and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    state = layouts.single_file_names("gemma", tiny.gemma().state_dict())
    safetensors_file.save({k: v.bfloat16() for k, v in state.items()}, folder / "model.safetensors", {"format": "pt"})
    config = configs.gemma_file(configs.GEMMA, tiny.VISION)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    model = tokenizer.train()
    (folder / "tokenizer.model").write_bytes(model)
    settings = json.dumps(tokenizer.settings(model), ensure_ascii=False, indent=1)
    (folder / "tokenizer_config.json").write_text(settings + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=tiny.FOLDER)
    parser.add_argument("--lightricks", type=Path, help="checkout of Lightricks/LTX-2 to load the result with")
    args = parser.parse_args()
    torch.set_num_threads(1)
    meta = configs.ltx_2_3()
    args.output.mkdir(parents=True, exist_ok=True)
    metadata = {"config": json.dumps(meta["config"]), "model_version": meta["model_version"]}
    safetensors_file.save(tiny.single_file(tiny.modules(meta["config"])), args.output / tiny.FILE, metadata)
    write_text_encoder(args.output / "gemma")
    size = sum(f.stat().st_size for f in args.output.rglob("*") if f.is_file())
    print(f"{args.output}: {size} bytes")
    if size > 3_000_000:
        raise SystemExit("larger than 3 MB")
    if args.lightricks:
        from golden import lightricks

        lightricks.enable(args.lightricks)
        lightricks.check_loads(args.output / tiny.FILE)
        print("loaded strictly by Lightricks' configurators")
        from golden import tiny_2_5

        torch.set_grad_enabled(False)
        tiny_2_5.write(tiny_2_5.FOLDER)


if __name__ == "__main__":
    main()
