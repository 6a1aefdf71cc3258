#!/usr/bin/env python3
"""Starts the pods of the overlay cpu-demo with `podman kube play` from the project's images and has them make a clip over
gRPC and one over HTTP.

Needs root and its own network namespace. scripts/test-pods and scripts/test-images (with the images it has built) run
it.

Differences from a cluster: each StatefulSet or Deployment is one Pod on the namespace's network, there is no Service, fsGroup and the
claims are folders created for the user, and the test itself calls the probes."""

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import manifests
import harness

NAMESPACE = f"kinora-pods-{os.getpid()}"
PORTS = {"frontend": 8480, "worker": 8481, "gateway": 8472}  # of the probes
USER = 10001


def pod_of(objects: list[dict], component: str, images: dict[str, str], folders: dict[str, Path]) -> dict:
    """Returns the first pod of a component."""
    template = copy.deepcopy(manifests.of_component(objects, component))
    name, spec = f"kinora-{component}-0", template["spec"]
    spec["hostNetwork"] = True
    container = spec["containers"][0]
    container["image"] = images[container["image"].split(":")[0]]
    container["imagePullPolicy"] = "Never"
    container.pop("ports")  # it shares the network
    container.pop("lifecycle", None)  # podman does not support sleep
    container["args"] = [a.replace("$(POD_NAME)", name) for a in container["args"]]  # nor the downward API
    container["args"] = [a.replace("--frontend=kinora:", "--frontend=localhost:") for a in container["args"]]  # there is no Service
    container.pop("env", None)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):  # systemd timers in podman; the test calls them
        container.pop(probe)
    volumes = [v for v in spec["volumes"] if "configMap" in v]
    for mount in container["volumeMounts"]:
        if mount["name"] not in [v["name"] for v in volumes]:
            folder = folders.get(mount["name"]) or folders["*"] / component / mount["name"]
            volumes.append({"name": mount["name"], "hostPath": {"path": str(folder), "type": "Directory"}})
            if mount["name"] not in folders:
                folder.mkdir(parents=True)
                os.chown(folder, 0, USER)  # replaces fsGroup
                folder.chmod(0o2775)
    spec["volumes"] = volumes
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": name}, "spec": spec}


class Pods:
    def __init__(self, folder: Path):
        self.folder = folder
        limits = subprocess.run(["bash", "-c", "ulimit -Hn; ulimit -Hu"], capture_output=True, text=True, check=True).stdout.split()
        (folder / "containers.conf").write_text(
            f'[containers]\ndefault_ulimits = ["nofile={limits[0]}:{limits[0]}", "nproc=4096:4096"]\n'
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n')
        self.env = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}

    def inside(self, *command: object) -> subprocess.CompletedProcess:
        return subprocess.run(["nsenter", f"--net=/run/netns/{NAMESPACE}", *map(str, command)], env=self.env, capture_output=True, text=True)

    def podman(self, *command: object) -> str:
        done = self.inside("podman", *command)
        if done.returncode != 0:
            raise AssertionError(f"podman {' '.join(map(str, command))}: {done.stderr}")
        return done.stdout

    def await_page(self, url: str) -> None:
        patience = ["--retry", str(harness.START_SECONDS), "--retry-delay", "1", "--retry-max-time", str(harness.START_SECONDS)]
        done = self.inside("curl", "-sSf", "--max-time", "10", *patience, "--retry-all-errors", "-o", "/dev/null", url)
        if done.returncode != 0:
            raise AssertionError(f"{url} does not answer: {done.stderr}\n" + self.logs())

    def logs(self) -> str:
        return "".join(self.inside("podman", "logs", f"kinora-{of}-0-{of}").stderr for of in PORTS)


def check_container(pods: Pods, of: str) -> None:
    """Checks the permissions of the container's process, as the kernel reports them."""
    pid = json.loads(pods.podman("inspect", f"kinora-{of}-0-{of}"))[0]["State"]["Pid"]
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert status["Uid"].split() == [str(USER)] * 4, status["Uid"]
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0, status["CapEff"]
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), status
    root = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines() if line.split()[1] == "/"]
    assert "ro" in root[-1][3].split(","), root


def make_clip_over_http(pods: Pods) -> None:
    api, clip = "http://127.0.0.1:8472/v1/videos", pods.folder / "http.mp4"
    made = pods.inside("curl", "-sSf", api, "-F", "prompt=a red circle stays still on a white background", "-F", "num_inference_steps=4")
    assert made.returncode == 0, made.stderr + pods.logs()
    id = json.loads(made.stdout)["id"]
    events = pods.inside("curl", "-sSfN", f"{api}/{id}/events")
    assert "\nevent: terminal\n" in events.stdout, events.stdout + pods.logs()
    assert pods.inside("curl", "-sSf", "-o", clip, f"{api}/{id}/content").returncode == 0
    assert clip.read_bytes()[4:8] == b"ftyp"
    print(f"over HTTP: {clip.stat().st_size} bytes")


def play(pods: Pods, images: dict[str, str]) -> None:
    import yaml

    objects = manifests.overlay("overlays/cpu-demo")
    folders = {"models": harness.ROOT / "models", "*": pods.folder / "volumes"}
    made = copy.deepcopy([o for o in objects if o["kind"] == "ConfigMap"])
    for o in made:  # there is no Service
        o["data"] = {k: v.replace("kinora-frontend:", "localhost:") for k, v in o["data"].items()}
    made += [pod_of(objects, of, images, folders) for of in PORTS]
    (pods.folder / "pods.yaml").write_text(yaml.safe_dump_all(made))
    try:
        pods.podman("kube", "play", pods.folder / "pods.yaml")
        for of, port in PORTS.items():
            container = manifests.of_component(objects, of)["spec"]["containers"][0]
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                pods.await_page(f"http://127.0.0.1:{port}{container[probe]['httpGet']['path']}")
            check_container(pods, of)
        clip = pods.folder / "clip.mp4"
        done = pods.inside(manifests.program("kinora"), "generate", "a yellow triangle moves up on a blue background",
                           "--server=127.0.0.1:8470", "-o", clip)
        assert done.returncode == 0, done.stderr + pods.logs()
        print(done.stdout.strip())
        make_clip_over_http(pods)
        for of in ("gateway", "worker", "frontend"):  # all end by themselves
            pods.podman("stop", "--time=40", f"kinora-{of}-0-{of}")
            state = json.loads(pods.podman("inspect", f"kinora-{of}-0-{of}"))[0]["State"]
            assert state["ExitCode"] == 0, f"{of} ended with {state['ExitCode']}\n" + pods.logs()
    finally:
        pods.inside("podman", "kube", "down", pods.folder / "pods.yaml")  # also if the play was incomplete


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=harness.BUILD)
    parser.add_argument("--frontend-image", default="localhost/kinora-frontend")
    parser.add_argument("--gateway-image", default="localhost/kinora-gateway")
    parser.add_argument("--worker-image", default="localhost/kinora-worker-cpu")
    arguments = parser.parse_args()
    harness.BUILD = arguments.build
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            play(Pods(Path(folder)), {"kinora/frontend": arguments.frontend_image, "kinora/gateway": arguments.gateway_image,
                                       "kinora/worker-cpu": arguments.worker_image})
    finally:
        subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)


if __name__ == "__main__":
    sys.exit(main())
