"""Models with the released head sizes (video 128, audio 64), two heads each, with drawn weights (drawn.py).

released_heads_*: the four passes of the default guidance through two blocks. pipeline_released_heads_*: whole renders.
"""

import contextlib
from collections.abc import Iterator

import torch

from golden import configs, drawn, pipeline_cases, reference, tiny, transformer_cases, transformer_mistakes
from golden import sensitivity as s
from golden.case import Case

_GRID = (2, 3, 5)  # latent frames, height, width: 30 tokens
_TEXT_ROWS = 128  # of the whole renders: model_max_length of the text encoder folder
_HEADS = {
    "num_layers": 2,
    "num_attention_heads": 2,
    "attention_head_dim": 128,
    "cross_attention_dim": 256,
    "audio_num_attention_heads": 2,
    "audio_attention_head_dim": 64,
    "audio_cross_attention_dim": 128,
}
_CONNECTOR_HEADS = {
    "connector_num_attention_heads": 2,
    "connector_attention_head_dim": 128,
    "audio_connector_num_attention_heads": 2,
    "audio_connector_attention_head_dim": 64,
}


def _forward(model, data: dict, stg_blocks: list[int]) -> dict:
    """Returns velocities of [uncond, cond, STG, isolated modalities] and, as taps, the streams after block 0."""
    outputs, taps = [], {"video": [], "audio": []}

    def keep(_module, _args, output):
        taps["video"].append(output[0].clone())
        taps["audio"].append(output[1].clone())

    handle = model.transformer_blocks[0].register_forward_hook(keep)
    for rows, changes in (
        ([0, 1], {}),
        ([1], {"spatio_temporal_guidance_blocks": stg_blocks}),
        ([1], {"isolate_modalities": True}),
    ):
        timestep = data["sigma"].expand(len(rows)) * 1000
        result = model(
            hidden_states=data["video"].expand(len(rows), -1, -1),
            audio_hidden_states=data["audio"].expand(len(rows), -1, -1),
            encoder_hidden_states=data["video_context"][rows],
            audio_encoder_hidden_states=data["audio_context"][rows],
            timestep=timestep,
            sigma=timestep,
            video_coords=data["video_positions"].expand(len(rows), -1, -1, -1),
            audio_coords=data["audio_positions"].expand(len(rows), -1, -1, -1),
            use_cross_timestep=True,
            **changes,
        )
        outputs.append((result.sample, result.audio_sample))
    handle.remove()
    return {
        "video": torch.cat([video for video, _ in outputs]),
        "audio": torch.cat([audio for _, audio in outputs]),
        **{f"tap.block0.{stream}": torch.cat(values) for stream, values in taps.items()},
    }


def _normalised_per_head(norm, heads: int):
    """Takes the norm's mean square within each head."""

    @contextlib.contextmanager
    def manager() -> Iterator[None]:
        def forward(x):
            split = x.unflatten(-1, (heads, -1))
            normed = split * torch.rsqrt(split.pow(2).mean(-1, keepdim=True) + norm.eps)
            return normed.flatten(-2) * norm.weight

        norm.forward = forward
        try:
            yield
        finally:
            del norm.forward

    return manager


def _attach_mistakes(case: Case) -> None:
    transformer_mistakes.attach(case)
    model = case.module
    norms = [m for n, m in model.named_modules() if n.endswith(("norm_q", "norm_k"))]
    ropes = [getattr(model, name) for name in ("rope", "audio_rope", "cross_attn_rope", "cross_attn_audio_rope")]
    first_head = [s.output_of(r, lambda o: tuple(t[:, :1].expand_as(t) for t in o)) for r in ropes]
    case.mistakes |= {
        "every head rotated as the first": s.broken(case, *first_head),
        "norm within each head": s.broken(case, *[_normalised_per_head(n, 2) for n in norms]),
    }

    def rows(order):
        found = case.run(model, case.inputs)
        return found | {k: found[k][order] for k in ("video", "audio")}

    case.mistakes |= {
        "conditions swapped": lambda: rows([1, 0, 2, 3]),
        "STG pass not perturbed": lambda: rows([0, 1, 1, 3]),
        "modality pass with cross-attention": lambda: rows([0, 1, 2, 1]),
    }


def _generation(suffix: str, meta: dict, parts: dict, base: str, seed: int, stg_block: int) -> list[Case]:
    config = meta["config"]
    t, text = config["transformer"], configs.GEMMA
    parts |= {
        "transformer": reference.transformer(config),
        "connectors": reference.connectors(config, text["num_hidden_layers"] + 1, text["hidden_size"]),
    }
    description = drawn.draw({k: parts[k] for k in ("transformer", "connectors")}, seed, base)
    model, name = parts["transformer"], f"released_heads_{suffix}"
    data = transformer_cases.inputs(t, 0.725, 2, seed + 1, 24.0, model, _GRID)
    for key in ("video", "audio", "video_positions", "audio_positions", "sigma"):
        data[key] = data[key][:1]
    parameters = {"grid": _GRID, "fps": 24.0, "stg_blocks": [stg_block]}
    passes = Case(name, "transformer", model, meta, data, lambda m, d: _forward(m, d, [stg_block]), {}, parameters)
    passes.drawn = description
    _attach_mistakes(passes)

    request = pipeline_cases.one_stage_request() | {
        "prompt": "A red fox runs through a snowy forest at dawn. Soft piano music plays.",
        "sigmas": [1.0, 0.85, 0.4, 0.0],
        "seed": str(seed),
    }
    for key in ("video_guidance", "audio_guidance"):
        request[key] = request[key] | {"stg_blocks": [stg_block]}
    how = {"drawn": name, "text_rows": _TEXT_ROWS, "frame_stride": 6}
    render = pipeline_cases.render_case(pipeline_cases.pipeline(parts), f"pipeline_{name}", request, how)
    return [passes, render]


def cases() -> list[Case]:
    new, old = configs.ltx_2_3(), configs.ltx_2_0_small()
    new_parts, old_parts = tiny.modules(new["config"]), tiny.modules(old["config"], tiny.SEED + 100)
    new["config"]["transformer"] |= _HEADS | _CONNECTOR_HEADS
    old["config"]["transformer"] |= _HEADS
    return [
        *_generation("2_3", new, new_parts, f"models/tiny/{tiny.FILE}", 23, 1),
        *_generation("2_0", old, old_parts, "tests/golden/data/ltx-2.0-tiny.safetensors", 20, 0),
    ]
