"""Text encoder: a small Gemma-3 that predicts the next token of the world's prompts, and from the last token what the
whole prompt said. The second task makes its states hold the scene; its heads are thrown away afterwards.
"""

import random

import torch
from torch.nn import functional

import model
import text
import training
from world import grammar, scene

STEPS, BATCH, RATE = 1000, 64, 1.5e-3
UNSAID = "unsaid"
_THING = {
    "shape": scene.SHAPES,
    "colour": tuple(scene.COLOURS),
    "size": tuple(scene.SIZES),
    "motion": scene.MOTIONS,
    "speed": tuple(scene.SPEEDS),
    "place": tuple(scene.PLACES),
}
QUESTIONS = {
    "background": (UNSAID, *scene.BACKGROUNDS),
    "tone": (UNSAID, "silence", "sound"),
    "pitch": (UNSAID, *scene.PITCHES),
    "wave": (UNSAID, *scene.WAVES),
    "rhythm": (UNSAID, *scene.RHYTHMS),
} | {f"{i}.{name}": (UNSAID, *values) for i in range(2) for name, values in _THING.items()}


def answers(shown: scene.Scene, said: grammar.Said) -> list[int]:
    """The index of the right answer to every question."""
    truth = {"background": shown.background, "tone": "sound" if shown.tone else "silence"}
    if shown.tone:
        truth |= {name: getattr(shown.tone, name) for name in ("pitch", "wave", "rhythm")}
    for i, thing in enumerate(shown.things):
        truth |= {f"{i}.{name}": getattr(thing, name) for name in _THING}
    return [QUESTIONS[q].index(truth[q] if q in said.names else UNSAID) for q in QUESTIONS]


class Student(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gemma = text.gemma()
        self.heads = torch.nn.Linear(model.GEMMA["hidden_size"], sum(map(len, QUESTIONS.values())))


def prompts(seed: int, count: int, split: str = "train") -> tuple[list[str], torch.Tensor]:
    rng = random.Random(seed)
    scenes = [scene.sample(rng, split) for _ in range(count)]
    said = [grammar.describe(s, rng) for s in scenes]
    return [s.prompt for s in said], torch.tensor([answers(a, b) for a, b in zip(scenes, said)])


def train(options: training.Options) -> None:
    torch.manual_seed(options.seed)
    folder = options.work / "gemma"
    if not (folder / "tokenizer.model").exists():
        text.tokenizer_files(folder)
    student = Student().to(options.device).train()
    for part in (student.gemma.model.vision_tower, student.gemma.model.multi_modal_projector):
        part.requires_grad_(False)
    encoder = text.Encoder(folder, student.gemma, options.device)
    run = training.Run("text_encoder", options, student, steps=STEPS, rate=RATE, weight_decay=0.01)
    batch, widths = options.batch or BATCH, [len(v) for v in QUESTIONS.values()]

    def examine(module: Student, lines: list[str], truth: torch.Tensor):
        encoder.language = module.gemma.model.language_model
        ids, mask = encoder.ids(lines)
        last = encoder.hidden(ids, mask)[-1]
        found = module.heads(last[:, -1]).split(widths, dim=1)
        return ids, mask, last, found, truth.to(last.device)

    def loss(step: int):
        ids, mask, last, found, truth = examine(
            student, *prompts(training.fold_in(options.seed, step), batch)
        )
        words = functional.linear(last[:, :-1], student.gemma.model.language_model.embed_tokens.weight)
        target = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
        next_word = functional.cross_entropy(words.flatten(0, 1).float(), target.flatten())
        asked = sum(functional.cross_entropy(f.float(), truth[:, i]) for i, f in enumerate(found)) / len(widths)
        return 0.2 * next_word + asked, {"next word": float(next_word.detach()), "asked": float(asked.detach())}

    def oracle(averaged: Student) -> dict[str, float]:
        *_, found, truth = examine(averaged, *prompts(99, 512, "held_out"))
        right = torch.stack([f.argmax(1) == truth[:, i] for i, f in enumerate(found)], 1)
        return {"held-out answers right": float(right.float().mean()), "prompts wholly right": float(right.all(1).float().mean())}

    run.train(loss, oracle)
    run.save()
