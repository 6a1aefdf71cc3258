"""Shared by the tests of deploy/kubernetes: the manifests as kubectl renders them, and their objects and containers."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
MANIFESTS = ROOT / "deploy" / "kubernetes"
PLACES = [ROOT / "third_party", Path("/usr/local/share/kinora")]  # of scripts/install-deps


def wheel(folder: str) -> Path:
    """Returns where scripts/install-deps puts a wheel's files."""
    return next((place / folder for place in PLACES if (place / folder).exists()), PLACES[0] / folder)


KUBECTL = wheel("kubectl") / "kubectl"
CHECKS = wheel("deploy-checks")
sys.path.insert(0, str(CHECKS))

# All kustomizations that users apply.
OVERLAYS = sorted(str(p.parent.relative_to(MANIFESTS)) for p in MANIFESTS.rglob("kustomization.yaml")
                  if p.parent.parent.name == "overlays" or p.parent.name == "describe")
# Combinations of components that are in no overlay.
COMBINATIONS = sorted(p.parent for p in (ROOT / "tests" / "deploy").glob("*/kustomization.yaml"))


@functools.lru_cache(maxsize=None)
def render(folder: Path) -> list[dict]:
    """Returns the objects of a kustomization."""
    import yaml

    done = subprocess.run([KUBECTL, "kustomize", folder], capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:  # a warning is an error
        raise AssertionError(f"kubectl kustomize {folder}: {done.stderr}")
    return list(yaml.safe_load_all(done.stdout))


def overlay(name: str) -> list[dict]:
    return render(MANIFESTS / name)


def get(objects: list[dict], kind: str, name: str) -> dict:
    [found] = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    return found


def pod_templates(objects: list[dict]) -> Iterator[tuple[dict, dict]]:
    """Yields each object that creates pods, with its pod template."""
    for o in objects:
        if o["kind"] == "LeaderWorkerSet":
            yield o, o["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        elif "template" in o.get("spec", {}):
            yield o, o["spec"]["template"]


def of_component(objects: list[dict], component: str) -> dict:
    """Returns the pod template of the frontend, the gateways or the workers."""
    [template] = [t for _, t in pod_templates(objects) if t["metadata"]["labels"]["app.kubernetes.io/component"] == component]
    return template


def program(name: str) -> Path:
    import harness

    return harness.BUILD / "bin" / name


def environment(**more: str) -> dict[str, str]:
    """Returns a container's environment, with programs from the build."""
    return {**os.environ, "PATH": f"{program('kinora').parent}:{os.environ['PATH']}", **more}
