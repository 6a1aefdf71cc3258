#!/usr/bin/env python3
"""Tests inputs by URL: kinora-gateway in front of a frontend with the tiny model fetches files from an HTTPS server."""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import queue
import ssl
import struct
import subprocess
import tempfile
import threading
import unittest
import urllib.parse
import zlib
from pathlib import Path
from typing import Any

import harness
from gateway_test import SMALL, Answer, Gateway, call

SECRET = b"what only the server may know"
LIMIT = 1 << 20  # --max-upload-bytes


def png(side: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes([255, 128, 0]) * side for _ in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


PICTURE = png(64)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/picture.png":
            self.answer(200, PICTURE)
        elif self.path == "/page.html":
            self.answer(200, b"<html>" + SECRET + b"</html>")
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(bytes(65536))
            except OSError:
                pass
        elif self.path == "/slow":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(PICTURE[:16])
            self.server.slow.set()
            self.connection.settimeout(60)
            try:
                self.server.left.put(self.connection.recv(1))
            except OSError as error:
                self.server.left.put(error)
        elif self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", urllib.parse.unquote(self.path[4:]))
            self.end_headers()
        else:
            self.answer(404, SECRET)

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def start_server(certificate: Path, key: Path) -> Any:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.slow, server.left = [], threading.Event(), queue.Queue()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class InputsByUrl(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key,
                        "-out", certificate], check=True, capture_output=True)
        cls.server = start_server(certificate, key)
        cls.addClassCleanup(cls.server.server_close)
        cls.addClassCleanup(cls.server.shutdown)
        cls.base = f"https://127.0.0.1:{cls.server.server_port}"
        frontend = cls.enterClassContext(harness.Frontend(folder))
        cls.frontend = frontend
        flags = [f"--input-url-host=127.0.0.1:{cls.server.server_port}", f"--input-url-host=localhost:{cls.server.server_port}",
                 f"--input-url-ca={certificate}", f"--max-upload-bytes={LIMIT}"]
        cls.port = cls.enterClassContext(Gateway(frontend.address, flags)).port

    def create(self, **fields: Any) -> Answer:
        return call(self.port, "POST", "/v1/videos", {**SMALL, **fields})

    def assert_refused(self, answer: Answer, field: str, message: str) -> None:
        self.assertEqual((answer.status, answer.json["error"]["param"]), (422, field), answer.body)
        self.assertIn(message, answer.json["detail"])
        self.assertNotIn(SECRET, answer.body)

    def test_a_picture_by_url_and_by_data_conditions_the_same_clip(self) -> None:
        data = base64.b64encode(PICTURE).decode()
        answers = [self.create(input_reference=self.base + "/picture.png"),
                   self.create(image_reference={"image_url": self.base + "/picture.png"}),
                   self.create(reference_url=f"{self.base}/to?{urllib.parse.quote(self.base + '/picture.png')}"),
                   self.create(input_reference=f"data:image/png;base64,{data}"),
                   self.create(reference_url="data:image/png," + urllib.parse.quote(PICTURE))]
        conditions = []
        for answer in answers:
            self.assertEqual(answer.status, 200, answer.body)
            conditions.append(answer.json["parameters"]["conditions"])
        self.assertEqual(conditions, [conditions[0]] * len(answers))
        self.assertEqual(len(conditions[0]), 1)

    def test_one_url_in_two_fields_is_fetched_once(self) -> None:
        url = self.base + "/picture.png"
        self.server.asked.clear()
        answer = self.create(conditions=[{"image": url}, {"image": url, "frame": 8}])
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(self.server.asked.count("/picture.png"), 1)

    def test_what_is_wrong_is_said_by_field(self) -> None:
        self.assert_refused(self.create(input_reference=self.base + "/absent"), "input_reference", "answered 404")
        self.assert_refused(self.create(image_reference={"image_url": self.base + "/endless"}), "image_reference.image_url", f"more than {LIMIT} bytes")
        self.assert_refused(self.create(reference_url=self.base + "/page.html"), "reference_url", "not of a supported type")
        self.assert_refused(self.create(video_url=self.base + "/picture.png"), "video_url", "must be a clip")
        self.assert_refused(self.create(audio_reference={"audio_url": self.base + "/picture.png"}), "audio_reference.audio_url", "must be")
        self.assert_refused(self.create(reference_url="https://other.example/a.png"), "reference_url", "--input-url-host")

    def test_private_addresses_are_not_reached_by_name(self) -> None:
        by_name = f"https://localhost:{self.server.server_port}/picture.png"
        self.server.asked.clear()
        self.assert_refused(self.create(reference_url=by_name), "reference_url", "not public")
        self.assertEqual(self.server.asked, [])
        self.assert_refused(self.create(reference_url=f"{self.base}/to?{by_name}"), "reference_url", "not public")
        self.assert_refused(self.create(reference_url=f"{self.base}/to?https://127.0.0.1:1/"), "reference_url", "redirects to another URL")
        self.assert_refused(self.create(reference_url=f"{self.base}/to?http://127.0.0.1/"), "reference_url", "must be an https:// URL")

    def test_a_client_that_leaves_ends_the_fetch(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = json.dumps({**SMALL, "reference_url": self.base + "/slow"})
        connection.request("POST", "/v1/videos", body, {"Content-Type": "application/json"})
        self.assertTrue(self.server.slow.wait(60))
        connection.close()
        left = self.server.left.get(timeout=60)
        self.assertTrue(left == b"" or (isinstance(left, OSError) and not isinstance(left, TimeoutError)), left)

    def test_without_the_flag_no_url_is_fetched(self) -> None:
        with Gateway(self.frontend.address) as gateway:
            answer = call(gateway.port, "POST", "/v1/videos", {**SMALL, "reference_url": self.base + "/picture.png"})
        self.assert_refused(answer, "reference_url", "--input-url-host")

    def test_wrong_flags_are_named(self) -> None:
        for flag in ("--input-url-host=https://a.example", "--input-url-host=*", "--input-url-ca=/dev/null", "--input-url-timeout=x"):
            command = [harness.BUILD / "bin" / "kinora-gateway", "--address=127.0.0.1:0", "--input-url-host=a.example", flag]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(flag.partition("=")[0], done.stderr)


if __name__ == "__main__":
    harness.main(programs=["openssl"])
