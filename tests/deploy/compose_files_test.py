#!/usr/bin/env python3
"""docker/compose.frontends.yaml: its flags and files are the programs', only frontends reach the database, the bucket and each
other's port for calls, and containers are restricted. scripts/test-images runs docker/compose.yaml. Also the configuration of
docs/deployment.md for frontends on machines of their own."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import manifests
import harness
import pods
import s3

DOCKER = harness.ROOT / "docker"
VARIABLES = {"KINORA_DATABASE_PASSWORD": "of the database", "KINORA_S3_SECRET": "of the bucket"}  # those without a default
OURS = {"frontend-1", "frontend-2", "frontend-3", "worker-1", "worker-2", "gateway", "kinora"}


def compose(name: str) -> dict:
    """Returns a compose file with the defaults of its variables."""
    import yaml

    def value(match: re.Match) -> str:
        name, default = match[1], match[2]
        return VARIABLES[name] if default == ":?" else default.removeprefix(":-")

    text = re.sub(r"\$\{(\w+)(:-[^}]*|:\?)\}", value, (DOCKER / name).read_text())
    return yaml.safe_load(text)


def networks(service: dict) -> set[str]:
    return set(service["networks"])


class Frontends(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.file = compose("compose.frontends.yaml")
        cls.services = cls.file["services"]
        cls.frontends = {name: service for name, service in cls.services.items() if name.startswith("frontend-")}
        cls.workers = {name: service for name, service in cls.services.items() if name.startswith("worker-")}

    def check(self, program: str, flags: list[str], **environment: str) -> None:
        done = subprocess.run([manifests.program(program), *flags, "--check-config"], capture_output=True, text=True,
                              env={**os.environ, **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_frontends_differ_only_in_their_names_and_volumes(self) -> None:
        self.assertEqual(len(self.frontends), 3)
        plain = []
        for name, service in self.frontends.items():
            text = str(service).replace(name, "frontend-N").replace(name.replace("frontend", "state"), "state-N")
            self.assertNotRegex(text, r"(frontend|state)-\d")
            plain.append(text)
        self.assertEqual(len(set(plain)), 1)
        self.assertIn("--advertise-peer-address=frontend-N:8474", plain[0])
        self.assertIn("--advertise-join-address=frontend-N:8471", plain[0])

    def test_configurations_are_valid(self) -> None:
        for name, service in self.frontends.items():
            with self.subTest(service=name), tempfile.TemporaryDirectory() as folder:
                flags = [f.replace("/etc/kinora/compose.textproto", str(DOCKER / "frontends.textproto")).replace("/var/lib/kinora", folder)
                         for f in service["command"]]
                self.check("kinora-frontend", flags, **service["environment"])
        for name, service in self.workers.items():
            with self.subTest(service=name), tempfile.TemporaryDirectory() as folder:
                demo = harness.ROOT / "models" / "demo"
                config = Path(folder) / "worker.textproto"
                config.write_text((DOCKER / "worker.textproto").read_text().replace("/models/", f"{demo}/"))
                self.check("kinora-worker", [f.replace("/etc/kinora/compose.textproto", str(config)) for f in service["command"]])

    def test_every_worker_has_a_group_of_its_own_at_all_frontends(self) -> None:
        awaited = re.findall(r'^groups \{ id: "([^"]+)" outside: true \}$', (DOCKER / "frontends.textproto").read_text(), re.M)
        groups = [f.removeprefix("--group=") for s in self.workers.values() for f in s["command"] if f.startswith("--group=")]
        self.assertEqual(groups, awaited)
        [dialled] = re.findall(r'^frontend: "(\w+):8471"$', (DOCKER / "worker.textproto").read_text(), re.M)
        for service in self.frontends.values():
            self.assertIn(dialled, service["networks"]["workers"]["aliases"])
            self.assertIn("frontend", service["networks"]["clients"]["aliases"])
        self.assertIn("--frontend=frontend:8470", self.services["gateway"]["command"])
        self.assertEqual(self.services["kinora"]["environment"], {"KINORA_SERVER": "frontend:8470"})

    def test_only_frontends_reach_the_database_and_the_bucket(self) -> None:
        self.assertIs(self.file["networks"]["data"]["internal"], True)
        inside = {name for name, service in self.services.items() if "data" in networks(service)}
        self.assertEqual(inside, {*self.frontends, "postgres", "s3", "bucket"})
        for name in ("postgres", "s3", "bucket"):
            self.assertEqual(networks(self.services[name]), {"data"})
            self.assertNotIn("ports", self.services[name])
        for name, service in self.services.items():
            for port in service.get("ports", []):
                self.assertRegex(port, r"^127\.0\.0\.1:\d+:\d+$", name)

    def test_our_containers_are_restricted_and_no_secret_is_an_argument(self) -> None:
        self.assertLessEqual(OURS, self.services.keys())
        for name in OURS:
            service = self.services[name]
            with self.subTest(service=name):
                self.assertEqual((service["user"], service["read_only"], service["cap_drop"], service["security_opt"]),
                                 ("10001:10001", True, ["ALL"], ["no-new-privileges:true"]))
        for name, service in self.services.items():
            for secret in VARIABLES.values():
                self.assertNotIn(secret, str([service.get("command"), service.get("entrypoint"), service.get("healthcheck")]), name)

    def test_images_are_variables_without_a_registrys_host(self) -> None:
        for text in ((DOCKER / "compose.frontends.yaml").read_text(), (DOCKER / "compose.yaml").read_text()):
            images = re.findall(r"image: (.*)", text)
            self.assertGreater(len(images), 4)
            for image in images:
                self.assertRegex(image, r"^\$\{[A-Z0-9_]+_IMAGE:-[a-z-]+(/[a-z-]+)?(:[\w.-]+)?\}$")

    def test_mounts_volumes_and_targets_exist(self) -> None:
        for service in self.services.values():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                self.assertTrue((DOCKER / source).exists() if source.startswith(".") else source in self.file["volumes"], source)
        import yaml

        jobs = yaml.safe_load((DOCKER / "prometheus.frontends.yaml").read_text())["scrape_configs"]
        targets = [t.split(":")[0] for job in jobs for config in job["static_configs"] for t in config["targets"]]
        self.assertEqual(sorted(targets), sorted([*self.frontends, *self.workers, "gateway"]))
        for target in targets:
            self.assertTrue(networks(self.services["prometheus"]) & networks(self.services[target]), target)
        self.assertIn("--host=gateway", self.services["gateway"]["command"])

    def test_the_bucket_is_created_once(self) -> None:
        """The container's command, against the S3 server of the tests, which checks the signature."""
        service = self.services["bucket"]
        [script] = service["command"]
        self.assertEqual(service["entrypoint"], ["sh", "-c"])
        with s3.Server() as server:
            for keys, status in ((server.environment, 0), (server.environment, 0), ({**server.environment, "AWS_SECRET_ACCESS_KEY": "wrong"}, 1)):
                text = script.replace("$$", "$").replace("http://s3:9000/clips", f"{server.endpoint}/made-here")
                text = text.replace("seq 60", "seq 3").replace("sleep 1", ":")
                done = subprocess.run([*service["entrypoint"], text], capture_output=True, text=True,
                                      env={**os.environ, "KEYS": ":".join(keys[f"AWS_{k}"] for k in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"))})
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)


class Manual(unittest.TestCase):
    def test_the_configuration_for_machines_of_their_own_is_valid(self) -> None:
        [text] = re.findall(r'^   ```\n(   store: "postgresql.*?)^   ```$', (harness.ROOT / "docs/deployment.md").read_text(), re.M | re.S)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            tls = pods.make_tls(folder / "tls")
            files = {"cert.pem": tls["tls.crt"], "key.pem": tls["tls.key"], "ca.pem": tls["ca.crt"], "db-ca.pem": tls["ca.crt"], **pods.make_tokens()}
            for file, content in files.items():
                (folder / file).write_text(content)
                (folder / file).chmod(0o600)
            (folder / "frontend.textproto").write_text(text.replace("/etc/kinora/", f"{folder}/"))
            self.assertEqual(set(re.findall(rf"{folder}/([\w.-]+)", (folder / "frontend.textproto").read_text())), files.keys())
            done = subprocess.run(
                [manifests.program("kinora-frontend"), f"--config={folder}/frontend.textproto", f"--state-directory={folder}/state",
                 "--advertise-peer-address=192.0.2.1:8474", "--advertise-join-address=192.0.2.1:8471", "--check-config"],
                capture_output=True, text=True, env={**os.environ, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    harness.main(programs=["curl", "openssl"], folders=[str(manifests.CHECKS)])
