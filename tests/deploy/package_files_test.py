#!/usr/bin/env python3
"""Runs a frontend and a gateway as the files of the Debian packages configure them. scripts/test-packages installs the
packages."""

import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

import manifests
import harness
from gateway_test import Gateway, call

DEBIAN = harness.ROOT / "deploy" / "debian"
TINY = harness.ROOT / "models" / "tiny"
OUTSIDE = 'groups { id: "main" outside: true }\n'


class PackageFiles(unittest.TestCase):
    def config(self, folder: Path, port: int) -> Path:
        """Returns frontend.textproto with a group that the frontend starts itself."""
        text = (DEBIAN / "frontend.textproto").read_text()
        self.assertIn(OUTSIDE, text)
        models = " ".join(f'model: "{model}"' for model in (next(TINY.glob("*-dev.safetensors")), f"text_encoder={TINY / 'gemma'}", "kind=dev"))
        own = f'groups {{ id: "main" worker {{ {models} http_address: "127.0.0.1:0" }} }}\n'
        file = folder / "frontend.textproto"
        file.write_text(text.replace(OUTSIDE, own).replace("127.0.0.1:8470", f"127.0.0.1:{port}"))
        return file

    def gateway(self, frontend: int) -> Gateway:
        """Returns a gateway with the flags of gateway.env, which systemd reads as a shell does."""
        [flags] = [line.removeprefix("KINORA_GATEWAY_FLAGS=") for line in (DEBIAN / "gateway.env").read_text().splitlines()
                   if line.startswith("KINORA_GATEWAY_FLAGS=")]
        words = shlex.split(shlex.split(flags)[0])
        self.assertIn("127.0.0.1:8472", words)
        port = harness.free_port()
        gateway = Gateway("")
        gateway.port = port
        gateway._command = [gateway._command[0], *(w.replace(":8472", f":{port}").replace(":8470", f":{frontend}") for w in words)]
        return gateway

    def test_a_frontend_with_its_own_workers_leaves_http_to_the_gateways_unit(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        port = harness.free_port()
        process = subprocess.Popen([manifests.program("kinora-frontend"), "--config", self.config(folder, port), "--http-address=",
                                    "--state-directory", folder / "state"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        log = []
        for line in process.stderr:
            log.append(line)
            if "event=group_ready" in line:
                break
        text = "".join(log)
        self.assertIn("event=group_ready", text)
        self.assertNotRegex(text, r"event=(gateway_started|no_web_page)")
        with self.gateway(port) as gateway:
            answer = call(gateway.port, "GET", "/v1/models")
            self.assertEqual((answer.status, len(answer.json["data"])), (200, 1))


if __name__ == "__main__":
    harness.main()
