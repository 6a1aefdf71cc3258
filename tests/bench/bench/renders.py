"""Whole renders with kinora-render and with diffusers' pipeline, each in a separate process, alternately."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from bench import machine, models, programs


def _ours(program: Path, folder: Path, size: str, precision: str, threads: int) -> dict:
    path, output = folder / "request.json", folder / "clip.mp4"
    path.write_text(json.dumps(programs.request(size)))
    command = [program, *(f"--model={file}" for file in programs.written(folder)[:2])]
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
        "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,  # includes loading
        "peak": peak,
        "stages": seconds,
    }


def with_diffusers(folder: Path, size: str, precision: str, threads: int) -> None:
    """The process with diffusers: prints "ready", then renders once per line on stdin and prints the measurements."""
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
    wanted = programs.request(size)

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
            **pipeline_cases.guidance(wanted),
        )

    for _ in sys.stdin:
        wall, processor = machine.timed(render)
        print(json.dumps({"wall": wall, "processor": processor}), flush=True)


def compare(program: Path, folder: Path, size: str, precision: str, threads: int, runs: int) -> dict:
    """Compares kinora-render's requests (including MP4, without loading) with calls of diffusers' pipeline."""
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
    watch = machine.PeakMemory(process.pid)  # excludes loading, which this script does, not diffusers
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
