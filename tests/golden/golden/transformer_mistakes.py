"""The mistakes of docs/model.md "Known mistakes" that a transformer case must detect, and the parts whose removal it
must detect."""

import contextlib
from collections.abc import Iterator

import torch

from golden import sensitivity as s

_SUBLAYERS = (
    "attn1",
    "audio_attn1",
    "attn2",
    "audio_attn2",
    "audio_to_video_attn",
    "video_to_audio_attn",
    "ff",
    "audio_ff",
)


def _without_causal_fix(case) -> dict:
    """Positions as if every latent frame spanned eight pixel frames, including the first."""
    fps = case.parameters["fps"]
    video, audio = case.inputs["video_positions"].clone(), case.inputs["audio_positions"].clone()
    frames, height, width = case.parameters["grid"]
    frame = torch.arange(frames).repeat_interleave(height * width)
    video[:, 0, :, 0], video[:, 0, :, 1] = 8 * frame / fps, 8 * (frame + 1) / fps
    token = torch.arange(audio.shape[2])
    audio[:, 0, :, 0], audio[:, 0, :, 1] = token * 0.04, (token + 1) * 0.04
    return {"video_positions": video, "audio_positions": audio}


def _patch_start(case) -> dict:
    return {k: case.inputs[k][..., :1].expand(-1, -1, -1, 2) for k in ("video_positions", "audio_positions")}


def _updated_video(block):
    """video_to_audio_attn reads the video after audio_to_video_attn has written to it."""

    @contextlib.contextmanager
    def manager() -> Iterator[None]:
        seen = {}

        def enter(module, _args, kwargs):
            seen["scale_shift"], seen["gate"] = kwargs["temb_ca_scale_shift"], kwargs["temb_ca_gate"]

        def norm(_module, args):
            seen["x"] = args[0]

        def written(_module, _args, output):
            seen["a2v"] = output

        def read(_module, _args, kwargs):
            table, batch = block.video_a2v_cross_attn_scale_shift_table, seen["x"].shape[0]
            _, _, scale, shift = block.get_mod_params(table[:4], seen["scale_shift"], batch)
            gate = block.get_mod_params(table[4:], seen["gate"], batch)[0].squeeze(2)
            x = seen["x"] + gate * seen["a2v"]
            normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
            return (), kwargs | {"encoder_hidden_states": normed * (1 + scale.squeeze(2)) + shift.squeeze(2)}

        def positional(module, args, kwargs):
            _, changed = read(module, args, kwargs)
            return args, changed

        handles = [
            block.register_forward_pre_hook(enter, with_kwargs=True),
            block.audio_to_video_norm.register_forward_pre_hook(norm),
            block.audio_to_video_attn.register_forward_hook(written),
            block.video_to_audio_attn.register_forward_pre_hook(positional, with_kwargs=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    return manager


def attach(case) -> None:
    """Adds the mistakes to a case whose module is diffusers' transformer."""
    model, blocks = case.module, list(case.module.transformer_blocks)
    attentions = [m for n, m in model.named_modules() if n.endswith(("attn1", "attn2", "_attn"))]
    gates = [model.av_cross_attn_video_a2v_gate, model.av_cross_attn_audio_v2a_gate]
    case.mistakes |= {
        "patch start instead of its middle": s.broken(case, inputs=_patch_start(case)),
        "no causal fix of positions": s.broken(case, inputs=_without_causal_fix(case)),
        "video-to-audio sees the updated video": s.broken(case, *[_updated_video(b) for b in blocks]),
        "gate timestep not times 1000": s.broken(case, *[s.input_of(g, lambda t: t / 1000) for g in gates]),
        "q norm weights ignored": s.broken(case, *[s.constant(a.norm_q.weight, 1.0) for a in attentions]),
        "k norm weights ignored": s.broken(case, *[s.constant(a.norm_k.weight, 1.0) for a in attentions]),
    }
    if case.meta["config"]["transformer"].get("apply_gated_attention"):
        case.mistakes["gate without its factor 2"] = s.broken(
            case, *[s.input_of(a.to_out[0], lambda x: x / 2) for a in attentions]
        )
        adaln = [model.prompt_adaln, model.audio_prompt_adaln]
        case.removed["prompt AdaLN"] = s.broken(
            case, *[s.output_of(m, lambda o: tuple(map(torch.zeros_like, o))) for m in adaln]
        )
    for i, block in enumerate(blocks):
        for name in _SUBLAYERS:
            case.removed[f"block {i} {name}"] = s.broken(case, s.removed(getattr(block, name)))
