"""Mistakes and removed parts for the text, video and audio cases (see sensitivity.py)."""

import torch

from golden import sensitivity as s


def _attention_weights(case, modules: list) -> None:
    for letter in "qk":
        name = f"{letter}_norm" if hasattr(modules[0], f"{letter}_norm") else f"norm_{letter}"
        ignored = 0.0 if name == f"{letter}_norm" else 1.0  # Gemma multiplies by 1 + w
        case.mistakes[f"{letter} norm weights ignored"] = s.broken(
            case, *[s.constant(getattr(m, name).weight, ignored) for m in modules]
        )


def gemma(case) -> None:
    model = case.module.model.language_model
    layers, rope = model.layers, model.rotary_emb
    window = model.config.sliding_window
    for off in (-1, 1):
        # The bound includes the query itself. The mask is built from the model's config.
        case.mistakes[f"sliding window off by {off}"] = s.broken(
            case, s.swapped(model.config, "sliding_window", window + off)
        )
    scaled = rope.full_attention_inv_freq
    case.mistakes |= {
        "no RoPE scaling": s.broken(case, s.swapped(rope, "full_attention_inv_freq", scaled * 8)),
        "global layers with the local base": s.broken(
            case, s.swapped(rope, "full_attention_inv_freq", rope.sliding_attention_inv_freq)
        ),
        "padding is attended": s.broken(
            case, inputs={"attention_mask": torch.ones_like(case.inputs["attention_mask"])}
        ),
        "embeddings not scaled": s.broken(case, s.swapped(model.embed_tokens, "embed_scale", torch.tensor(1.0))),
        "no final norm": s.broken(case, s.swapped(model, "norm", torch.nn.Identity())),
    }
    _attention_weights(case, [layer.self_attn for layer in layers])
    for i, layer in enumerate(layers):
        case.removed[f"layer {i} attention"] = s.broken(case, s.removed(layer.post_attention_layernorm))
        case.removed[f"layer {i} MLP"] = s.broken(case, s.removed(layer.post_feedforward_layernorm))


def connectors(case) -> None:
    model, mask = case.module, case.inputs["attention_mask"]
    blocks = {
        f"{stream} block {i}": b
        for stream in ("video", "audio")
        for i, b in enumerate(getattr(model, f"{stream}_connector").transformer_blocks)
    }
    case.mistakes["padding at the wrong end"] = s.broken(case, inputs={"attention_mask": mask.flip(1)})
    registers = [model.video_connector.learnable_registers, model.audio_connector.learnable_registers]
    for name, shift in (("registers counted from the first free row", 5), ("registers removed", None)):
        managers = [
            s.constant(r, 0.0) if shift is None else s.swapped(r, "data", r.data.roll(shift, 0)) for r in registers
        ]
        case.mistakes[name] = s.broken(case, *managers)
    for stream in ("video", "audio"):
        rope = getattr(model, f"{stream}_connector").rope
        case.mistakes[f"{stream}: no RoPE"] = s.broken(
            case, s.output_of(rope, lambda t: (torch.ones_like(t[0]), torch.zeros_like(t[1])))
        )
    _attention_weights(case, [b.attn1 for b in blocks.values()])
    if blocks["video block 0"].attn1.to_gate_logits is not None:
        case.mistakes["gate without its factor 2"] = s.broken(
            case, *[s.input_of(b.attn1.to_out[0], lambda x: x / 2) for b in blocks.values()]
        )
    for name, block in blocks.items():
        case.removed[f"{name} attention"] = s.broken(case, s.removed(block.attn1))
        case.removed[f"{name} feed-forward"] = s.broken(case, s.removed(block.ff))


def video_decoder(case) -> None:
    decoder = case.module.decoder
    convs = [m for m in decoder.modules() if isinstance(m, torch.nn.Conv3d)]
    other = "zeros" if convs[0].padding_mode == "reflect" else "reflect"
    reversed_padding = [p for p in convs[0].padding[::-1] for _ in (0, 1)]
    managers = []
    for conv in convs:
        managers += [
            s.swapped(conv, "padding_mode", other),
            s.swapped(conv, "_reversed_padding_repeated_twice", reversed_padding),
        ]
    case.mistakes |= {
        f"spatial padding {other}": s.broken(case, *managers),
        "causal in time": s.broken(case, s.swapped(decoder, "is_causal", True)),
        "latent not de-normalised": s.broken(
            case, s.constant(case.module.latents_std, 1.0), s.constant(case.module.latents_mean, 0.0)
        ),
    }
    for name, module in decoder.named_modules():
        if name.endswith("conv2"):
            case.removed[name] = s.broken(case, s.removed(module))
        if name.endswith("upsamplers.0") and module.residual:
            case.removed[f"{name} residual"] = s.broken(case, s.swapped(module, "residual", False))


def audio_decoder(case) -> None:
    decoder = case.module.decoder
    convs = [m for m in decoder.modules() if type(m).__name__ == "LTX2AudioCausalConv2d"]

    def end(conv):
        left, right, top, bottom = conv.padding
        return s.swapped(conv, "padding", (left, right, bottom, top))

    case.mistakes |= {
        "padding at the end of time": s.broken(case, *[end(c) for c in convs]),
        "latent not de-normalised": s.broken(
            case, s.constant(case.module.latents_std, 1.0), s.constant(case.module.latents_mean, 0.0)
        ),
    }
    for name, module in decoder.named_modules():
        if name.endswith("conv2"):
            case.removed[name] = s.broken(case, s.removed(module))


def vocoder(case) -> None:
    model = case.module
    generators = (
        {"": model}
        if not hasattr(model, "bwe_generator")
        else {"base ": model.vocoder, "extension ": model.bwe_generator}
    )
    for which, generator in generators.items():
        for j, block in enumerate(generator.resnets):
            case.removed[f"{which}resblock {j}"] = s.broken(case, s.removed(block))
        for i, conv in enumerate(generator.resnets[0].convs2):
            case.removed[f"{which}resblock 0 second convolution {i}"] = s.broken(case, s.removed(conv))
    if hasattr(model, "bwe_generator"):
        stft = model.mel_stft.stft_fn
        case.mistakes |= {
            "base waveform not clamped": s.broken(case, s.swapped(model.vocoder, "final_act_fn", None)),
            "STFT padded on both sides": s.broken(
                case, s.output_of(model.mel_stft, lambda o: tuple(t.roll(1, -1) for t in o))
            ),
            "Snake without exponentials": s.broken(
                case, *[s.constant(p, 0.0) for n, p in model.named_parameters() if n.endswith(("alpha", "beta"))]
            ),
        }
        case.removed |= {
            "residual": s.broken(case, s.removed(model.bwe_generator)),
            "skip": s.broken(case, s.removed(model.resampler)),
        }
        assert stft.hop_length < stft.window_length
    else:
        case.mistakes["final slope 0.1 instead of 0.01"] = s.broken(
            case, s.swapped(model.act_out, "negative_slope", 0.1)
        )
        case.mistakes["no tanh"] = s.broken(case, s.swapped(model, "final_act_fn", None))
