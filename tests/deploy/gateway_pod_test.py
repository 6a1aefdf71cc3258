#!/usr/bin/env python3
"""Runs the pods of the frontend and of a gateway as processes, as the overlay one-gpu configures them: the gateway reaches
the frontend over TLS, serves TLS itself, passes the client's token on, and answers its probes. Restarting the frontend does
not restart it."""

import http.client
import json
import ssl
import tempfile
import unittest
from pathlib import Path

import manifests
import harness
import pods


class GatewayPod(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        objects = manifests.overlay("overlays/one-gpu")
        self.secrets = {"kinora-tls": pods.make_tls(self.root / "tls"), "kinora-tokens": pods.make_tokens()}
        self.cluster = pods.Cluster(self.root, objects, self.secrets)
        self.frontend = pods.Container(self.cluster, manifests.of_component(objects, "frontend"), "kinora-frontend-0")
        self.gateway = pods.Container(self.cluster, manifests.of_component(objects, "gateway"), "kinora-gateway-x")
        self.start(self.gateway)

    def start(self, pod: pods.Container) -> None:
        self.addCleanup(pod.start().stop)
        pod.await_log('"event":"serving"')

    def call(self, path: str, host: str = "kinora-gateway:8472", **headers: str) -> tuple[int, bytes]:
        trusted = ssl.create_default_context(cadata=self.secrets["kinora-tls"]["ca.crt"])
        connection = http.client.HTTPSConnection("localhost", self.gateway.port_of("web"), timeout=60, context=trusted)
        connection.request("GET", path, headers={"Host": host, **headers})
        reply = connection.getresponse()
        status, body = reply.status, reply.read()
        connection.close()
        return status, body

    def test_it_serves_tls_calls_its_frontend_and_outlives_it(self) -> None:
        token = {"Authorization": f"Bearer {self.secrets['kinora-tokens']['clients'].strip()}"}
        probes = ("startupProbe", "readinessProbe", "livenessProbe")
        self.assertEqual([self.gateway.probe(probe) for probe in probes], [200] * 3)  # without a frontend
        self.assertEqual(self.call("/v1/videos", **token)[0], 503)
        for _ in range(2):
            self.start(self.frontend)
            for _ in range(harness.START_SECONDS):  # a call waits for the connection to come back
                status, body = self.call("/v1/videos", **token)
                if status != 503:
                    break
            self.assertEqual((status, json.loads(body)["data"]), (200, []))
            self.assertEqual(self.call("/v1/videos")[0], 401)
            self.assertEqual(self.call("/v1/videos", host="other.example", **token)[0], 421)
            self.assertEqual(self.frontend.stop(), 0)
        self.assertEqual(self.gateway.stop(), 0)


if __name__ == "__main__":
    harness.main(programs=["openssl"], folders=[str(manifests.KUBECTL), str(manifests.CHECKS)])
