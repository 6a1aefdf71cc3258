"""LTX-2.5 by Lightricks' own modules: the transformer without biases in the video's feed-forward, with its marker."""

import torch

from golden import configs, drawn, lightricks, lightricks_cases, reference, tiny, transformer_cases
from golden import sensitivity as s
from golden.case import Case

_APPENDED = 7  # tokens behind the grid's
_FPS = 24.0
_HEADS = {  # more than models/tiny-2.5 has, so that four ranks can share the tokens
    "num_attention_heads": 4,
    "attention_head_dim": 16,
    "cross_attention_dim": 64,
    "audio_num_attention_heads": 4,
    "audio_attention_head_dim": 8,
    "audio_cross_attention_dim": 32,
}


def _inputs(t: dict) -> dict:
    """Returns inputs of one row, with appended tokens at the positions of the grid's first ones."""
    diffusers = reference.transformer(configs.ltx_2_5()["config"])
    data = {k: v[:1] for k, v in transformer_cases.inputs(t, 0.725, 2, 26, _FPS, diffusers).items()}
    gen = torch.Generator().manual_seed(27)
    data["video"] = torch.cat([data["video"], torch.randn(1, _APPENDED, t["in_channels"], generator=gen)], 1)
    positions = data["video_positions"]
    data["video_positions"] = torch.cat([positions, positions[:, :, :_APPENDED]], 2)
    return data


def _transformer() -> Case:
    meta = configs.ltx_2_5()
    t = meta["config"]["transformer"]
    t |= _HEADS
    model = lightricks.build("transformer", meta)
    frame = transformer_cases.GRID[1] * transformer_cases.GRID[2]
    marker = torch.zeros(1, _inputs(t)["video"].shape[1], 1)
    marker[:, :frame] = 1

    def run(m, data, marked=marker):
        video = lightricks_cases.modality(data, "video", 1, keyframes_mask=marked)
        v, a = m(video, lightricks_cases.modality(data, "audio", 1), None)
        return {"video": v, "audio": a}

    description = drawn.draw({"transformer": model}, 25, f"models/tiny/{tiny.FILE}")
    parameters = {"grid": transformer_cases.GRID, "appended": _APPENDED, "fps": _FPS, "batch": 1, "marked": frame}
    case = Case("transformer_2_5", "transformer", model, meta, _inputs(t), run, {}, parameters)
    case.drawn = description

    every, appended = torch.ones_like(marker), marker.clone()
    appended[:, -_APPENDED:] = 1
    case.mistakes = {
        "no marker": lambda: run(model, case.inputs, torch.zeros_like(marker)),
        "every token marked": lambda: run(model, case.inputs, every),
        "appended tokens marked": lambda: run(model, case.inputs, appended),
        "a bias in the video's feed-forward": s.broken(
            case, s.output_of(model.transformer_blocks[0].ff, lambda output: output + 0.1)
        ),
    }
    return case


def cases() -> list[Case]:
    found = [_transformer()]
    for case in found:
        case.lightricks = True
    return found
