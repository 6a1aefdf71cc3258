"""Lightricks' own modules, from a checkout of their repository, for cases in which diffusers and Lightricks differ."""

import json
import sys
import types
from pathlib import Path

import torch
import transformers  # noqa: F401  (looks for torchaudio, so it comes before the stand-in below)
from safetensors import safe_open


def enable(checkout: Path) -> None:
    """Makes ltx_core and ltx_pipelines importable. They need einops and scipy (and torchaudio to encode audio)."""
    sys.path[:0] = [str(checkout / "packages" / p / "src") for p in ("ltx-core", "ltx-pipelines")]
    try:
        import torchaudio  # noqa: F401
    except ImportError:
        sys.modules["torchaudio"] = types.ModuleType("torchaudio")


def build(component: str, metadata: dict) -> torch.nn.Module:
    """Returns one module in float32 with uninitialised weights. metadata: {"config": {...}, "model_version": ...}."""
    from ltx_core.model.audio_vae import model_configurator as audio
    from ltx_core.model.transformer.model_configurator import LTXModelConfigurator
    from ltx_core.model.video_vae import model_configurator as video
    from ltx_core.text_encoders.gemma import embeddings_connector as connector

    configurators = {
        "transformer": LTXModelConfigurator,
        "video_decoder": video.VideoDecoderConfigurator,
        "video_encoder": video.VideoEncoderConfigurator,
        "audio_decoder": audio.AudioDecoderConfigurator,
        "vocoder": audio.VocoderConfigurator,
        "video_connector": connector.Embeddings1DConnectorConfigurator,
        "audio_connector": connector.AudioEmbeddings1DConnectorConfigurator,
    }
    module = configurators[component].from_metadata(metadata)
    if component == "transformer" and getattr(module, "caption_projection", None) is not None:
        for name in ("caption_projection", "audio_caption_projection"):
            getattr(module, name).to_empty(device="cpu")
    if component == "audio_decoder":  # sized by `ch` there, which only fits the released model
        d = metadata["config"]["audio_vae"]["model"]["params"]["ddconfig"]
        packed = d["z_channels"] * d["mel_bins"] // 2 ** (len(d["ch_mult"]) - 1)
        for name in ("mean-of-means", "std-of-means"):
            module.per_channel_statistics.register_buffer(name, torch.zeros(packed))
    return module.float().eval()


_KEYS = {  # component: prefixes in the single file, and their replacements
    "transformer": [("model.diffusion_model.", "")],
    "video_decoder": [("vae.decoder.", ""), ("vae.per_channel_statistics.", "per_channel_statistics.")],
    "video_encoder": [("vae.encoder.", ""), ("vae.per_channel_statistics.", "per_channel_statistics.")],
    "audio_decoder": [("audio_vae.decoder.", ""), ("audio_vae.per_channel_statistics.", "per_channel_statistics.")],
    "vocoder": [("vocoder.", "")],
    "video_connector": [("model.diffusion_model.video_embeddings_connector.", "")],
    "audio_connector": [("model.diffusion_model.audio_embeddings_connector.", "")],
}


def load(component: str, metadata: dict, tensors: dict[str, torch.Tensor]) -> torch.nn.Module:
    """Loads `tensors`, named as in the single file. Strict, except for the statistics that nothing reads."""
    module, state = build(component, metadata), {}
    for name, tensor in tensors.items():
        if component == "transformer" and "_embeddings_connector." in name:
            continue
        if "mean-of-stds" in name or name.endswith("statistics.channel"):
            continue
        for prefix, replacement in _KEYS[component]:
            if name.startswith(prefix):
                state[replacement + name.removeprefix(prefix)] = tensor.float()
    module.load_state_dict(state, strict=True)
    return module


def check_loads(path: Path) -> None:
    with safe_open(path, "pt") as f:
        metadata = {k: json.loads(v) if v.startswith("{") else v for k, v in f.metadata().items()}
        tensors = {name: f.get_tensor(name) for name in f.keys()}
    for component in _KEYS:
        load(component, metadata, tensors)
