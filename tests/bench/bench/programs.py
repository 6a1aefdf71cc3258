"""Kinora's side of the comparisons: the parts of a model and their sizes, the request of a whole render, and
model_bench.

Does not need torch; the other modules do, except inputs.py and machine.py.
"""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODEL_FILE, UPSAMPLER_FILE = "model.safetensors", "upsampler.safetensors"
DIFFUSION_FILE = "diffusion_vae.safetensors"
# tokens: frames, height, width
VIDEO_GRIDS = {"384": (4, 8, 12), "768": (6, 8, 16), "1536": (6, 16, 16), "3072": (12, 16, 16)}
LATENT = {"tiny": (2, 3, 4), "mid": (3, 8, 8)}
DIFFUSION_LATENT = (3, 3, 3)  # diffusers' attention has a matrix of all queries and keys
TEXT_ROWS, PROMPTS, PROMPT_TOKENS = 1024, 2, 256

_TERMS = {"cfg_scale": 3.0, "stg_scale": 1.0, "stg_blocks": [0], "modality_scale": 3.0, "rescale": 0.7}
REQUEST = {
    "prompt": "A red fox runs through a snowy forest at dawn, the camera pans left. Soft piano music plays.",
    "negative_prompt": "blurry, low quality, watermark, subtitles",
    "frame_rate": 24.0,
    "seed": "10",
    "recipe": "ONE_STAGE",
    "sigmas": [1.0, 0.85, 0.4, 0.0],
    "video_guidance": _TERMS,
    "audio_guidance": _TERMS | {"cfg_scale": 7.0},
}
SIZES = {"tiny": (64, 64, 9), "mid": (256, 256, 17)}


def request(size: str) -> dict:
    width, height, frames = SIZES[size]
    return REQUEST | {"width": width, "height": height, "num_frames": frames}


def with_default_blocks(request: dict) -> dict:
    """Returns the request with STG in the model's default block, which is not the first one."""
    guidance = ("video_guidance", "audio_guidance")
    return request | {of: {k: v for k, v in request[of].items() if k != "stg_blocks"} for of in guidance}


def cases(size: str) -> list[tuple[str, str, tuple[int, ...]]]:
    """Returns (name, part, shape) tuples; shape is frames, height and width of a latent, or Gemma's prompts and
    tokens."""
    grids = {"12": (2, 2, 3)} if size.startswith("tiny") else VIDEO_GRIDS
    found = [(f"transformer, {name} video tokens", "transformer", grid) for name, grid in grids.items()]
    latent = LATENT[size.removesuffix("-2.5")]
    pixels = f"{32 * latent[2]} x {32 * latent[1]} x {8 * (latent[0] - 1) + 1}"
    found.append((f"video decoder, {pixels}", "video_decoder", latent))
    if size.endswith("-2.5"):
        found.append(("diffusion decoder, 96 x 96 x 17", "diffusion_decoder", DIFFUSION_LATENT))
    found.append((f"video encoder, {pixels}", "video_encoder", latent))
    found.append((f"upsampler, {latent[0]} x {latent[1]} x {latent[2]} cells", "upsampler", latent))
    found.append((f"Gemma, {PROMPTS} x {PROMPT_TOKENS} tokens", "gemma", (PROMPTS, PROMPT_TOKENS)))
    return found


def written(folder: Path) -> list[str]:
    """Returns kinora-render's --model arguments for the model that models.write wrote."""
    return [str(folder / MODEL_FILE), f"text_encoder={folder / 'gemma'}", f"spatial_upsampler={folder / UPSAMPLER_FILE}"]


def committed() -> list[str]:
    """Returns those for models/tiny."""
    tiny = ROOT / "models" / "tiny"
    upsampler = ROOT / "tests" / "golden" / "data" / "upsampler-tiny-x2.safetensors"
    return [str(tiny / "ltx-2.3-tiny-dev.safetensors"), f"text_encoder={tiny / 'gemma'}", f"spatial_upsampler={upsampler}"]


class Ours:
    """A model_bench process that has loaded its part; `run` runs it once."""

    def __init__(self, program: Path, part: str, precision: str, threads: int, inputs: Path, model: list[str]):
        needed = [name for name in model if part == "upsampler" or not name.startswith("spatial_upsampler=")]
        if part == "diffusion_decoder":
            needed.append(f"video_vae={Path(model[0]).with_name(DIFFUSION_FILE)}")
        command = [program, part, precision, str(threads), inputs, *needed]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = self._ask(None).split()
        self.gflop, self.arena_mib = float(ready[1]), float(ready[2])

    def _ask(self, line: str | None) -> str:
        if line is not None:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("model_bench ended; its message is above")
        return answer

    def run(self) -> tuple[float, float]:
        wall, processor = self._ask("").split()
        return float(wall), float(processor)

    def save(self, path: Path) -> None:
        self._ask(f"save {path}")

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
