"""Redraws every parameter of a reference module, so that no mistake is hidden by an initialisation with ones and zeros.

Norm weights are 1 ± 0.3; biases, tables and registers N(0, 0.5); linear and convolution weights are scaled by their
fan-in so that gates and logits stay O(1). Everything is rounded to bfloat16: the files hold bfloat16 weights, and the
float32 reference uses exactly those values. Deterministic: one generator per module, parameters in their own order.
"""

import torch
from torch import nn

from golden import reference


def _draw(name: str, shape: torch.Size, owner: nn.Module, gen: torch.Generator, gain: float) -> torch.Tensor:
    normal = torch.randn(shape, generator=gen)
    if name.endswith(("alpha", "beta")):  # Snake's, as logarithms
        return 0.3 * normal
    if "norm" in name.split(".")[-2] if "." in name else False:
        spread = 0.6 * torch.rand(shape, generator=gen) - 0.3
        return spread if "Gemma3RMSNorm" in type(owner).__name__ else 1 + spread
    if isinstance(owner, nn.Embedding):
        return normal / shape[-1] ** 0.5
    if normal.ndim >= 2 and name.endswith("weight"):
        fan_in = normal[0].numel()
        if isinstance(owner, nn.ConvTranspose1d):  # [in, out, kernel]: a sample gets in · kernel / stride products
            fan_in = shape[0] * shape[2] / owner.stride[0]
        return gain * normal / fan_in**0.5
    return 0.5 * normal


def redraw(module: nn.Module, seed: int, gain: float = 1.0, gains: dict[str, float] | None = None) -> nn.Module:
    """Redraws in place and returns the module. `gains` scales tensors whose name ends with a key."""
    gen = torch.Generator().manual_seed(seed)
    owners = dict(module.named_modules())
    with torch.no_grad():
        for name, p in module.named_parameters():
            value = _draw(name, p.shape, owners[name.rpartition(".")[0]], gen, gain)
            for suffix, factor in (gains or {}).items():
                if name.endswith(suffix):
                    value = value * factor
            p.copy_(value)
        for name, b in module.named_buffers():
            if name.endswith("latents_mean"):
                b.copy_(0.3 * torch.randn(b.shape, generator=gen))
            elif name.endswith("latents_std"):
                b.copy_(0.7 + 0.6 * torch.rand(b.shape, generator=gen))
        for tensor in module.state_dict().values():  # excludes buffers that no file holds; they are computed in float32
            if tensor.dtype == torch.float32:
                tensor.copy_(tensor.bfloat16().float())
    return module


def redraw_vocoder(module: nn.Module, config: dict, seed: int) -> nn.Module:
    """Like redraw, but the bandwidth extension has its real bases, and the clamps have a small effect."""
    extended = "bwe" in config["vocoder"]
    redraw(module, seed, gains={"conv_out.weight": 0.08 if extended else 0.6, "bwe_generator.conv_out.weight": 0.12})
    if extended:
        b = config["vocoder"]["bwe"]
        bases = reference.stft_bases(b["n_fft"], b["num_mels"], b["input_sampling_rate"])
        stft = module.mel_stft
        for buffer, basis in zip(
            (stft.stft_fn.forward_basis, stft.stft_fn.inverse_basis, stft.mel_basis), bases, strict=True
        ):
            buffer.copy_(basis.bfloat16().float())
    return module
