"""Whole renders: kinora-render beside diffusers' pipeline, each in a process of its own, taking turns."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from bench import machine, models

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


def _ours(program: Path, folder: Path, size: str, precision: str, threads: int) -> dict:
    path, output = folder / "request.json", folder / "clip.mp4"
    path.write_text(json.dumps(request(size)))
    command = [program, "--model", folder / models.MODEL_FILE, "--model", f"text_encoder={folder / 'gemma'}"]
    command += ["--request", path, "--output", output, "--precision", precision, "--threads", str(threads), "--json", "--quiet"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watch = machine.PeakMemory(process.pid)
    summary = json.loads(process.communicate()[0])
    peak = watch.stop()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        raise SystemExit("kinora-render failed; its message is above")
    seconds = summary["seconds"]
    return {
        "wall": sum(v for k, v in seconds.items() if k not in ("total", "load")),
        "load": seconds["load"],
        "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,  # with loading
        "peak": peak,
        "stages": seconds,
    }


def with_diffusers(folder: Path, size: str, precision: str, threads: int) -> None:
    """The other process: prints "ready", renders once for every line on stdin, prints what that took."""
    import torch
    from diffusers import FlowMatchEulerDiscreteScheduler
    from diffusers.pipelines.ltx2.pipeline_ltx2 import LTX2Pipeline
    from transformers import AutoTokenizer

    from golden import pipeline_cases

    torch.set_num_threads(threads)
    dtype = torch.float32 if precision == "f32" else torch.bfloat16
    started = time.perf_counter()
    imports = machine.anonymous()
    parts = {name: models.load(size, folder, name, dtype) for name in (*models.NAMES, "gemma")}
    pipe = LTX2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=False, shift_terminal=None),
        vae=parts["video_vae"],
        audio_vae=parts["audio_vae"],
        text_encoder=parts["gemma"],
        tokenizer=AutoTokenizer.from_pretrained(folder / "gemma"),
        connectors=parts["connectors"],
        transformer=parts["transformer"],
        vocoder=parts["vocoder"],
    )
    pipe.set_progress_bar_config(disable=True)
    print(json.dumps({"load": time.perf_counter() - started, "imports": imports}), flush=True)
    wanted = request(size)

    def render() -> None:
        pipe(
            prompt=wanted["prompt"],
            negative_prompt=wanted["negative_prompt"],
            width=wanted["width"],
            height=wanted["height"],
            num_frames=wanted["num_frames"],
            frame_rate=wanted["frame_rate"],
            sigmas=wanted["sigmas"][:-1],
            num_inference_steps=len(wanted["sigmas"]) - 1,
            generator=torch.Generator().manual_seed(int(wanted["seed"])),
            output_type="np",
            return_dict=False,
            **pipeline_cases._guidance(wanted),
        )

    for _ in sys.stdin:
        wall, processor = machine.timed(render)
        print(json.dumps({"wall": wall, "processor": processor}), flush=True)


def compare(program: Path, folder: Path, size: str, precision: str, threads: int, runs: int) -> dict:
    """Ours: requests as kinora-render reports them, MP4 included, loading apart. Theirs: calls of the pipeline."""
    script = Path(__file__).resolve().parents[1] / "compare_diffusers.py"
    command = [sys.executable, script, "--work", folder, "--size", size, "--threads", str(threads)]
    command += ["--serve-diffusers", precision]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer() -> dict:
        line = process.stdout.readline()
        if not line:
            raise SystemExit("diffusers' side ended; its message is above")
        return json.loads(line)

    loaded = answer()
    watch = machine.PeakMemory(process.pid)  # loading is not counted: it is this script's, not diffusers'
    ours, theirs = [], []
    for _ in range(runs):
        ours.append(_ours(program, folder, size, precision, threads))
        process.stdin.write("\n")
        process.stdin.flush()
        theirs.append(answer())
    peak = watch.stop()
    process.stdin.close()
    process.wait()
    return {
        "ours": machine.median(r["wall"] for r in ours),
        "ours_processor": machine.median(r["processor"] for r in ours),
        "ours_load": machine.median(r["load"] for r in ours),
        "ours_peak": max(r["peak"] for r in ours),
        "stages": ours[-1]["stages"],
        "diffusers": machine.median(r["wall"] for r in theirs),
        "diffusers_processor": machine.median(r["processor"] for r in theirs),
        "diffusers_peak": peak,
        "diffusers_imports": loaded["imports"],
    }
