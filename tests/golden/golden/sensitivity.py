"""Can a case detect a mistake?

Every known mistake and every removed part must change the outputs by far more than the tolerance of the C++ tests, or
the case is rejected.

A mistake is a function without arguments that returns the outputs of the broken reference; `broken` makes one.
"""

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import nn

F32_TOLERANCE = 1e-5
BF16_TOLERANCE = 2e-2
MISTAKE = 100 * F32_TOLERANCE
REMOVED = max(MISTAKE, 2 * BF16_TOLERANCE)


def broken(
    case, *managers: Callable[[], contextlib.AbstractContextManager], inputs: dict | None = None
) -> Callable[[], dict]:
    def run() -> dict:
        with contextlib.ExitStack() as stack:
            for manager in managers:
                stack.enter_context(manager())
            return case.run(case.module, case.inputs | (inputs or {}))

    return run


@contextlib.contextmanager
def _hook(register, function) -> Iterator[None]:
    handle = register(function)
    try:
        yield
    finally:
        handle.remove()


def output_of(module: nn.Module, change: Callable) -> Callable:
    """change(output) replaces the module's output."""
    return lambda: _hook(module.register_forward_hook, lambda _m, _a, output: change(output))


def input_of(module: nn.Module, change: Callable) -> Callable:
    """change(first argument) replaces the module's first positional argument."""
    return lambda: _hook(module.register_forward_pre_hook, lambda _m, args: (change(args[0]), *args[1:]))


def removed(module: nn.Module) -> Callable:
    """Makes the module return zeros."""
    return output_of(module, torch.zeros_like)


def swapped(owner: object, name: str, value) -> Callable:
    """Sets owner.name to `value` temporarily."""

    @contextlib.contextmanager
    def manager() -> Iterator[None]:
        old = getattr(owner, name)
        setattr(owner, name, value)
        try:
            yield
        finally:
            setattr(owner, name, old)

    return manager


def constant(parameter: torch.Tensor, value: float) -> Callable:
    """Sets every element of the parameter to `value` temporarily."""

    @contextlib.contextmanager
    def manager() -> Iterator[None]:
        old = parameter.clone()
        parameter.fill_(value)
        try:
            yield
        finally:
            parameter.copy_(old)

    return manager


def moved(outputs: dict, other: dict) -> float:
    """Returns the largest relative L2 change of any output (taps do not count)."""
    changes = [
        float((other[k] - v).norm() / v.norm())
        for k, v in outputs.items()
        if not k.startswith("tap.") and v.is_floating_point() and other[k].shape == v.shape
    ]
    if any(other[k].shape != v.shape for k, v in outputs.items()):
        return float("inf")
    return max(changes)


def check(case, outputs: dict) -> None:
    weak = []
    for kind, limit in (("mistakes", MISTAKE), ("removed", REMOVED)):
        for name, run in getattr(case, kind).items():
            by = moved(outputs, run())
            print(f"        {kind[:7]} {name}: {by:.1e}")
            if not by >= limit:
                weak.append(f"{name} moves the outputs by {by:.1e}, less than {limit:.0e}")
    if weak:
        raise SystemExit(f"{case.name} refused:\n" + "\n".join(weak))
