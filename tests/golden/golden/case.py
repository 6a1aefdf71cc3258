"""One golden case: its contents, how to run its reference, and how to write it."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from golden import layouts, safetensors_file, sensitivity

Tensors = dict[str, torch.Tensor]


@dataclasses.dataclass
class Case:
    """run(module, inputs) returns the outputs; names that start with "tap." are written as taps. It must not change
    module or inputs, so that sensitivity.py can break them and run it again."""

    name: str
    module_name: str  # key of layouts.PREFIX, or "" for a case without weights
    module: nn.Module | None
    meta: dict  # {"config", "model_version"} as in Lightricks' files; {} without weights
    inputs: Tensors
    run: Callable[[nn.Module, Tensors], Tensors]
    taps: dict[str, str] = dataclasses.field(default_factory=dict)  # submodule name -> tap name
    parameters: dict = dataclasses.field(default_factory=dict)  # scalars the C++ test needs
    weights_from: str = ""  # name of the case whose file holds the weights
    mistakes: dict[str, Callable[[], Tensors]] = dataclasses.field(default_factory=dict)  # outputs with that mistake
    removed: dict[str, Callable[[], Tensors]] = dataclasses.field(default_factory=dict)  # outputs without that part
    lightricks: bool = False  # the reference is Lightricks' code
    plain: Tensors = dataclasses.field(
        default_factory=dict
    )  # written without "in.", for tools that read the file themselves
    model_file: tuple[str, Tensors] | None = None  # name and tensors of a complete single file, written beside the case
    files: dict[str, tuple[Tensors, dict[str, str]]] = dataclasses.field(
        default_factory=dict
    )  # other files written beside the case: tensors and metadata
    weights: Tensors | None = None  # single-file names; None: from `module`
    drawn: dict | None = None  # if the weights are not stored: drawn.py's description of how to draw them

    def single_file_weights(self) -> Tensors:
        if self.weights is not None:
            return self.weights
        return layouts.single_file_names(self.module_name, self.module.state_dict())


def _first(value):
    return value[0] if isinstance(value, tuple) else value


def record(case: Case) -> tuple[Tensors, Tensors]:
    """Returns (outputs, taps) of the reference."""
    taps, handles, modules = {}, [], dict(case.module.named_modules()) if case.module is not None else {}
    for submodule, tap in case.taps.items():

        def hook(_module, _args, output, tap=tap):
            taps[tap] = _first(output).detach().clone()

        handles.append(modules[submodule].register_forward_hook(hook))
    outputs = case.run(case.module, case.inputs)
    for handle in handles:
        handle.remove()
    return outputs, taps


def write(case: Case, folder: Path, versions: dict[str, str]) -> tuple[int, dict[str, list[int]]]:
    """Writes <folder>/<name>.safetensors. Returns its size and the shapes of its in, tap and out tensors."""
    outputs, taps = record(case)
    sensitivity.check(case, outputs)
    tensors = {f"in.{k}": v for k, v in case.inputs.items()} | case.plain
    tensors |= {f"tap.{k}": v for k, v in taps.items()}
    tensors |= {k if k.startswith("tap.") else f"out.{k}": v for k, v in outputs.items()}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise SystemExit(f"{case.name}: {name} is not finite")
    shapes = {k: list(v.shape) for k, v in tensors.items()}
    metadata = {
        "config": json.dumps(case.meta.get("config", {})),
        "versions": json.dumps(versions),
        "command": f"python tests/golden/export.py --only {case.name}" + " --lightricks CHECKOUT" * case.lightricks,
        "parameters": json.dumps(case.parameters),
    }
    if case.module_name:
        metadata |= {
            "model_version": case.meta.get("model_version", ""),
            "layout": "single_file",
            "prefix": layouts.PREFIX[case.module_name],
            "weights": case.weights_from or case.name,
        }
    if case.drawn:
        metadata["drawn"] = json.dumps(case.drawn, separators=(",", ":"))
    elif case.module_name and not case.weights_from:
        for name, tensor in case.single_file_weights().items():
            half = tensor.bfloat16()
            exact = torch.equal(half.float(), tensor.float())
            tensors[f"weights.{name}"] = half if exact else tensor.float()
    folder.mkdir(parents=True, exist_ok=True)
    if case.model_file:
        name, model_tensors = case.model_file
        model_metadata = {"config": json.dumps(case.meta["config"]), "model_version": case.meta["model_version"]}
        safetensors_file.save(model_tensors, folder / name, model_metadata)
    for name, (file_tensors, file_metadata) in case.files.items():
        safetensors_file.save(file_tensors, folder / name, file_metadata)
    path = folder / f"{case.name}.safetensors"
    safetensors_file.save(tensors, path, metadata)
    return path.stat().st_size, shapes
