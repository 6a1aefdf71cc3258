"""Gemma-4's hidden states, token ids, and the duration head of LTX-2.5, from Lightricks' own modules."""

import json

import torch

from golden import configs, redraw, text_cases, tokenizer
from golden import sensitivity as s
from golden.case import Case

_ROWS, _VALID = 37, (37, 22)  # left-padded; more rows than the sliding window


def _encoder(text: dict):
    from ltx_core.text_encoders.gemma.encoders.base_encoder import LTXGemmaTextEncoder
    from transformers import AutoModelForImageTextToText
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING["gemma4_unified"].from_dict(configs.gemma4_file(text))
    config._attn_implementation = "eager"
    return LTXGemmaTextEncoder(model=AutoModelForImageTextToText.from_config(config).eval(), dtype=torch.float32)


class _GivenIds:
    """Stands for the tokenizer: a prompt is the number of a row of given ids."""

    def __init__(self, ids: torch.Tensor, mask: torch.Tensor):
        self.ids, self.mask = ids, mask

    def tokenize_with_weights(self, prompt: str) -> dict:
        return {"gemma": list(zip(self.ids[int(prompt)].tolist(), self.mask[int(prompt)].tolist(), strict=True))}


def _rotate_first_quarter(right, dim: int):
    def rotate(x, cos, sin, unsqueeze_dim=1):
        if x.shape[-1] != dim:
            return right(x, cos, sin, unsqueeze_dim)
        part = dim // 4
        angles = [torch.cat([t[..., : part // 2]] * 2, -1) for t in (cos, sin)]
        return torch.cat([right(x[..., :part], *angles, unsqueeze_dim), x[..., part:]], -1)

    return rotate


def _mistakes(case: Case, model: torch.nn.Module) -> None:
    from transformers.models.gemma4_unified import modeling_gemma4_unified as modeling

    layers, rope, config = model.layers, model.rotary_emb, model.config
    attentions = [layer.self_attn for layer in layers]
    weights = [m.weight for m in model.modules() if type(m).__name__.endswith("RMSNorm") and m.with_scale]
    full = rope.full_attention_inv_freq
    dim = 2 * full.numel()
    theta = config.rope_parameters["full_attention"]["rope_theta"]
    rotated = int((full > 0).sum())

    def frequencies(count: int, over: int) -> torch.Tensor:
        angles = 1.0 / theta ** (torch.arange(0, 2 * count, 2).float() / over)
        return torch.cat([angles, torch.zeros(full.numel() - count)])

    def each(function) -> list:
        return [function(a) for a in attentions]

    case.mistakes |= {
        "scale 1/sqrt(d)": s.broken(case, *each(lambda a: s.swapped(a, "scaling", a.head_dim**-0.5))),
        "no norm of the values": s.broken(case, *each(lambda a: s.swapped(a, "v_norm", torch.nn.Identity()))),
        "values after k_norm": s.broken(
            case, *[s.input_of(a.v_norm, a.k_norm.forward) for a in attentions if a.v_proj is None]
        ),
        "1 + w": s.broken(case, *[s.swapped(w, "data", w.data + 1) for w in weights]),
        "no layer scalar": s.broken(case, *[s.constant(layer.layer_scalar, 1.0) for layer in layers]),
        "all pairs rotated": s.broken(
            case, s.swapped(rope, "full_attention_inv_freq", frequencies(full.numel(), dim))
        ),
        "exponent over the rotated dims": s.broken(
            case, s.swapped(rope, "full_attention_inv_freq", frequencies(rotated, 2 * rotated))
        ),
        "Gemma-3's factor 8": s.broken(case, s.swapped(rope, "full_attention_inv_freq", full / 8)),
        "no final norm": s.broken(case, s.swapped(model, "norm", torch.nn.Identity())),
        "padding is attended": s.broken(
            case, inputs={"attention_mask": torch.ones_like(case.inputs["attention_mask"])}
        ),
        "embeddings not scaled": s.broken(case, s.swapped(model.embed_tokens, "embed_scale", torch.tensor(1.0))),
    }
    on_mlp = []
    for layer in layers:
        scalar = layer.layer_scalar.clone()
        on_mlp.append(s.output_of(layer.post_feedforward_layernorm, lambda x, scalar=scalar: x * scalar))
        on_mlp.append(s.constant(layer.layer_scalar, 1.0))
    case.mistakes["layer scalar on the MLP branch"] = s.broken(case, *on_mlp)
    case.mistakes["pairs in the first quarter"] = s.broken(
        case, s.swapped(modeling, "apply_rotary_pos_emb", _rotate_first_quarter(modeling.apply_rotary_pos_emb, dim))
    )
    for off in (-1, 1):
        case.mistakes[f"sliding window off by {off}"] = s.broken(
            case, s.swapped(config, "sliding_window", config.sliding_window + off)
        )
    for letter in "qk":
        case.mistakes[f"{letter} norm weights ignored"] = s.broken(
            case, *each(lambda a, letter=letter: s.constant(getattr(a, f"{letter}_norm").weight, 1.0))
        )
    for i, layer in enumerate(layers):
        case.removed[f"layer {i} attention"] = s.broken(case, s.removed(layer.post_attention_layernorm))
        case.removed[f"layer {i} MLP"] = s.broken(case, s.removed(layer.post_feedforward_layernorm))


def redrawn_encoder(text: dict, seed: int):
    """Returns Lightricks' encoder with redrawn weights."""
    # Logits have no scale, so weights around 1 would give attention to one key alone.
    encoder = redraw.redraw(_encoder(text), seed, gains={"q_norm.weight": 0.15})
    layers = encoder.model.model.language_model.layers
    scalars = 0.6 + 0.35 * torch.rand(len(layers), generator=torch.Generator().manual_seed(seed + 1))
    for layer, scalar in zip(layers, scalars, strict=True):
        layer.layer_scalar.fill_(float(scalar.bfloat16()))
    return encoder


def flat_weights(encoder) -> dict[str, torch.Tensor]:
    """Returns the language model's weights under the names of Lightricks' files."""
    prefix = "model.model.language_model."
    state = {k: v for k, v in encoder.state_dict().items() if k.startswith(prefix)}
    return {"model." + k.removeprefix(prefix): v for k, v in state.items()}


def _gemma4() -> Case:
    encoder = redrawn_encoder(configs.GEMMA4, 91)
    model = encoder.model.model.language_model
    mask = torch.stack([(torch.arange(_ROWS) >= _ROWS - n).long() for n in _VALID])
    ids = torch.randint(4, 150, mask.shape, generator=torch.Generator().manual_seed(93)) * mask
    for row, valid in enumerate(_VALID):
        ids[row, _ROWS - valid] = 2

    def run(m, data):
        m.tokenizer = _GivenIds(data["input_ids"], data["attention_mask"])
        states = [torch.stack(states, -1) for states, _ in m.encode([str(i) for i in range(len(_VALID))])]
        return {"hidden_states": torch.cat(states) * mask[:, :, None, None]}

    case = Case(
        "gemma4",
        "gemma",
        encoder,
        {"config": configs.gemma4_file(configs.GEMMA4), "model_version": ""},
        {"input_ids": ids, "attention_mask": mask},
        run,
        {
            f"model.model.language_model.layers.{i}.{sub}": f"layer{i}.{tap}.out"
            for i, sub, tap in ((0, "self_attn", "attn"), (1, "self_attn", "attn"), (1, "mlp", "mlp"))
        },
        {"valid": _VALID},
        lightricks=True,
    )
    case.weights = flat_weights(encoder)
    _mistakes(case, model)
    return case


_LINES, _TOKENS = 900, 48


def tokenizer_json() -> str:
    """Returns a small tokenizer.json with the fields of Gemma-4's: ranked merges and byte fallback."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    pieces = special + [f"<0x{byte:02X}>" for byte in range(256)]
    trained = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    trained.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    # limit_alphabet would choose among equally frequent characters by chance.
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=pieces, max_token_length=12, show_progress=False)
    trained.train_from_iterator(tokenizer.training_text(), trainer)
    trained.add_special_tokens(["<start_of_turn>", "<end_of_turn>"])
    trained.add_tokens([AddedToken(text, normalized=False) for text in ("\n", "\n\n", "\n\n\n", "[multimodal]")])
    trained.add_tokens([AddedToken(text, normalized=True) for text in ("red fox", "▁▁▁", "</h1>")])
    whole = json.loads(trained.to_str())
    # The byte pieces are ordinary ones there: "<0x0A>" in a text is six characters.
    whole["added_tokens"] = [t for t in whole["added_tokens"] if not t["content"].startswith("<0x")]
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))


def reference_tokenizer(max_length: int):
    """Returns Lightricks' tokenizer over tokenizer_json."""
    from ltx_core.text_encoders.gemma.tokenizer import LTXGemmaTokenizer
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer_json()), bos_token="<bos>", eos_token="<eos>", pad_token="<pad>"
    )
    return LTXGemmaTokenizer(fast, max_length=max_length)


def _tokenizer() -> Case:
    source, reference = tokenizer_json(), reference_tokenizer(_TOKENS)
    lines = [line for line in text_cases.lines() if "\x00" not in line][:_LINES]
    lines += ["red fox, the red  fox", "<bos>a<bos>", "\n\n\n\n\n", "a   b    c", " ".join(lines[:20])]
    lines.append("<0x0A><0x41>")
    ids = []
    for line in lines:
        pairs = reference.tokenize_with_weights(line)["gemma"]
        ids.append([token for token, valid in pairs if valid])

    def flat(rows, dtype):
        ends = torch.tensor([0] + [len(r) for r in rows]).cumsum(0)
        return torch.tensor([x for r in rows for x in r], dtype=dtype), ends.to(torch.int32)

    text, offsets = flat([line.encode() for line in lines], torch.uint8)
    tokens, token_offsets = flat(ids, torch.int32)
    return Case(
        "tokenizer_json",
        "",
        None,
        {},
        {"json": torch.tensor(list(source.encode()), dtype=torch.uint8), "text": text, "text_offsets": offsets},
        lambda *_: {"ids": tokens, "ids_offsets": token_offsets},
        {},
        {"lines": len(lines), "max_tokens": _TOKENS},
        lightricks=True,
    )


def _duration_head() -> Case:
    from ltx_core.duration_head.model_configurator import DurationHeadConfigurator

    config = {
        "transformer": {"cross_attention_dim": 64, "audio_cross_attention_dim": 32},
        "duration_head": {"pooler_hidden_dim": 32, "num_pooler_heads": 2, "mlp_hidden": 24},
    }
    meta = {"config": config, "model_version": "2.5.0"}
    head = redraw.redraw(DurationHeadConfigurator.from_metadata(meta).eval(), 94)
    generator = torch.Generator().manual_seed(95)
    inputs = {"video": torch.randn(1, 48, 64, generator=generator), "audio": torch.randn(1, 48, 32, generator=generator)}

    def run(m, data):
        video, audio = data["video"], data["audio"]
        return {"seconds": m(video, audio), "seconds_of_sound": m(None, audio)}

    case = Case("duration_head", "duration_head", head, meta, inputs, run, lightricks=True)
    attention = head.attention_pooler.cross_attn
    zeros = {"video's mark": head.video_modality_emb, "sound's mark": head.audio_modality_emb}
    zeros |= {"bias of q, k, v": attention.in_proj_bias, "bias of the output": attention.out_proj.bias}
    case.mistakes |= {f"no {name}": s.broken(case, s.constant(p, 0.0)) for name, p in zeros.items()}
    case.mistakes |= {
        "seconds without exponential": s.broken(case, s.output_of(head, torch.log)),
        "one head": s.broken(case, s.swapped(attention, "num_heads", 1), s.swapped(attention, "head_dim", 32)),
    }
    return case


def cases() -> list[Case]:
    return [_gemma4(), _tokenizer(), _duration_head()]
