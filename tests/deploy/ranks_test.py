#!/usr/bin/env python3
"""Runs the pods of the overlays with several ranks as processes: two pods of two ranks form a group of four on the CPU,
which joins over TLS with a token and makes a clip. If a rank is killed, its pod ends, and restarted pods form the group
again. SIGTERM ends a pod with status 0."""

import copy
import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import manifests
import harness
import pods

START_RANKS = manifests.MANIFESTS / "components/ranks/start-ranks"
ADDRESS = "0.0.0.0:$((8481 - first))"
TINY = harness.ROOT / "models" / "tiny"


def two_pods_of_two(objects: list[dict]) -> list[dict]:
    """Returns the objects adapted to a small model: only the mesh and the number of ranks per pod change."""
    text = str(objects)
    assert "guidance=2,tokens=4" in text and "processes: 8" in text
    worker = manifests.of_component(objects, "worker")["spec"]["containers"][0]
    [ranks] = [e for e in worker["env"] if e["name"] == "RANKS_PER_POD"]
    ranks["value"] = "2"
    for o in objects:
        if o["kind"] == "ConfigMap":
            o["data"] = {k: v.replace("guidance=2,tokens=4", "guidance=2,tokens=2").replace("processes: 8", "processes: 4")
                         for k, v in o["data"].items()}
    return objects


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Ranks(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        objects = two_pods_of_two(copy.deepcopy(manifests.overlay("overlays/multi-host")))
        secrets = {"kinora-tls": pods.make_tls(self.root / "tls"), "kinora-tokens": pods.make_tokens()}
        models = "".join(f'\nmodel: "{flag.removeprefix("--model=")}"' for flag in pods.model_flags(TINY))
        self.cluster = pods.Cluster(self.root, objects, secrets, {
            'model: "/models/ltx-2.3/ltx-2.3-22b-dev.safetensors"\nmodel: "text_encoder=/models/gemma-3-12b"': models + "\nthreads: 4"})
        self.worker = manifests.of_component(objects, "worker")
        self.frontend = pods.Container(self.cluster, manifests.of_component(objects, "frontend"), "frontend").start()
        self.addCleanup(self.frontend.stop)
        self.frontend.await_log('"event":"serving"')

    def pod(self, index: int) -> pods.Container:
        pod = pods.Container(self.cluster, self.worker, f"kinora-worker-0-{index}",
                             {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": str(index), "GROUP_INDEX": "0"})
        script = Path(pod.command[1])  # both pods share this machine: the kernel chooses ports
        script.unlink()
        text = START_RANKS.read_text()
        self.assertIn(ADDRESS, text)
        script.write_text(text.replace(ADDRESS, "127.0.0.1:0"))
        self.addCleanup(pod.stop)
        return pod.start()

    def clip(self) -> None:
        token, clip = self.root / "token", self.root / "clip.mp4"
        token.write_text(self.cluster.secrets["kinora-tokens"]["clients"])
        token.chmod(0o600)
        (self.root / "ca.crt").write_text(self.cluster.secrets["kinora-tls"]["ca.crt"])
        done = subprocess.run(
            [manifests.program("kinora"), "generate", "a red fox", "--server", f"localhost:{self.cluster.port(8470)}",
             "--tls-ca", self.root / "ca.crt", "--token-file", token, "--width=64", "--height=64", "--frames=9", "-o", clip], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr + "".join(self.frontend.log))
        self.assertGreater(clip.stat().st_size, 0)

    def test_two_pods_are_a_group_and_come_back_as_one(self) -> None:
        group = [self.pod(0), self.pod(1)]
        self.frontend.await_log('"event":"group_ready"')
        for pod in group:
            seen = 0
            for _ in range(2):  # ranks of a pod
                line = pod.await_log('"event":"pages"', seen)
                seen = pod.log.index(line, seen) + 1
                self.assertEqual(pods.fetch(f"http://127.0.0.1:{json.loads(line)['http_port']}/readyz")[0], 200)
        self.clip()
        seen = len(self.frontend.log)
        os.kill(children(group[1].process.pid)[1], signal.SIGKILL)
        self.assertEqual([pod.process.wait(timeout=60) for pod in group], [75, 128 + signal.SIGKILL], "".join(group[0].log))
        group = [self.pod(0), self.pod(1)]
        self.frontend.await_log('"event":"group_ready"', seen)
        self.clip()
        self.assertEqual(group[1].stop(), 0)
        self.assertEqual(group[0].process.wait(timeout=60), 75)  # its group is lost

    def test_a_wrong_flag_is_the_pods_status(self) -> None:
        pod = pods.Container(self.cluster, self.worker, "wrong", {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "2", "GROUP_INDEX": "0"})
        pod.start()
        self.assertEqual(pod.process.wait(timeout=60), 2)  # rank 4 of 4

    def test_a_pod_that_is_told_while_it_starts_ends(self) -> None:
        programs = self.root / "programs"  # ranks that end on SIGTERM; the first one signals its pod
        programs.mkdir()
        (programs / "kinora-worker").write_text(
            "#!/bin/bash\ncase $* in *--rank=0*) kill -TERM $PPID;; esac\nexec tail -f /dev/null\n")
        (programs / "kinora-worker").chmod(0o755)
        done = subprocess.run(["bash", START_RANKS], timeout=60, capture_output=True, text=True, env={
            **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "RANKS_PER_POD": "50"})
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    harness.main(programs=["bash", "openssl"], folders=[str(manifests.KUBECTL), str(manifests.CHECKS)])
