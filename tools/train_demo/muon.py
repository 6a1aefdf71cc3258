"""Muon: steps along the nearest orthogonal matrix of the averaged gradient, so that no direction of a weight lags behind.

K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024); the step's length, which lets it use a
rate chosen for Adam, is that of J. Liu et al., "Muon is scalable for LLM training" (arXiv 2502.16982). torch's own
optimizer of this name takes matrices only, and most of ours are convolutions.
"""

import torch


def orthogonal(matrices: torch.Tensor, rounds: int = 5) -> torch.Tensor:
    """[count, rows, columns], each to about U V^T of its U S V^T: every singular value is brought to between 0.7 and 1.2."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).bfloat16()
    for _ in range(rounds):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return (x.mT if tall else x).float()


def takes(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The weights of `module` that are linear maps. Tables, norms and biases are not."""
    kinds = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    return [m.weight for m in module.modules() if isinstance(m, kinds) and m.weight.requires_grad]


class Muon(torch.optim.Optimizer):
    """A kernel [out, in, ...] counts as the matrix [out, in * ...]."""

    def __init__(self, parameters: list[torch.nn.Parameter], lr: float, momentum: float = 0.95):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            alike: dict[torch.Size, list[torch.nn.Parameter]] = {}  # of one shape, multiplied together
            for p in group["params"]:
                if p.grad is not None:
                    alike.setdefault(p.flatten(1).shape, []).append(p)
            for shape, parameters in alike.items():
                length = 0.2 * max(shape) ** 0.5
                steps = orthogonal(torch.stack([self._ahead(p, group["momentum"]) for p in parameters]))
                for p, step in zip(parameters, steps):
                    p.add_(step.view_as(p), alpha=-group["lr"] * length)

    def _ahead(self, p: torch.nn.Parameter, momentum: float) -> torch.Tensor:
        """Nesterov's: the averaged gradient, one more step ahead, as a matrix."""
        state = self.state[p]
        if not state:
            state["average"] = torch.zeros_like(p)
        average = state["average"].lerp_(p.grad, 1 - momentum)
        return p.grad.lerp(average, momentum).flatten(1)
