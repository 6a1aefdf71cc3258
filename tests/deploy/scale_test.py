#!/usr/bin/env python3
"""From no worker at all to one, and back, without losing a job: the frontend and the worker of the overlay `autoscaled` run as its
pods would, a real Prometheus reads their pages, and the test does what KEDA does with the query of the ScaledObject."""

import json
import re
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.parse
from pathlib import Path

import manifests
import harness
import pods

TINY = harness.ROOT / "models" / "tiny"


class Prometheus:
    """Reads the pods' pages as the monitors say, every second."""

    def __init__(self, folder: Path, targets: dict[str, int]):
        folder.mkdir()
        self.port = harness.free_port()
        jobs = [{"job_name": name, "scrape_interval": "1s", "static_configs": [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": "kinora", "pod": name}}]} for name, port in targets.items()]
        (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": jobs}))  # which YAML contains
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"], stderr=subprocess.DEVNULL)

    def values(self, query: str) -> list[float]:
        status, text = pods.fetch(f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        return [float(r["value"][1]) for r in json.loads(text)["data"]["result"]] if status == 200 else []

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)


class Scale(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        objects = manifests.overlay("overlays/autoscaled")
        description = {"kind": "ConfigMap", "metadata": {"name": "kinora-models"}, "data": {"model.textproto": pods.describe(TINY)}}
        secrets = {"kinora-tls": pods.make_tls(self.root / "tls"), "kinora-tokens": pods.make_tokens()}
        models = "".join(f'\nmodel: "{flag.removeprefix("--model=")}"' for flag in pods.model_flags(TINY)) + "\nthreads: 1"
        self.cluster = pods.Cluster(self.root, [*objects, description], secrets, {
            'model: "/models/ltx-2.3/ltx-2.3-22b-distilled-1.1.safetensors"\nmodel: "text_encoder=/models/gemma-3-12b"': models})
        self.scaler = manifests.get(objects, "ScaledObject", "kinora-worker")["spec"]
        self.trigger = self.scaler["triggers"][0]["metadata"]
        self.frontend = pods.Container(self.cluster, manifests.of_component(objects, "frontend"), "kinora-frontend-0").start()
        self.addCleanup(lambda: self.frontend.stop())
        self.frontend.await_log('"event":"serving"')
        self.template = manifests.of_component(objects, "worker")
        self.worker_port = self.cluster.port(8481)
        self.prometheus = Prometheus(self.root / "prometheus", {"frontend": self.frontend.port_of("http"), "worker": self.worker_port})
        self.addCleanup(self.prometheus.stop)
        (self.root / "token").write_text(secrets["kinora-tokens"]["clients"])
        (self.root / "token").chmod(0o600)

    def kinora(self, *words: object) -> str:
        command = [str(w) for w in words[:1]] + ["--server", f"localhost:{self.cluster.port(8470)}", "--tls-ca", str(self.root / "tls/tls.crt"),
                                                 "--token-file", str(self.root / "token")] + [str(w) for w in words[1:]]
        return harness.run([str(manifests.program("kinora")), *command], self.root)

    def await_replicas(self, wanted: int) -> None:
        """What KEDA, and the HorizontalPodAutoscaler that it feeds, would make of the query."""
        ended = threading.Event()
        values: list[float] = []
        for _ in range(600):
            values = self.prometheus.values(self.trigger["query"])
            self.assertLessEqual(len(values), 1)
            if values and replicas(values[0], self.trigger, self.scaler) == wanted:
                return
            ended.wait(0.1)  # Prometheus has no call that waits
        raise AssertionError(f"not {wanted} replicas of {values}:\n" + "".join(self.frontend.log))

    def states(self) -> list[str]:
        return [json.loads(line)["state"] for line in self.kinora("list", "--json", "--all").splitlines()]

    def worker(self) -> pods.Container:
        pod = pods.Container(self.cluster, self.template, "kinora-worker-0")
        self.addCleanup(pod.stop)
        return pod.start()

    def test_from_nothing_and_back(self) -> None:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):  # ready without a group, for the first job
            self.assertEqual(self.frontend.probe(probe), 200)
        self.await_replicas(0)
        clip = ["--width=64", "--height=64", "--frames=9"]
        first = self.kinora("create", "a red fox", *clip).strip()
        self.await_replicas(1)

        worker = self.worker()
        worker.await_log('"event":"pages"')
        self.assertEqual(worker.probe("startupProbe"), 200)
        self.kinora("watch", first)
        self.assertEqual(self.states(), ["COMPLETED"])
        self.kinora("download", first, "-o", self.root / "first.mp4")
        for probe in ("readinessProbe", "livenessProbe"):
            self.assertEqual(worker.probe(probe), 200)
        self.await_replicas(0)
        self.assertEqual(worker.stop(), 0)

        # Told to leave in the middle of a job, a worker ends it first; one that is killed leaves it to the next.
        for end, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
            seen = len(self.frontend.log)
            job = self.kinora("create", "a blue bird", *clip, "--steps=100").strip()
            self.await_replicas(1)
            worker = self.worker()
            self.frontend.await_log('"event":"run_started"', seen)
            self.await_replicas(1)
            self.assertEqual(worker.stop(end), status)
            if end == signal.SIGKILL:
                self.frontend.await_log('"event":"run_requeued"', seen)
                self.await_replicas(1)
            if self.states()[0] != "COMPLETED":  # on a slow machine the grace ends before the job, which is queued again
                worker = self.worker()
            self.kinora("watch", job)
            self.await_replicas(0)
            worker.stop()
        self.assertEqual(self.states(), ["COMPLETED"] * 3)
        self.assertEqual(self.frontend.stop(), 0)

    def test_every_metric_that_a_manifest_names_is_on_the_page(self) -> None:
        rules = ("PrometheusRule",)  # alerts are of both pages; observability_test has them
        names = set(re.findall(r"\bkinora_\w+", str([o for o in self.cluster.objects if o["kind"] not in rules])))
        self.assertIn("kinora_queue_seconds", names)
        page = pods.fetch(f"http://127.0.0.1:{self.frontend.port_of('http')}/metrics")[1]
        for name in names:
            self.assertRegex(page, rf"(?m)^{name}\b")

    def test_a_frontend_that_nobody_reads_is_not_an_empty_queue(self) -> None:
        self.await_replicas(0)
        self.assertEqual(self.trigger["ignoreNullValues"], "false")
        gone = self.trigger["query"].replace('namespace="kinora"', 'namespace="elsewhere"')
        self.assertEqual(self.prometheus.values(gone), [])


def replicas(value: float, trigger: dict, scaler: dict) -> int:
    if value <= float(trigger["activationThreshold"]):
        return scaler["minReplicaCount"]
    return min(scaler["maxReplicaCount"], max(1, -int(-value // float(trigger["threshold"]))))


class Replicas(unittest.TestCase):
    def test_as_many_as_run_or_one_for_each_ten_minutes(self) -> None:
        spec = manifests.get(manifests.overlay("overlays/autoscaled"), "ScaledObject", "kinora-worker")["spec"]
        trigger = spec["triggers"][0]["metadata"]
        for value, wanted in ((0, 0), (0.001, 1), (600, 1), (601, 2), (1800, 3), (1e6, 10)):
            self.assertEqual(replicas(value, trigger, spec), wanted)

    def test_frontends_that_share_a_queue_count_it_once(self) -> None:
        query = manifests.get(manifests.overlay("overlays/autoscaled"), "ScaledObject", "kinora-worker")["spec"]["triggers"][0]["metadata"]["query"]

        def series(name: str, value: int, **labels: str) -> dict[str, str]:
            text = ", ".join(f'{k}="{v}"' for k, v in {"namespace": "kinora", **labels}.items())
            return {"series": f"{name}{{{text}}}", "values": f"{value}x5"}

        def case(queue: list[dict], running: tuple[int, int, int], value: int) -> dict:
            jobs = [series("kinora_jobs_running", n, instance=f) for f, n in zip("abc", running)]
            return {"interval": "1m", "input_series": [*queue, *jobs], "promql_expr_test": [
                {"expr": query, "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": value}]}]}

        queue = [series("kinora_queue_seconds", seconds, instance=f, model=model) for f in "abc" for model, seconds in (("m", 1500), ("n", 300))]
        elsewhere = series("kinora_queue_seconds", 9000, instance="z", model="m", namespace="other")
        cases = [case([*queue, elsewhere], (1, 1, 0), 1800), case(queue, (2, 1, 1), 2400), case(queue[:2], (1, 0, 0), 1800)]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cases.yaml"
            file.write_text(json.dumps({"rule_files": [], "tests": cases}))  # which YAML contains
            done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    harness.main(programs=["openssl", "prometheus", "promtool"], folders=[str(manifests.KUBECTL), str(manifests.CHECKS)])
