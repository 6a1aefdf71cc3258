#!/usr/bin/env python3
"""The requests of clients that are too large for CI, in their order and form, and what they require of the answers. They
were recorded from LiteLLM 1.110.2 (`hosted_vllm/MODEL` and `openai/MODEL`, which send the same) and read in the source of
AIPerf (src/aiperf/transports/aiohttp_transport.py); LiteLLM itself has been run against the gateway by hand."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
import unittest
import urllib.parse
import uuid
from pathlib import Path
from typing import Any

import harness
from gateway_test import Answer, Gateway, call

PROMPT = "a red fox in fresh snow"
PATIENCE_SECONDS = 60
POLL_SECONDS = 0.05  # LiteLLM's callers and AIPerf pause between polls, too


def form(fields: dict[str, str], file: bytes = b"") -> tuple[bytes, str]:
    """As httpx writes it."""
    boundary = uuid.uuid4().hex
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    if file:
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="input_reference"; filename="input_reference.png"\r\n'
                     f"Content-Type: image/png\r\n\r\n".encode() + file + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


class ClientLoops(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        frontend = cls.enterClassContext(harness.Frontend(folder))
        cls.port = cls.enterClassContext(Gateway(frontend.address)).port

    def lite(self, method: str, path: str, body: Any = None, kind: str = "") -> Answer:
        headers = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive", "User-Agent": "litellm/1.110.2",
                   "Authorization": "Bearer none"}
        answer = call(self.port, method, path, body, **headers, **({"Content-Type": kind} if kind else {}))
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def check_lite_video(self, video: Any) -> None:
        """What LiteLLM's VideoObject validates."""
        self.assertEqual(video["object"], "video")
        for name in ("id", "status"):
            self.assertIsInstance(video[name], str)
        for name, kind in (("created_at", int), ("completed_at", int), ("expires_at", int), ("error", dict), ("progress", int),
                           ("remixed_from_video_id", str), ("seconds", str), ("size", str), ("model", str), ("usage", dict)):
            self.assertIsInstance(video.get(name), (kind, type(None)), name)
        float(video["seconds"])

    def test_litellm(self) -> None:
        [model] = [listed["id"] for listed in call(self.port, "GET", "/v1/models").json["data"]]
        body, kind = form({"model": model, "prompt": PROMPT, "seconds": "1", "size": "64x64", "num_inference_steps": "2", "seed": "7"})
        video = self.lite("POST", "/v1/videos", body, kind).json
        deadline = time.monotonic() + PATIENCE_SECONDS
        while video["status"] not in ("completed", "failed"):
            self.check_lite_video(video)
            self.assertLess(time.monotonic(), deadline)
            time.sleep(POLL_SECONDS)
            video = self.lite("GET", f"/v1/videos/{video['id']}").json
        self.check_lite_video(video)
        self.assertEqual(video["status"], "completed", video)
        clip = self.lite("GET", f"/v1/videos/{video['id']}/content")
        self.assertEqual(clip.body[4:8], b"ftyp")
        listed = self.lite("GET", "/v1/videos?limit=2&order=desc").json
        self.assertEqual((listed["data"][0]["id"], listed["first_id"]), (video["id"], video["id"]))
        body, kind = form({"model": model, "prompt": PROMPT, "seconds": "1", "size": "64x64", "num_inference_steps": "2"}, clip.body)
        self.check_lite_video(self.lite("POST", "/v1/videos", body, kind).json)

    def test_aiperf(self) -> None:
        [model] = [listed["id"] for listed in call(self.port, "GET", "/v1/models").json["data"]]
        payload = {"prompt": PROMPT, "model": model, "size": "64x64", "seconds": 1, "fps": 24, "num_inference_steps": 2, "seed": 7,
                   "guidance_scale": 3.0, "negative_prompt": "blurry"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)  # one for all, as its pool keeps it
        self.addCleanup(connection.close)

        def send(method: str, path: str, data: bytes = b"") -> Answer:
            headers = {"User-Agent": "aiperf/0.4.0", "X-Request-ID": str(uuid.uuid4()), "X-Correlation-ID": str(uuid.uuid4()),
                       "Authorization": "Bearer none", "Accept": "application/json", "Content-Type": "application/json"}
            connection.request(method, path, data or None, headers)
            answer = Answer(connection.getresponse())
            self.assertTrue(200 <= answer.status < 300, answer.body)
            return answer

        job = send("POST", "/v1/videos", json.dumps(payload).encode()).json
        self.assertTrue(job["id"])
        poll = f"/v1/videos/{job['id']}"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (data := send("GET", poll).json)["status"] != "completed":
            self.assertIn(data["status"], ("queued", "in_progress"))
            self.assertLess(time.monotonic(), deadline)
            time.sleep(POLL_SECONDS)
        if data["url"]:  # it downloads from there, and only from an absolute URL
            self.assertIn(urllib.parse.urlsplit(data["url"]).scheme, ("http", "https"))
        clip = send("GET", data["url"] or f"{poll}/content")
        self.assertRegex(clip.headers["Content-Type"], "^(video|audio|image)/|^application/octet-stream$")
        self.assertEqual(clip.body[4:8], b"ftyp")
        for name, kind in (("progress", int), ("size", str), ("seconds", str), ("quality", str), ("created_at", int), ("completed_at", int),
                           ("inference_time_s", (int, float)), ("peak_memory_mb", (int, float))):
            self.assertIsInstance(data[name], kind, name)


if __name__ == "__main__":
    harness.main()
