"""Renders of models/tiny with LoRAs fused into its weights, in both naming layouts."""

import torch
from torch import nn

from golden import configs, layouts, pipeline_cases, tiny
from golden.case import Case, Tensors

SEED = 20260201
STRENGTHS = {"tiny-style": 0.8, "tiny-detail": -0.5}  # for the files tests/golden/data/lora-ID.safetensors


def _drawn(modules: dict[str, nn.Linear], rank: int, seed: int) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Returns factors (down, up) by the diffusers names in `modules`. Deltas are about a third of the weights."""
    gen, found = torch.Generator().manual_seed(seed), {}
    for name, linear in modules.items():
        down = torch.randn(rank, linear.in_features, generator=gen) / linear.in_features**0.5
        up = torch.randn(linear.out_features, rank, generator=gen) * 0.3 / rank**0.5
        found[name] = (down.bfloat16(), up.bfloat16())
    return found


def linears(module: nn.Module) -> dict[str, nn.Linear]:
    return {name: part for name, part in module.named_modules() if isinstance(part, nn.Linear)}


def style(transformer: dict[str, nn.Linear]) -> dict:
    """Returns the factors of lora-tiny-style, which covers all linear layers of the transformer."""
    return _drawn(transformer, 2, SEED)


def fuse(layers: dict[str, nn.Linear], factors: dict, strength: float) -> None:
    """Adds strength · up · down to W in float32."""
    for name, (down, up) in factors.items():
        layers[name].weight.data += (strength * up.float()) @ down.float()


def _named(factors: dict, rename) -> Tensors:
    tensors = {}
    for name, (down, up) in factors.items():
        tensors |= {f"{rename(name)}.lora_A.weight": down, f"{rename(name)}.lora_B.weight": up}
    return tensors


def _lightricks(name: str) -> str:
    (renamed,) = layouts.single_file_names("transformer", {f"{name}.weight": torch.empty(0)})
    return "diffusion_model." + renamed.removesuffix(".weight")


def _render(request: dict, model: dict, changed: dict[str, float]) -> Case:
    parts = tiny.modules(configs.ltx_2_3()["config"])
    transformer, connectors = linears(parts["transformer"]), linears(parts["connectors"])
    everywhere = style(transformer)
    some = {name: linear for name, linear in transformer.items() if ".attn1." in name or "time_embed" in name}
    detail, text = _drawn(some, 3, SEED + 1), _drawn(connectors, 1, SEED + 2)
    strengths = STRENGTHS | changed
    fuse(transformer, everywhere, strengths["tiny-style"])
    fuse(transformer, detail, strengths["tiny-detail"])
    fuse(connectors, text, strengths["tiny-detail"])
    case = pipeline_cases.render_case(pipeline_cases.pipeline(parts), "pipeline_lora", request, model)
    case.parameters["loras"] = {
        name: {"file": f"tests/golden/data/lora-{name}.safetensors", "strength": strength}
        for name, strength in STRENGTHS.items()
    }
    case.files = {
        "lora-tiny-style.safetensors": (_named(everywhere, _lightricks), {}),
        "lora-tiny-detail.safetensors": (
            _named(detail, lambda name: f"transformer.{name}") | _named(text, lambda name: f"connectors.{name}"),
            {},
        ),
    }
    return case


def cases() -> list[Case]:
    request = pipeline_cases.distilled_request() | {"num_frames": 9}
    model = {"model": f"models/tiny/{tiny.FILE}"}
    case = _render(request, model, {})
    for name in STRENGTHS:
        other = _render(request, model, {name: 0.0})
        case.removed[name] = lambda other=other: other.run(None, {})
    return [case]
