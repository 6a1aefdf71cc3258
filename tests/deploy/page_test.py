#!/usr/bin/env python3
"""Runs the commands of docs/deployment.md in order. Commands that need no cluster run unchanged, `apply -k` renders,
`create` makes the object without sending it, and names in other commands must belong to rendered objects. `kinora`
talks to a frontend."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import manifests
import harness

PAGE = harness.ROOT / "docs/deployment.md"
# Replaces `kubectl` on the page: objects that would be sent go to files in $OBJECTS.
WRAPPER = f"""#!/bin/bash
set -euo pipefail
count=$(ls "$OBJECTS" | wc -l)
case " $* " in
  *" apply -k "*) exec {manifests.KUBECTL} kustomize "${{@: -1}}" > "$OBJECTS/$count" ;;
  *" create secret "* | *" create configmap "*) {manifests.KUBECTL} "$@" --dry-run=client -o yaml | tee "$OBJECTS/$count" ;;
  *" logs job/kinora-describe "*) exec kinora-worker --describe $MODEL ;;
  *) echo "kubectl $*" >> "$OBJECTS.commands" ;;
esac
"""


def blocks() -> list[str]:
    return re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.M | re.S)


class Page(unittest.TestCase):
    def test_every_command_runs(self) -> None:
        import yaml

        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            work, objects = folder / "work", folder / "objects"
            for made in (work, objects, folder / "bin"):
                made.mkdir()
            (folder / "bin" / "kubectl").write_text(WRAPPER)
            (folder / "bin" / "kubectl").chmod(0o755)
            with harness.Frontend(folder) as frontend:
                tiny = harness.ROOT / "models" / "tiny"
                env = manifests.environment(OBJECTS=str(objects), KINORA_SERVER=frontend.address, MODEL=" ".join(
                    [f"--model={next(tiny.glob('*-dev.safetensors'))}", f"--model=text_encoder={tiny / 'gemma'}", "--model=kind=dev"]))
                env["PATH"] = f"{folder / 'bin'}:{env['PATH']}"
                (work / "deploy").symlink_to(manifests.MANIFESTS.parent)
                for file in ("password", "db-ca.pem", "key-id", "key"):  # that the reader has
                    (work / file).write_text(file)
                for block in blocks():
                    done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=work, env=env, capture_output=True, text=True)
                    with self.subTest(block=block):
                        self.assertEqual(done.returncode, 0, done.stderr)
                        if "clips an hour" in block:
                            self.assertRegex(done.stdout, r"^[1-9][0-9]* clips an hour\n$")
            made = [o for file in objects.iterdir() for o in yaml.safe_load_all(file.read_text())]
            names = {f"{o['kind'].lower()}/{o['metadata']['name']}" for o in made}
            self.assertLessEqual({"secret/kinora-tokens", "secret/kinora-tls", "secret/kinora-links", "configmap/kinora-models"}, names)
            images = {c["image"] for _, t in manifests.pod_templates(made) for c in t["spec"]["containers"]}
            self.assertIn("registry.example/kinora-worker-cuda:0.1.0", images)
            self.check_secrets(made)
            for kind, name in re.findall(r"(?<![\w/.])(statefulset|deployment|job|service)/([\w-]+)", (folder / "objects.commands").read_text() + PAGE.read_text()):
                self.assertIn(f"{kind}/{name}", names)

    def check_secrets(self, made: list[dict]) -> None:
        """The Secrets must have the keys that the pods mount."""
        keys = {o["metadata"]["name"]: set(o["data"]) for o in made if o["kind"] in ("Secret",)}
        for _, template in manifests.pod_templates(made):
            for volume in template["spec"]["volumes"]:
                if "secret" in volume:
                    wanted = {i["key"] for i in volume["secret"].get("items", [])}
                    self.assertLessEqual(wanted, keys[volume["secret"]["secretName"]])

    def test_every_overlay_and_component_is_in_its_table(self) -> None:
        text = PAGE.read_text()
        for folder in ("overlays", "components"):
            for one in (manifests.MANIFESTS / folder).iterdir():
                self.assertRegex(text, rf"\n\| .*`{one.name}`")

    def test_numbers_of_the_page_are_those_of_the_manifests(self) -> None:
        text, scaler = PAGE.read_text(), manifests.get(manifests.overlay("overlays/autoscaled"), "ScaledObject", "kinora-worker")["spec"]
        self.assertIn(f"each {scaler['triggers'][0]['metadata']['threshold']} s of", text)
        self.assertEqual((scaler["cooldownPeriod"], scaler["maxReplicaCount"]), (600, 10))
        self.assertIn("max_lost_groups: 5", (manifests.MANIFESTS / "base/frontend.textproto").read_text())


if __name__ == "__main__":
    harness.main(programs=["openssl", "bash"], folders=[str(manifests.KUBECTL), str(manifests.CHECKS)])
