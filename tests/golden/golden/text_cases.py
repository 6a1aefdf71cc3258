"""Gemma-3 hidden states, token ids of the tokenizer, and feature extractors with connectors."""

import copy
import random

import torch
from transformers import AutoTokenizer

from golden import configs, module_mistakes, redraw, reference, tiny, tokenizer
from golden.case import Case

_ROWS, _VALID = 37, (37, 22)  # left-padded; more rows than the sliding window
_LINES = 2000


def _mask(rows: int, valid: tuple[int, ...]) -> torch.Tensor:
    return torch.stack([(torch.arange(rows) >= rows - n).long() for n in valid])


def _gemma() -> Case:
    text = dict(configs.GEMMA, num_hidden_layers=4, sliding_window_pattern=3, sliding_window=16, vocab_size=320)
    model = redraw.redraw(reference.gemma(text, tiny.VISION), 31)
    mask = _mask(_ROWS, _VALID)
    ids = torch.randint(4, 300, mask.shape, generator=torch.Generator().manual_seed(32)) * mask
    for row, valid in enumerate(_VALID):
        ids[row, _ROWS - valid] = 2

    def run(m, data):
        states = m(**data, output_hidden_states=True).hidden_states
        return {"hidden_states": torch.stack(states, -1) * mask[:, :, None, None]}

    taps = {
        f"model.language_model.layers.{i}.{s}": f"layer{i}.{t}.out"
        for i in (0, 2)
        for s, t in (("self_attn", "attn"), ("mlp", "mlp"))
    }
    case = Case(
        "gemma",
        "gemma",
        model,
        {"config": {"model_type": "gemma3", "text_config": text}, "model_version": ""},
        {"input_ids": ids, "attention_mask": mask},
        run,
        taps,
        {"valid": _VALID},
    )
    state = {k: v for k, v in model.state_dict().items() if ".language_model." in k}
    case.weights = {k.replace("model.language_model.", "language_model.model."): v for k, v in state.items()}
    module_mistakes.gemma(case)
    return case


_CHARACTERS = (  # (weight, code point ranges)
    (6, ((0x20, 0x7E),)),
    (2, ((0xA0, 0x24F),)),
    (2, ((0x370, 0x3FF), (0x400, 0x4FF))),
    (2, ((0x5D0, 0x5EA), (0x620, 0x64A))),
    (1, ((0x900, 0x97F), (0xE00, 0xE5B))),
    (3, ((0x3040, 0x30FF), (0x4E00, 0x9FFF))),
    (2, ((0xAC00, 0xD7A3),)),
    (2, ((0x1F300, 0x1FAFF),)),
    (2, ((0x1, 0x1F), (0x7F, 0x9F))),
    (1, ((0x200B, 0x200F), (0x2028, 0x202F), (0xFEFF, 0xFEFF))),
    (1, ((0x300, 0x36F),)),
    (1, ((0x10000, 0x100FA), (0x1D400, 0x1D7FF), (0xE000, 0xF8FF), (0x20000, 0x2A6D0))),
)
_SNIPPETS = (
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "<mask>",
    "<start_of_turn>user\n",
    "<end_of_turn>\n",
    "[multimodal]",
    "<unused2>",
    "<unused99>",
    "<table>",
    "</h1>",
    "<0x0A>",
    "<0x41>",
    "▁",
    "▁▁▁",
    "\t",
    "\t\t",
    "\r\n",
    "\u00a0",
    "\u3000",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "e\u0301",
    "ﬁ",
    "①",
    "½",
    "İ",
    "ß",
    "ﷺ",
    "0123456789",
    "3.14159e-10",
    "１２３",
    "२०२६",
    "<",
    "<<bos>>",
    "< bos>",
    "\x00",
    "\u2581a",
)


def lines() -> list[str]:
    """Returns generated text of many kinds. It is not stripped, because the pipeline does that."""
    rng = random.Random(20260102)
    corpus, weights = tokenizer.training_text(600), [w for w, _ in _CHARACTERS]

    def characters(n: int) -> str:
        text = ""
        for _, ranges in rng.choices(_CHARACTERS, weights, k=n):
            text += chr(rng.randint(*rng.choice(ranges)))
        return text

    def piece() -> str:
        kind = rng.random()
        if kind < 0.45:
            words = rng.choice(corpus).split(" ")
            at = rng.randrange(len(words))
            return " ".join(words[at : at + rng.randint(1, 8)])
        if kind < 0.65:
            return characters(rng.randint(1, 12))
        if kind < 0.80:
            return rng.choice(_SNIPPETS)
        if kind < 0.88:
            return " " * rng.randint(1, 40)
        if kind < 0.94:
            return "\n" * rng.randint(1, 40)
        return str(rng.randrange(10 ** rng.randint(1, 12)))

    found = ["", " ", "a", "▁", "\n"]
    while len(found) < _LINES:
        found.append(rng.choice(("", " ")).join(piece() for _ in range(rng.randint(1, 4))))
    return found


def _tokenizer() -> Case:
    fast = AutoTokenizer.from_pretrained(tiny.FOLDER / "gemma")
    if not fast.is_fast:
        raise SystemExit("transformers gave no fast tokenizer")
    text = [line.encode() for line in lines()]
    ids = [fast(line.decode()).input_ids for line in text]

    def flat(rows, dtype):
        ends = torch.tensor([0] + [len(r) for r in rows]).cumsum(0)
        return torch.tensor([x for r in rows for x in r], dtype=dtype), ends.to(torch.int32)

    data, offsets = flat(text, torch.uint8)
    tokens, token_offsets = flat(ids, torch.int32)
    return Case(
        "tokenizer",
        "",
        None,
        {},
        {"text": data, "text_offsets": offsets},
        lambda *_: {"ids": tokens, "ids_offsets": token_offsets},
        {},
        {"lines": _LINES, "tokenizer": "models/tiny/gemma/tokenizer.model"},
    )


def _connectors(name: str, meta: dict, seed: int, width: int) -> Case:
    meta = copy.deepcopy(meta)
    meta["config"]["transformer"]["connector_num_learnable_registers"] = 16
    states, rows, valid = 5, 48, (21, 9)
    model = redraw.redraw(reference.connectors(meta["config"], states, width), seed)
    hidden = 2 * torch.randn(2, rows, width, states, generator=torch.Generator().manual_seed(seed + 1))
    mask = _mask(rows, valid)

    def run(m, data):
        found, handles = {}, []
        for stream in ("video", "audio"):

            def keep(_module, args, stream=stream):
                found[f"tap.features.{stream}"] = args[0] * mask[:, :, None]

            handles.append(getattr(m, f"{stream}_connector").register_forward_pre_hook(keep))
        video, audio, _ = m(data["hidden_states"], data["attention_mask"], padding_side="left")
        for handle in handles:
            handle.remove()
        return {**found, "video_context": video, "audio_context": audio}

    taps = {f"{s}_connector.transformer_blocks.{i}": f"{s}.block{i}" for s in ("video", "audio") for i in (0, 1)}
    taps["video_connector.transformer_blocks.0.attn1"] = "video.block0.attn1.out"
    case = Case(
        name,
        "connectors",
        model,
        meta,
        {"hidden_states": hidden, "attention_mask": mask},
        run,
        taps,
        {"valid": valid, "text_states": states, "text_width": width},
    )
    module_mistakes.connectors(case)
    return case


def cases() -> list[Case]:
    return [
        _gemma(),
        _tokenizer(),
        _connectors("connectors_2_3", configs.ltx_2_3(), 41, 64),
        _connectors("connectors_2_0", configs.ltx_2_0(), 42, 48),
    ]
