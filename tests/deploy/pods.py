"""Runs a container of the manifests as a process on this machine, with folders as volumes and programs from the
build."""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

import harness
import manifests


def make_tls(folder: Path) -> dict[str, str]:
    """Returns the Secret kinora-tls, valid also for the name localhost."""
    folder.mkdir(parents=True)
    harness.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                 "-subj", "/CN=kinora", "-addext", "subjectAltName=DNS:kinora,DNS:kinora-frontend,DNS:kinora-gateway,DNS:localhost",
                 "-keyout", "tls.key", "-out", "tls.crt"], folder)
    return {"tls.key": (folder / "tls.key").read_text(), "tls.crt": (folder / "tls.crt").read_text(),
            "ca.crt": (folder / "tls.crt").read_text()}


def make_tokens() -> dict[str, str]:
    """Returns the Secret kinora-tokens."""
    return {name: os.urandom(16).hex() + "\n" for name in ("clients", "workers", "peers")}


def make_link_key() -> dict[str, str]:
    """Returns the Secret kinora-links."""
    return {"key": os.urandom(32).hex() + "\n"}


def model_flags(folder: Path) -> list[str]:
    return [f"--model={next(folder.glob('*-dev.safetensors'))}", f"--model=text_encoder={folder / 'gemma'}", "--model=kind=dev"]


def describe(folder: Path) -> str:
    """Returns the output of the job of deploy/kubernetes/describe for a model in models/."""
    return harness.run([str(manifests.program("kinora-worker")), "--describe", *model_flags(folder)], folder)


class Cluster:
    """Shared by pods: rendered objects, Secrets, persistent volumes, and a free port for each port of the manifests."""

    def __init__(self, root: Path, objects: list[dict], secrets: dict[str, dict[str, str]], replace: dict[str, str] = {}):
        self.root, self.objects, self.secrets = root, objects, secrets
        self.replace = {"kinora-frontend:": "localhost:", "--frontend=kinora:": "--frontend=localhost:", "0.0.0.0:": "127.0.0.1:", **replace}
        self.ports: dict[int, int] = {}

    def port(self, number: int) -> int:
        return self.ports.setdefault(number, harness.free_port())

    def files(self, volume: dict) -> dict[str, str] | None:
        """Returns the files of a ConfigMap or Secret; None for other volumes."""
        if "configMap" in volume:
            return manifests.get(self.objects, "ConfigMap", volume["configMap"]["name"])["data"]
        if "secret" in volume:
            data = self.secrets[volume["secret"]["secretName"]]
            items = volume["secret"].get("items", [{"key": k, "path": k} for k in data])
            return {i["path"]: data[i["key"]] for i in items}
        return None


class Container:
    """The first container of a pod. Its files are in cluster.root/NAME, so two containers with the same name share
    volumes."""

    def __init__(self, cluster: Cluster, template: dict, name: str, env: dict[str, str] = {}):
        self.cluster, self.name, self.spec = cluster, name, template["spec"]["containers"][0]
        self.root = cluster.root / name
        self.mounts = {m["mountPath"]: self.root / m["mountPath"].lstrip("/") for m in self.spec["volumeMounts"]}
        volumes = {v["name"]: v for v in template["spec"]["volumes"]}
        for mount in self.spec["volumeMounts"]:
            self._mount(volumes.get(mount["name"], {}), self.mounts[mount["mountPath"]])
        self.env = {"POD_NAME": name, "POD_IP": "127.0.0.1", **env}
        self.env |= {e["name"]: e["value"] for e in self.spec.get("env", []) if "value" in e}
        keys = {e["name"]: e["valueFrom"]["secretKeyRef"] for e in self.spec.get("env", []) if "secretKeyRef" in e.get("valueFrom", {})}
        self.env |= {name: cluster.secrets[of["name"]][of["key"]] for name, of in keys.items()}
        for source in self.spec.get("envFrom", []):
            self.env |= cluster.secrets[source["secretRef"]["name"]]
        words = [*self.spec["command"], *self.spec.get("args", [])]
        self.command = [self.here(re.sub(r"\$\((\w+)\)", lambda m: self.env[m[1]], w)) for w in words]
        self.log: list[str] = []

    def _mount(self, volume: dict, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        files = self.cluster.files(volume)
        if files is None:
            return
        data = folder / "..data"  # kubelet's layout
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        for file, text in files.items():
            (data / file).write_text(self.here(text) if "configMap" in volume else text)
            (data / file).chmod(volume.get("secret", volume.get("configMap")).get("defaultMode", 0o644))
            (folder / file).unlink(missing_ok=True)
            (folder / file).symlink_to(Path("..data") / file)

    def here(self, text: str) -> str:
        """Replaces a container's paths, names and ports by those of this machine."""
        for old, new in self.cluster.replace.items():
            text = text.replace(old, new)
        for path, folder in sorted(self.mounts.items(), reverse=True):
            if path not in ("/tmp", "/dev/shm"):
                text = re.sub(rf"(?<![\w.]){path}(?=[/\"]|$)", str(folder), text)
        return re.sub(r"((?:127\.0\.0\.1|localhost):)(\d+)", lambda m: f"{m[1]}{self.cluster.port(int(m[2]))}", text)

    def port_of(self, name: object) -> int:
        [port] = [p["containerPort"] for p in self.spec["ports"] if name in (p["name"], p["containerPort"])]
        return self.cluster.port(port)

    def probe(self, kind: str) -> int:
        """Returns the HTTP status of the probe, or 0 without an answer."""
        get = self.spec[kind]["httpGet"]
        return fetch(f"{get.get('scheme', 'HTTP').lower()}://127.0.0.1:{self.port_of(get['port'])}{get['path']}")[0]

    def start(self) -> Container:
        self.process = subprocess.Popen(self.command, env=manifests.environment(**self.env), stderr=subprocess.PIPE, text=True)
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self) -> None:
        with self.process.stderr as lines:
            for line in lines:
                with self._changed:
                    self.log.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def await_log(self, text: str, since: int = 0) -> str:
        def found() -> str | None:
            return next((line for line in self.log[since:] if text in line), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or not self._reader.is_alive(), timeout=harness.START_SECONDS)
            if found() is None:
                raise AssertionError(f"{self.name} did not say {text}:\n" + "".join(self.log))
            return found()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stops the container as kubelet does. Returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not end:\n" + "".join(self.log))
        self._reader.join()
        return self.process.returncode


def fetch(url: str) -> tuple[int, str]:
    """Returns status and body; as kubelet, without checking a certificate. 0: no answer."""
    unchecked = ssl._create_unverified_context() if url.startswith("https:") else None
    try:
        with urllib.request.urlopen(url, timeout=10, context=unchecked) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return 0, ""
