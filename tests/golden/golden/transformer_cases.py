"""The transformer with uniform timesteps: both generations, a CFG batch (rows [uncond, cond] share the latents)."""

import torch

from golden import configs, redraw, reference, transformer_mistakes
from golden.case import Case

GRID = (3, 3, 5)  # latent frames, height, width: 45 tokens
AUDIO_TOKENS = 13
TEXT_ROWS = 21
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


def taps() -> dict[str, str]:
    """Returns submodule of the diffusers transformer -> tap: step embeddings, every sublayer of block 0."""
    found = {
        "proj_in": "video.patchify",
        "audio_proj_in": "audio.patchify",
        "time_embed": "video.adaln",
        "audio_time_embed": "audio.adaln",
    }
    return found | {f"transformer_blocks.0.{s}": f"block0.{s}.out" for s in _SUBLAYERS}


def context_widths(t: dict) -> tuple[int, int]:
    if t.get("caption_proj_before_connector"):
        return t["cross_attention_dim"], t["audio_cross_attention_dim"]
    return t["caption_channels"], t["caption_channels"]


def inputs(t: dict, sigma: float, batch: int, seed: int, fps: float, model, grid: tuple[int, int, int] = GRID) -> dict:
    gen = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=gen)

    frames, height, width = grid
    tokens = frames * height * width
    return {
        "video": normal(1, tokens, t["in_channels"]).repeat(batch, 1, 1),
        "audio": normal(1, AUDIO_TOKENS, t["audio_in_channels"]).repeat(batch, 1, 1),
        "video_context": normal(batch, TEXT_ROWS, context_widths(t)[0]),
        "audio_context": normal(batch, TEXT_ROWS, context_widths(t)[1]),
        "sigma": torch.full((batch,), sigma),
        "video_positions": model.rope.prepare_video_coords(batch, frames, height, width, "cpu", fps=fps).float(),
        "audio_positions": model.audio_rope.prepare_audio_coords(batch, AUDIO_TOKENS, "cpu").float(),
    }


def forward(model, data: dict) -> dict:
    """Returns velocities and, as taps, the streams after every block and the RoPE tables [1, heads, tokens, head_dim /
    2]."""
    found, handles = {}, []
    for i, block in enumerate(model.transformer_blocks):

        def keep(_module, _args, output, i=i):
            found[f"tap.block{i}.video"], found[f"tap.block{i}.audio"] = output[0].clone(), output[1].clone()

        handles.append(block.register_forward_hook(keep))
    for name in ("rope", "audio_rope", "cross_attn_rope", "cross_attn_audio_rope"):

        def keep_rope(_module, _args, output, name=name):
            found[f"tap.{name}.cos"], found[f"tap.{name}.sin"] = output[0][:1].clone(), output[1][:1].clone()

        handles.append(getattr(model, name).register_forward_hook(keep_rope))
    timestep = data["sigma"] * 1000
    result = model(
        hidden_states=data["video"],
        audio_hidden_states=data["audio"],
        encoder_hidden_states=data["video_context"],
        audio_encoder_hidden_states=data["audio_context"],
        timestep=timestep,
        sigma=timestep,
        video_coords=data["video_positions"],
        audio_coords=data["audio_positions"],
        use_cross_timestep=True,
    )
    for handle in handles:
        handle.remove()
    return {"video": result.sample, "audio": result.audio_sample, **found}


def _case(name: str, meta: dict, seed: int, sigma: float, fps: float) -> Case:
    t = meta["config"]["transformer"]
    model = redraw.redraw(reference.transformer(meta["config"]), seed)
    data = inputs(t, sigma, 2, seed + 1, fps, model)
    case = Case(
        name,
        "transformer",
        model,
        meta,
        data,
        forward,
        taps(),
        {"grid": GRID, "audio_tokens": AUDIO_TOKENS, "fps": fps, "batch": 2},
    )
    transformer_mistakes.attach(case)
    return case


def cases() -> list[Case]:
    return [
        _case("transformer_2_3", configs.ltx_2_3(), 11, 0.725, 24.0),
        _case("transformer_2_0", configs.ltx_2_0(), 12, 0.909375, 25.0),
    ]
