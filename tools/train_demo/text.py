"""The text side of the demo model: its tokenizer, and prompts to padded Gemma states as the pipeline makes them."""

import json
import random
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoTokenizer

import model
import published
from golden import reference, tiny, tokenizer
from world import grammar, scene

LINES = 24_000  # of the world's prompts, beside the ordinary prompts that tokenizer.training_text() makes


def tokenizer_files(folder: Path) -> None:
    """Trains the tokenizer and writes tokenizer.model and tokenizer_config.json."""
    rng = random.Random(11)
    text = [grammar.describe(scene.sample(rng), rng).prompt for _ in range(LINES)]
    text += tokenizer.training_text(2000) + [model.NEGATIVE_PROMPT] * 20
    data = tokenizer.train(text)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(data)
    settings = tokenizer.settings(data) | {"model_max_length": model.TEXT_ROWS}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, ensure_ascii=False, indent=1) + "\n")


def gemma() -> torch.nn.Module:
    """The text encoder in transformers' class (with the vision tower that its class insists on)."""
    return reference.gemma(model.GEMMA, tiny.VISION)


def trained(work: Path, device: str) -> "Encoder":
    """The trained encoder, frozen: from the work folder, or else from models/demo."""
    encoder, folder = gemma(), work / "gemma"
    if (work / "text_encoder.pt").exists():
        state = torch.load(work / "text_encoder.pt", map_location="cpu", weights_only=True)["averaged"]
        encoder.load_state_dict({k.removeprefix("gemma."): v for k, v in state.items() if k.startswith("gemma.")})
    elif (model.FOLDER / "gemma" / "model.safetensors").exists():
        folder = model.FOLDER / "gemma"
        with safe_open(folder / "model.safetensors", "pt") as f:
            names = published.names_in_file("gemma", encoder.state_dict())
            encoder.load_state_dict({key: f.get_tensor(name).float() for name, key in names.items()}, strict=False)
        encoder.tie_weights()
    else:
        raise SystemExit(f"{work}: no trained text encoder; run the stage text_encoder first")
    return Encoder(folder, encoder.requires_grad_(False).eval(), device)


class Encoder:
    """Prompts to (states [B, TEXT_ROWS, width, layers + 1], mask [B, TEXT_ROWS]), padded on the left."""

    def __init__(self, folder: Path, encoder: torch.nn.Module, device: str):
        self.folder, self.gemma = folder, encoder
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.tokenizer.padding_side = "left"
        self.language = encoder.model.language_model.to(device)
        self.device = device

    def ids(self, prompts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and mask, padded on the left to the longest of the batch."""
        found = self.tokenizer(
            [p.strip() for p in prompts],
            padding=True,
            max_length=model.TEXT_ROWS,
            truncation=True,
            return_tensors="pt",
        )
        return found.input_ids.to(self.device), found.attention_mask.to(self.device)

    def hidden(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Every layer's states. Positions are those of the row padded to TEXT_ROWS, as in the pipeline."""
        length = ids.shape[1]
        positions = torch.arange(model.TEXT_ROWS - length, model.TEXT_ROWS, device=self.device)[None]
        return self.language(
            input_ids=ids, attention_mask=mask, position_ids=positions, output_hidden_states=True
        ).hidden_states

    @torch.no_grad()
    def __call__(self, prompts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        ids, mask = self.ids(prompts)
        states = torch.stack(self.hidden(ids, mask), dim=-1)
        padding = model.TEXT_ROWS - ids.shape[1]
        states = torch.nn.functional.pad(states, (0, 0, 0, 0, padding, 0))
        return states, torch.nn.functional.pad(mask, (padding, 0))
