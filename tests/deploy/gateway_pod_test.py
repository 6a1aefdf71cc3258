#!/usr/bin/env python3
"""Runs the pods of the frontend and of a gateway as processes, as the overlay one-gpu configures them: the gateway reaches
the frontend over TLS, serves TLS itself, passes the client's token on, and answers its probes. Restarting the frontend does
not restart it. Gateways accept each other's links to clips."""

import http.client
import json
import ssl
import tempfile
import time
import unittest
from pathlib import Path

import manifests
import harness
import pods

TINY = harness.ROOT / "models" / "tiny"


class GatewayPod(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        objects = manifests.overlay("overlays/one-gpu")
        self.secrets = {"kinora-tls": pods.make_tls(self.root / "tls"), "kinora-tokens": pods.make_tokens(),
                        "kinora-links": pods.make_link_key()}
        self.token = {"Authorization": f"Bearer {self.secrets['kinora-tokens']['clients'].strip()}"}
        models = "".join(f'\nmodel: "{flag.removeprefix("--model=")}"' for flag in pods.model_flags(TINY)) + "\nthreads: 1"
        self.cluster = pods.Cluster(self.root, objects, self.secrets, {
            'model: "/models/ltx-2.3/ltx-2.3-22b-distilled-1.1.safetensors"\nmodel: "text_encoder=/models/gemma-3-12b"': models})
        self.frontend = pods.Container(self.cluster, manifests.of_component(objects, "frontend"), "kinora-frontend-0")
        self.gateway = pods.Container(self.cluster, manifests.of_component(objects, "gateway"), "kinora-gateway-x")
        self.start(self.gateway)

    def second_gateway(self) -> pods.Container:
        """Another pod of the Deployment, with the same Secrets and frontend and a port of its own."""
        cluster = pods.Cluster(self.root / "second", self.cluster.objects, self.secrets)
        cluster.ports[8470] = self.cluster.port(8470)
        return pods.Container(cluster, manifests.of_component(cluster.objects, "gateway"), "kinora-gateway-y")

    def start(self, pod: pods.Container) -> None:
        self.addCleanup(pod.start().stop)
        pod.await_log('"event":"serving"')

    def call(self, path: str, method: str = "GET", body: str | None = None, gateway: pods.Container | None = None,
             host: str = "kinora-gateway:8472", **headers: str) -> tuple[int, bytes]:
        trusted = ssl.create_default_context(cadata=self.secrets["kinora-tls"]["ca.crt"])
        connection = http.client.HTTPSConnection("localhost", (gateway or self.gateway).port_of("web"), timeout=60, context=trusted)
        connection.request(method, path, body, headers={"Host": host, **headers})
        reply = connection.getresponse()
        status, body = reply.status, reply.read()
        connection.close()
        return status, body

    def test_it_serves_tls_calls_its_frontend_and_outlives_it(self) -> None:
        token = self.token
        probes = ("startupProbe", "readinessProbe", "livenessProbe")
        self.assertEqual([self.gateway.probe(probe) for probe in probes], [200] * 3)  # without a frontend
        self.assertEqual(self.call("/v1/videos", **token)[0], 503)
        for _ in range(2):
            self.start(self.frontend)
            deadline, status = time.monotonic() + harness.START_SECONDS, 503
            while status == 503 and time.monotonic() < deadline:  # until the gateway has tried again to connect
                status, body = self.call("/v1/videos", **token)
            self.assertEqual((status, json.loads(body)["data"]), (200, []))
            self.assertEqual(self.call("/v1/videos")[0], 401)
            self.assertEqual(self.call("/v1/videos", host="other.example", **token)[0], 421)
            self.assertEqual(self.frontend.stop(), 0)
        self.assertEqual(self.gateway.stop(), 0)

    def test_a_link_is_valid_at_every_gateway(self) -> None:
        second = self.second_gateway()
        for pod in (self.frontend, second):
            self.start(pod)
        worker = pods.Container(self.cluster, manifests.of_component(self.cluster.objects, "worker"), "kinora-worker-0")
        self.addCleanup(worker.start().stop)
        self.frontend.await_log('"event":"group_ready"')
        request = json.dumps({"prompt": "a red fox", "size": "64x64", "num_frames": 9, "num_inference_steps": 2})
        status, body = self.call("/v1/videos", "POST", request, **self.token, **{"Content-Type": "application/json"})
        self.assertEqual(status, 200, body)
        id = json.loads(body)["id"]
        self.assertIn(b"event: terminal", self.call(f"/v1/videos/{id}/events", **self.token)[1])
        status, body = self.call(f"/v1/videos/{id}/link", "POST", "", **self.token)
        self.assertEqual(status, 200, body)
        link = json.loads(body)["url"]
        for gateway in (self.gateway, second):
            status, clip = self.call(link, gateway=gateway)
            self.assertEqual((status, clip[4:8]), (200, b"ftyp"))
            self.assertEqual(self.call(link[:-1], gateway=gateway)[0], 401)


if __name__ == "__main__":
    harness.main(programs=["openssl"], folders=[str(manifests.KUBECTL), str(manifests.CHECKS)])
