#!/usr/bin/env python3
"""Runs the pods of the overlay `frontends` as processes: three frontends with one PostgreSQL database over TLS and one bucket, and
two workers. Clients and workers dial a stand-in for the Services. Jobs survive a rolling upgrade and the loss of a frontend."""

import copy
import json
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import database
import manifests
import harness
import pods
import s3

TINY = harness.ROOT / "models" / "tiny"
WORKERS = 2
LEASE = 4  # seconds, in place of 30


class Service:
    """Passes each connection on to the next of its pods that accepts one, as kube-proxy does among ready pods."""

    def __init__(self) -> None:
        self.pods: list[int] = []  # ports of ready ones
        self._next = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            pod = self._dial()
            if pod is None:
                client.close()
                continue
            for source, target in ((client, pod), (pod, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _dial(self) -> socket.socket | None:
        for _ in range(len(self.pods)):
            self._next += 1
            try:
                return socket.create_connection(("127.0.0.1", self.pods[self._next % len(self.pods)]))
            except (OSError, ZeroDivisionError):
                continue
        return None

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Restarted:
    """A worker's pod, which is started again when it ends, as kubelet does."""

    def __init__(self, container: pods.Container):
        self.container = container
        self.statuses: list[int] = []
        self._stopping = threading.Event()
        self.container.start()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _keep(self) -> None:
        while True:
            self.statuses.append(self.container.process.wait())
            if self._stopping.wait(0.2):
                return
            self.container.start()

    def stop(self) -> None:
        self._stopping.set()
        self.container.process.terminate()
        self._keeper.join(timeout=60)


class Frontends(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        tls = pods.make_tls(self.root / "tls")
        self.database = self.enterContext(database.Server(tls))
        self.bucket = self.enterContext(s3.Server())
        self.secrets = {"kinora-tls": tls, "kinora-tokens": pods.make_tokens(),
                        "kinora-database": {"PGPASSWORD": database.PASSWORD, "ca.crt": tls["ca.crt"]},
                        "kinora-bucket": {**self.bucket.environment, "AWS_ENDPOINT_URL_S3": self.bucket.endpoint}}
        self.objects = copy.deepcopy(manifests.overlay("overlays/frontends"))
        manifests.of_component(self.objects, "frontend")["spec"]["containers"][0]["args"] += [
            "--s3-path-style", f"--lease-seconds={LEASE}", "--drain-grace-seconds=1", "--peer-server-name=localhost"]
        models = "".join(f'\nmodel: "{flag.removeprefix("--model=")}"' for flag in pods.model_flags(TINY)) + "\nthreads: 1"
        self.replace = {"@db.example/": f"@localhost:{self.database.port}/", "s3://clips.example/": "s3://clips/",
                        'model: "/models/ltx-2.3/ltx-2.3-22b-distilled-1.1.safetensors"\nmodel: "text_encoder=/models/gemma-3-12b"': models}
        self.api, self.join = Service(), Service()
        for service in (self.api, self.join):
            self.addCleanup(service.close)
        (self.root / "token").write_text(self.secrets["kinora-tokens"]["clients"])
        (self.root / "token").chmod(0o600)
        self.started = 0
        self.frontends = [self.start_frontend() for _ in range(3)]
        self.workers = [self.start_worker(index) for index in range(WORKERS)]

    def cluster(self, name: str) -> pods.Cluster:
        cluster = pods.Cluster(self.root / name, self.objects, self.secrets, self.replace)
        cluster.ports[self.database.port] = self.database.port
        return cluster

    def start_frontend(self) -> pods.Container:
        self.started += 1
        name = f"kinora-frontend-{self.started}"
        pod = pods.Container(self.cluster(name), manifests.of_component(self.objects, "frontend"), name).start()
        self.addCleanup(pod.stop)
        pod.await_log('"event":"serving"')
        self.assertEqual([pod.probe(f"{kind}Probe") for kind in ("startup", "readiness", "liveness")], [200] * 3)  # without a group
        self.api.pods.append(pod.port_of("api"))
        self.join.pods.append(pod.port_of("join"))
        return pod

    def leave_services(self, pod: pods.Container) -> None:
        self.api.pods.remove(pod.port_of("api"))
        self.join.pods.remove(pod.port_of("join"))

    def start_worker(self, index: int) -> Restarted:
        cluster = self.cluster(f"worker-{index}")
        cluster.ports[8471] = self.join.port
        worker = Restarted(pods.Container(cluster, manifests.of_component(self.objects, "worker"), f"kinora-worker-{index}"))
        self.addCleanup(worker.stop)
        return worker

    def logs(self) -> str:
        return "".join(line for pod in [*self.frontends, *(w.container for w in self.workers)] for line in pod.log[-40:])

    def await_(self, what: str, condition):
        deadline = time.monotonic() + harness.START_SECONDS
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited for {what}\n{self.logs()}")
            time.sleep(0.1)
        return found

    def kinora(self, *words: str) -> str:
        command = [manifests.program("kinora"), words[0], f"--server=localhost:{self.api.port}", "--tls-ca", self.root / "tls/tls.crt",
                   "--token-file", self.root / "token", *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}\n{self.logs()}")
        return done.stdout

    def create(self, prompt: str, steps: int) -> str:
        return self.kinora("create", prompt, "--width=64", "--height=64", "--frames=9", f"--steps={steps}").strip()

    def running(self) -> pods.Container | None:
        """Returns a frontend whose group runs a job."""
        return next((pod for pod in self.frontends if "kinora_jobs_running 1" in self.page(pod)), None)

    def page(self, pod: pods.Container) -> str:
        return pods.fetch(f"http://127.0.0.1:{pod.port_of('http')}/metrics")[1]

    def groups(self) -> int:
        lines = [line for pod in self.frontends for line in self.page(pod).splitlines()]
        return sum(line.startswith("kinora_group_state") and line.endswith(" 1") and ('"idle"' in line or '"busy"' in line) for line in lines)

    def listed(self, pod: pods.Container) -> dict[str, str]:
        """Returns the groups that `kinora admin list` shows at a frontend, with the frontends that have them."""
        command = [manifests.program("kinora"), "admin", "list", "--json", f"--admin-server=unix:{pod.mounts['/data']}/kinora/admin.sock"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        groups = [json.loads(line) for line in done.stdout.splitlines()]
        return {group["id"]: group.get("frontend", "") for group in groups}

    def test_every_frontend_knows_the_groups_of_all(self) -> None:
        addresses = {f"127.0.0.1:{pod.port_of('peers')}" for pod in self.frontends}
        joined = [f"kinora-worker-{index}" for index in range(WORKERS)]
        for pod in self.frontends:
            listed = self.await_("all groups", lambda: (all := self.listed(pod)) and {all.get(id) for id in joined} <= addresses and all)
            self.assertEqual(len(listed), 10)

        # A worker that comes back elsewhere is sent to the group's home, whose certificate it checks for the name it dialled.
        [home] = [pod for pod in self.frontends if f"127.0.0.1:{pod.port_of('peers')}" == listed[joined[0]]]
        self.join.pods.remove(home.port_of("join"))
        worker = self.workers[0].container
        seen = len(worker.log)
        worker.process.kill()
        line = self.await_("a redirect", lambda: next((line for line in worker.log[seen:] if '"event":"redirected"' in line), None))
        self.assertEqual(json.loads(line)["to"], f"127.0.0.1:{home.port_of('join')}")
        self.await_("the group at its home", lambda: 'group="kinora-worker-0",state="idle"} 1' in self.page(home))

    def test_jobs_survive_a_rolling_upgrade_and_a_lost_frontend(self) -> None:
        self.await_("groups", lambda: self.groups() == WORKERS)
        ids = [self.create(f"fox {i}", 2) for i in range(4)]
        for id in ids:
            self.kinora("watch", id)

        # As the Deployment says: one more pod, then one less. In its preStop a pod leaves the Services.
        ids += [self.create(f"bird {i}", 300) for i in range(3)]
        self.await_("a run", self.running)
        for old in self.frontends[:]:
            self.frontends.append(self.start_frontend())
            self.frontends.remove(old)
            self.leave_services(old)
            self.assertEqual(old.stop(), 0)
            self.await_("groups at other frontends", lambda: self.groups() == WORKERS)
        for id in ids:
            self.kinora("watch", id)

        ids.append(self.create("wolf", 300))
        lost = self.await_("a run", self.running)
        self.frontends.remove(lost)
        self.leave_services(lost)
        self.assertEqual(lost.stop(signal.SIGKILL), -signal.SIGKILL)
        self.kinora("watch", ids[-1])
        listed = [json.loads(line) for line in self.kinora("list", "--json", "--all").splitlines()]
        self.assertEqual({video["id"]: video["state"] for video in listed}, {id: "COMPLETED" for id in ids})
        for id in ids:
            self.kinora("download", id, "-o", str(self.root / f"{id}.mp4"))
        self.assertLessEqual({status for worker in self.workers for status in worker.statuses}, {75})


if __name__ == "__main__":
    harness.main(programs=["openssl", "setpriv", str(database.PROGRAMS / "initdb")], folders=[str(manifests.KUBECTL), str(manifests.CHECKS)])
