#!/usr/bin/env python3
"""Tests kinora-gateway in front of a frontend with the tiny model, by Python's http.client alone."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
import uuid
from pathlib import Path
from typing import Any, Iterator, Optional
from unittest import mock

import harness
import s3

PROMPT = "a red fox in fresh snow"
SMALL: dict[str, Any] = {"prompt": PROMPT, "size": "64x64", "num_frames": 9, "seed": 7, "num_inference_steps": 2}
MANY_STEPS = 999  # the most: enough to be interrupted on a busy machine, too
WAIT_SECONDS = 60
TOKEN = "0123456789abcdef0123456789abcdef"


class Gateway:
    def __init__(self, frontend: str, flags: list[str] = []):
        self.port = harness.free_port()
        self._command = [str(harness.BUILD / "bin" / "kinora-gateway"), f"--address=127.0.0.1:{self.port}",
                         f"--frontend={frontend}", *flags]

    def __enter__(self) -> Gateway:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        for line in self._process.stderr:
            if "event=serving" in line:
                break
        else:
            raise AssertionError("the gateway did not start")
        self._log: list[str] = []
        self._reader = threading.Thread(target=lambda: self._log.extend(self._process.stderr), daemon=True)
        self._reader.start()
        return self

    def log(self) -> str:
        """What it wrote after its start; call once it has stopped."""
        self._reader.join()
        return "".join(self._log)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=60)

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()
        self._reader.join()
        self._process.stderr.close()


class Answer:
    def __init__(self, response: http.client.HTTPResponse):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def call(port: int, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if isinstance(body, (dict, list)):
        body, fields = json.dumps(body), {"Content-Type": "application/json", **fields}
    connection.request(method, path, body, fields)
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


def multipart(fields: dict[str, Any], files: dict[str, bytes] = {}) -> tuple[bytes, str]:
    boundary = uuid.uuid4().hex
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    parts += [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.bin"\r\n'
              f"Content-Type: application/octet-stream\r\n\r\n".encode() + data + b"\r\n" for name, data in files.items()]
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def events(port: int, id: str, last: Optional[str] = None) -> Iterator[tuple[str, Optional[str], Any]]:
    """The events of a job: name, id and data."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/v1/videos/{id}/events", headers={} if last is None else {"Last-Event-ID": last})
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"].startswith("text/event-stream"), response.read()
    event: dict[str, str] = {}
    with contextlib.closing(connection), response:
        for line in response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                event[name] = value
                continue
            if "event" in event:
                yield event["event"], event.get("id"), json.loads(event["data"])
            event = {}


class AgainstAFrontend(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.frontend = cls.enterClassContext(harness.Frontend(folder))
        cls.gateway = cls.enterClassContext(Gateway(cls.frontend.address))
        cls.port = cls.gateway.port

    def call(self, *arguments: Any, **headers: str) -> Answer:
        return call(self.port, *arguments, **headers)

    def create(self, **fields: Any) -> Any:
        answer = self.call("POST", "/v1/videos", {**SMALL, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def wait(self, id: str) -> Any:
        name, _, video = list(events(self.port, id))[-1]
        self.assertEqual(name, "terminal")
        return video

    def test_a_clip_is_made_followed_and_downloaded(self) -> None:
        video = self.create()
        self.assertEqual((video["object"], video["prompt"], video["size"]), ("video", PROMPT, "64x64"))
        self.assertIn(video["status"], ("queued", "in_progress"))
        early = self.call("GET", f"/v1/videos/{video['id']}/content")
        names = []
        last = None
        for name, id, data in events(self.port, video["id"]):
            names.append(name)
            last = id or last
        self.assertEqual((names[0], names[-1], data["status"], data["progress"]), ("snapshot", "terminal", "completed", 100))
        again = list(events(self.port, video["id"], last))
        self.assertEqual((again[0][0], again[-1][0]), ("snapshot", "terminal"))
        if early.status == 404:
            self.assertIn("Retry-After", early.headers)
        else:
            self.assertEqual(early.status, 200)

        path = f"/v1/videos/{video['id']}/content"
        clip = self.call("GET", path)
        self.assertEqual((clip.status, clip.headers["Content-Type"], clip.body[4:8]), (200, "video/mp4", b"ftyp"))
        head = self.call("HEAD", path)
        self.assertEqual((head.status, head.headers["Content-Length"], head.body), (200, str(len(clip.body)), b""))
        etag = clip.headers["ETag"]
        self.assertEqual(self.call("GET", path, If_None_Match=etag).status, 304)
        part = self.call("GET", path, Range="bytes=10-19")
        self.assertEqual((part.status, part.body), (206, clip.body[10:20]))
        self.assertEqual(part.headers["Content-Range"], f"bytes 10-19/{len(clip.body)}")
        self.assertEqual(self.call("GET", path, Range="bytes=-5").body, clip.body[-5:])
        self.assertEqual(self.call("GET", path, Range="bytes=10-19", If_Range=etag).status, 206)
        self.assertEqual(self.call("GET", path, Range="bytes=10-19", If_Range='"other"').status, 200)
        beyond = self.call("GET", path, Range=f"bytes={len(clip.body)}-")
        self.assertEqual((beyond.status, beyond.headers["Content-Range"]), (416, f"bytes */{len(clip.body)}"))
        self.assertEqual(self.call("GET", path + "?variant=thumbnail").status, 404)
        self.assertEqual(self.call("GET", path + "?variant=nonsense").status, 422)
        self.assertEqual(self.call("HEAD", path + "?variant=video&output_index=0").status, 200)
        self.assertEqual(self.call("GET", path + "?output_index=1").json["error"]["param"], "output_index")
        self.assertNotIn("openai-poll-after-ms", self.call("GET", f"/v1/videos/{video['id']}").headers)

    def test_a_running_job_is_polled_and_deleted_at_once(self) -> None:
        video = self.create(num_inference_steps=MANY_STEPS)
        running = self.call("GET", f"/v1/videos/{video['id']}")
        self.assertIn(running.json["status"], ("queued", "in_progress"))
        self.assertTrue(250 <= int(running.headers["openai-poll-after-ms"]) <= 5000)
        early = self.call("GET", f"/v1/videos/{video['id']}/content")
        self.assertEqual((early.status, early.json["error"]["code"]), (404, "not_ready"))
        self.assertTrue(1 <= int(early.headers["Retry-After"]) <= 30)
        deleted = self.call("DELETE", f"/v1/videos/{video['id']}")
        self.assertEqual((deleted.status, deleted.json["object"]), (200, "video.deleted"))

    def test_sound_alone_is_made(self) -> None:
        answer = self.call("POST", "/v1/audio/generate", {"prompt": "rain", "num_frames": 9, "seed": 7, "num_inference_steps": 2})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(self.wait(answer.json["id"])["media_type"], "audio/wav")
        sound = self.call("GET", f"/v1/videos/{answer.json['id']}/content")
        self.assertEqual((sound.status, sound.headers["Content-Type"], sound.body[:4]), (200, "audio/wav", b"RIFF"))

    def test_jobs_are_listed_in_pages_and_deleted(self) -> None:
        ids = [self.create(seed=seed)["id"] for seed in range(3)]
        page = self.call("GET", "/v1/videos?limit=2").json
        self.assertEqual(([video["id"] for video in page["data"]], page["has_more"]), ([ids[2], ids[1]], True))
        self.assertEqual((page["first_id"], page["last_id"]), (ids[2], ids[1]))
        following = self.call("GET", f"/v1/videos?after={page['last_id']}&limit=100").json
        self.assertEqual((following["data"][0]["id"], following["has_more"]), (ids[0], False))
        up = self.call("GET", f"/v1/videos?order=asc&after={ids[0]}").json
        self.assertEqual([video["id"] for video in up["data"]], ids[1:])
        for id in ids:
            self.wait(id)
        completed = self.call("GET", "/v1/videos?state=completed&limit=3&text=&after=").json
        self.assertEqual([video["id"] for video in completed["data"]], ids[::-1])
        others = self.call("GET", "/v1/videos?state=queued,running,finalizing,failed,cancelled&limit=100").json["data"]
        self.assertFalse(set(ids) & {video["id"] for video in others})
        for wrong in ("limit=0", "limit=101", "limit=x", "order=up", "state=done", "state=queued,", "state=FAILED", "nonsense=1", "limit=1&limit=2", "after=%zz"):
            self.assertEqual(self.call("GET", f"/v1/videos?{wrong}").status, 422, wrong)
        for id in ids:
            self.assertEqual(self.call("DELETE", f"/v1/videos/{id}").json, {"id": id, "object": "video.deleted", "deleted": True})
        deadline = time.monotonic() + WAIT_SECONDS
        while any(self.call("GET", f"/v1/videos/{id}").status != 404 for id in ids):
            self.assertLess(time.monotonic(), deadline)

    def test_a_job_is_cancelled(self) -> None:
        video = self.create(num_inference_steps=MANY_STEPS)
        answer = self.call("POST", f"/v1/videos/{video['id']}/cancel")
        self.assertEqual(answer.status, 200, answer.body)
        ended = self.wait(video["id"])
        self.assertEqual((ended["status"], ended["error"]["code"]), ("failed", "cancelled"))
        self.assertEqual(self.call("GET", f"/v1/videos/{video['id']}/content").status, 422)

    def test_an_idempotency_key_makes_one_job(self) -> None:
        key = str(uuid.uuid4())
        first = self.call("POST", "/v1/videos", SMALL, Idempotency_Key=key)
        second = self.call("POST", "/v1/videos", SMALL, Idempotency_Key=key)
        self.assertEqual(first.json["id"], second.json["id"])
        self.assertEqual((first.headers["X-Kinora-Replayed"], second.headers["X-Kinora-Replayed"]), (None, "true"))
        self.assertEqual(self.call("POST", "/v1/videos", {**SMALL, "seed": 8}, Idempotency_Key=key).status, 409)

    def test_a_multipart_body_with_a_picture(self) -> None:
        clip = self.wait(self.create()["id"])
        data = self.call("GET", f"/v1/videos/{clip['id']}/content").body
        body, kind = multipart({**SMALL, "seconds": "1"}, {"input_reference": data})
        answer = self.call("POST", "/v1/videos", body, Content_Type=kind)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(self.wait(answer.json["id"])["status"], "completed")
        body, kind = multipart(SMALL, {"input_reference": b"no picture"})
        refused = self.call("POST", "/v1/videos", body, Content_Type=kind)
        self.assertEqual((refused.status, refused.json["error"]["param"]), (422, "input_reference"), refused.body)

    def test_wrong_requests_are_named(self) -> None:
        for fields, name in (({"nonsense": 1}, "nonsense"), ({"size": "65x64"}, "width"), ({"num_frames": 10}, "num_frames")):
            answer = self.call("POST", "/v1/videos", {**SMALL, **fields})
            self.assertEqual((answer.status, answer.json["error"]["param"]), (422, name), answer.body)
            self.assertEqual(answer.json["detail"], answer.json["error"]["message"])
        relaxed = self.call("POST", "/v1/videos", {**SMALL, "nonsense": 1}, X_Kinora_Ignore_Unknown="true")
        self.assertEqual((relaxed.status, relaxed.headers["X-Kinora-Ignored"]), (200, "nonsense"))
        self.assertEqual(self.call("POST", "/v1/videos", "{", Content_Type="application/json").status, 400)
        self.assertEqual(self.call("GET", "/v1/videos/unknown").status, 404)
        self.assertEqual(self.call("GET", "/v1/videos/unknown/events").status, 404)
        self.assertEqual(self.call("GET", "/v1/../etc/passwd").status, 404)
        put = self.call("PUT", "/v1/videos")
        self.assertEqual((put.status, put.headers["Allow"]), (405, "GET, HEAD, OPTIONS, POST"))
        self.assertEqual(self.call("OPTIONS", "/v1/videos").status, 204)

    def test_models_estimates_and_the_pages(self) -> None:
        [model] = self.call("GET", "/v1/models").json["data"]
        self.assertEqual(model["object"], "model")
        estimate = self.call("POST", "/v1/estimates", SMALL)
        self.assertEqual(estimate.status, 200, estimate.body)
        self.assertEqual(self.call("GET", "/livez").status, 200)
        self.assertEqual(self.call("GET", "/readyz").status, 200)
        deadline = time.monotonic() + WAIT_SECONDS  # a request is counted once its reply has been sent
        while b'kinora_http_requests_total{code="200",route="/v1/models"}' not in (page := self.call("GET", "/metrics").body):
            self.assertLess(time.monotonic(), deadline, page)
        self.assertEqual(self.call("GET", "/openapi.json").json["openapi"][:3], "3.1")

    def test_a_stopping_gateway_ends_streams_and_exits(self) -> None:
        video = self.create(num_inference_steps=MANY_STEPS)
        with Gateway(self.frontend.address, ["--drain-grace=1h"]) as gateway:
            stream = events(gateway.port, video["id"])
            self.assertEqual(next(stream)[0], "snapshot")
            self.assertEqual(gateway.stop(), 0)  # long before the grace is over
            self.assertNotIn("terminal", [name for name, _, _ in stream])
        self.call("DELETE", f"/v1/videos/{video['id']}")


    def test_many_watchers_leave_room_for_other_calls(self) -> None:
        video = self.create(num_inference_steps=MANY_STEPS)
        with contextlib.ExitStack() as streams:
            for _ in range(200):  # a frontend takes 128 calls per connection
                connection = streams.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)))
                connection.request("GET", f"/v1/videos/{video['id']}/events")
                response = streams.enter_context(connection.getresponse())
                self.assertEqual([response.readline() for _ in range(2)], [b"id: 0\n", b"event: snapshot\n"])
            self.assertEqual(self.call("GET", f"/v1/videos/{video['id']}").status, 200)
        self.call("DELETE", f"/v1/videos/{video['id']}")


class WithTwoFrontends(unittest.TestCase):
    def setUp(self) -> None:
        self.frontends = []
        for capacity in (1, 100):
            folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
            self.frontends.append(self.enterContext(harness.Frontend(folder, flags=[f"--queue-capacity={capacity}"])))
        first, second = (frontend.address for frontend in self.frontends)
        self.port = self.enterContext(Gateway(first, [f"--frontend={second}"])).port
        self.ports = [self.enterContext(Gateway(frontend.address)).port for frontend in self.frontends]

    def create(self, **fields: Any) -> str:
        answer = call(self.port, "POST", "/v1/videos", {**SMALL, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["id"]

    def listed(self, port: int, query: str = "") -> list[str]:
        return [video["id"] for video in call(port, "GET", f"/v1/videos?limit=100{query}").json["data"]]

    def test_they_are_one_server(self) -> None:
        made = [self.create(num_inference_steps=MANY_STEPS) for _ in range(8)]
        own = [self.listed(port) for port in self.ports]
        self.assertLessEqual(len(own[0]), 3, "it runs one and holds another, and one more while the first begins")
        self.assertGreater(len(own[0]), 0)
        self.assertEqual(sorted(own[0] + own[1]), sorted(made))
        self.assertEqual(self.listed(self.port), made[::-1])
        self.assertEqual(self.listed(self.port, "&order=asc"), made)
        pages, after = [], ""
        while True:
            page = call(self.port, "GET", f"/v1/videos?limit=3{after}").json
            pages += [video["id"] for video in page["data"]]
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        self.assertEqual(pages, made[::-1])

        with Gateway(self.frontends[0].address, [f"--frontend={self.frontends[1].address}"]) as other:  # has seen none created
            for id in made:
                self.assertEqual(call(other.port, "GET", f"/v1/videos/{id}").json["id"], id)
            self.assertEqual(next(events(other.port, own[1][0]))[2]["id"], own[1][0])
            for id in made:
                self.assertEqual(call(other.port, "DELETE", f"/v1/videos/{id}").status, 200)

    def test_one_is_down(self) -> None:
        kept = self.create()
        while kept not in self.listed(self.ports[1]):
            kept = self.create()
        self.frontends[0].kill()
        for _ in range(3):
            self.create()
        self.assertEqual(call(self.port, "GET", f"/v1/videos/{kept}").status, 200)
        self.assertEqual(call(self.port, "GET", "/readyz").status, 200)
        for path in ("/v1/videos", "/v1/videos/unknown"):  # the other one may have them
            self.assertEqual(call(self.port, "GET", path).status, 503, path)


class WithTokens(unittest.TestCase):
    def test_the_callers_token_is_passed_on(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        tokens = folder / "tokens"
        tokens.write_text(TOKEN + "\n")
        tokens.chmod(0o600)
        frontend = self.enterContext(harness.Frontend(folder, flags=[f"--token-file={tokens}"]))
        port = self.enterContext(Gateway(frontend.address)).port
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            for method, path, body in (("GET", "/v1/videos", None), ("POST", "/v1/videos", SMALL), ("GET", "/v1/models", None)):
                answer = call(port, method, path, body, **headers)
                self.assertEqual((answer.status, answer.headers["WWW-Authenticate"]), (401, "Bearer"), path)
        self.assertEqual(call(port, "GET", "/readyz").status, 200)
        made = call(port, "POST", "/v1/videos", SMALL, Authorization=f"Bearer {TOKEN}")
        self.assertEqual(made.status, 200, made.body)

    def test_a_link_plays_without_a_token(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        tokens, key = folder / "tokens", folder / "key"
        for path, text in ((tokens, TOKEN + "\n"), (key, "0123456789abcdef" * 3)):
            path.write_text(text)
            path.chmod(0o600)
        frontend = self.enterContext(harness.Frontend(folder, flags=[f"--token-file={tokens}"]))
        gateway = self.enterContext(Gateway(frontend.address, [f"--link-key-file={key}"]))
        port, bearer = gateway.port, {"Authorization": f"Bearer {TOKEN}"}
        id = call(port, "POST", "/v1/videos", {**SMALL, "thumbnail": True}, **bearer).json["id"]
        path = f"/v1/videos/{id}"
        self.assertEqual(call(port, "GET", path + "/events", **bearer).status, 200)  # until the job has ended

        whole = call(port, "GET", path + "/content", **bearer)
        link = call(port, "POST", path + "/link", **bearer)
        self.assertEqual((link.status, set(link.json)), (200, {"url", "expires_at"}), link.body)
        self.assertAlmostEqual(link.json["expires_at"], time.time() + 600, delta=30)
        url = link.json["url"]
        self.assertTrue(url.startswith(f"{path}/content?link="), url)
        self.assertNotIn(TOKEN, url)
        self.assertEqual((call(port, "GET", url).status, call(port, "GET", url).body), (200, whole.body))
        part = call(port, "GET", url, Range="bytes=100-199")
        self.assertEqual((part.status, part.body, part.headers["Content-Range"]),
                         (206, whole.body[100:200], f"bytes 100-199/{len(whole.body)}"))
        picture = call(port, "POST", path + "/link", {"variant": "thumbnail"}, **bearer).json["url"]
        self.assertEqual(call(port, "GET", picture).headers["Content-Type"], "image/jpeg")
        with Gateway(frontend.address, [f"--link-key-file={key}"]) as other:  # behind the same address
            self.assertEqual(call(other.port, "HEAD", url).headers["Content-Length"], str(len(whole.body)))
        with Gateway(frontend.address) as stranger:
            self.assertEqual(call(stranger.port, "GET", url).json["error"]["code"], "link_invalid")

        other_id = call(port, "POST", "/v1/videos", {**SMALL, "seed": 8}, **bearer).json["id"]
        for wrong in (url[:-1], url + "A", url.replace(id, other_id), url + "&variant=thumbnail", picture.replace("variant=thumbnail&", ""),
                      path + "/content?link=", path + "/content"):
            answer = call(port, "GET", wrong)
            self.assertEqual((answer.status, answer.headers["WWW-Authenticate"]), (401, "Bearer"), wrong)
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            self.assertEqual(call(port, "POST", path + "/link", **headers).status, 401)
        for id, body, status in (("unknown", None, 404), (id, {"variant": "nonsense"}, 422), (id, {"variant": "trace"}, 404), (id, {"x": 1}, 422),
                                 (id, "{", 400), (id, "{" * 5000, 413), (id, {"bucket_seconds": 60}, 400),
                                 (id, {"bucket_seconds": 604801}, 422)):
            answer = call(port, "POST", f"/v1/videos/{id}/link", body, **bearer)
            self.assertEqual((answer.status, answer.json["detail"]), (status, answer.json["error"]["message"]), body)
        self.assertEqual(call(port, "POST", path + "/link", {"bucket_seconds": 60}, **bearer).json["error"]["code"], "no_bucket")
        gateway.stop()
        self.assertNotIn(url.partition("link=")[2], gateway.log())

    def test_a_clip_in_a_bucket_is_served_and_linked(self) -> None:
        server = self.enterContext(s3.Server())
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        with mock.patch.dict(os.environ, server.environment):
            frontend = self.enterContext(harness.Frontend(folder, flags=server.flags))
        port = self.enterContext(Gateway(frontend.address)).port
        id = call(port, "POST", "/v1/videos", {**SMALL, "thumbnail": True}).json["id"]
        self.assertEqual(call(port, "GET", f"/v1/videos/{id}/events").status, 200)  # until the job has ended
        whole = call(port, "GET", f"/v1/videos/{id}/content")
        self.assertEqual((whole.status, whole.headers["Content-Type"]), (200, "video/mp4"), whole.body[:500])
        for body, media_type, start in (({}, "video/mp4", whole.body[:100]), ({"variant": "thumbnail"}, "image/jpeg", b"\xff\xd8\xff")):
            link = call(port, "POST", f"/v1/videos/{id}/link", {**body, "bucket_seconds": 60}).json
            self.assertAlmostEqual(link["expires_at"], time.time() + 60, delta=30)
            with urllib.request.urlopen(link["url"]) as fetched:
                self.assertEqual(fetched.headers["Content-Type"], media_type)
                self.assertTrue(fetched.read().startswith(start))
        run = subprocess.run([str(harness.BUILD / "bin/kinora"), "get", id, "--links=1h", "--server", frontend.address], capture_output=True, text=True)
        self.assertIn(f"link       {server.endpoint}/clips/", run.stdout, run.stderr)
        self.assertFalse((folder / "state/artifacts").exists())


    def test_groups_are_listed_for_callers_with_a_token(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        tokens = folder / "tokens"
        tokens.write_text(TOKEN + "\n")
        tokens.chmod(0o600)
        frontend = self.enterContext(harness.Frontend(folder, flags=[f"--token-file={tokens}"]))
        admin, gone = f"unix:{folder}/state/admin.sock", f"unix:{folder}/none.sock"
        port = self.enterContext(Gateway(frontend.address, [f"--admin={admin}", f"--admin={gone}"])).port
        self.assertEqual(call(port, "GET", "/v1/groups").status, 401)
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        made = call(port, "POST", "/v1/videos", {**SMALL, "num_inference_steps": MANY_STEPS}, **bearer).json["id"]
        deadline = time.monotonic() + WAIT_SECONDS
        progress = None
        while progress is None or progress["total_steps"] == 0:  # no job yet, or a stage without steps
            self.assertLess(time.monotonic(), deadline)
            listed = call(port, "GET", "/v1/groups", **bearer).json
            progress = listed["data"][0]["progress"]
        [group], [failure] = listed["data"], listed["failures"]
        self.assertEqual((group["frontend"], group["video_id"], group["progress"]["total_steps"]), (admin, made, MANY_STEPS))
        self.assertEqual([rank["rank"] for rank in group["ranks"]], [0])
        self.assertEqual(failure["frontend"], gone)
        call(port, "DELETE", f"/v1/videos/{made}", **bearer)
        with Gateway(frontend.address) as other:
            answer = call(other.port, "GET", "/v1/groups", **bearer)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (404, "no_admin_address"))
            self.assertIn("--admin", answer.json["detail"])


class WithSeveralModels(unittest.TestCase):
    def frontend(self, *flags: str) -> str:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        return self.enterContext(harness.Frontend(folder, flags=list(flags))).address

    def test_a_request_names_its_model_unless_there_is_a_default(self) -> None:
        first, second = self.frontend("--worker-model-id=first"), self.frontend("--worker-model-id=second", "--default-model=second")
        port = self.enterContext(Gateway(first, [f"--frontend={second}"])).port
        for _ in range(2):  # whichever frontend is asked
            self.assertEqual(call(port, "POST", "/v1/videos", SMALL).json["model"], "second")
            self.assertEqual(call(port, "POST", "/v1/videos", {**SMALL, "model": "first"}).json["model"], "first")
            self.assertEqual(call(port, "POST", "/v1/videos", {**SMALL, "model": "third"}).status, 404)
        third = self.frontend("--worker-model-id=third")
        port = self.enterContext(Gateway(first, [f"--frontend={third}"])).port
        for path in ("/v1/videos", "/v1/estimates"):
            answer = call(port, "POST", path, SMALL)
            self.assertEqual((answer.status, answer.json["error"]["param"]), (422, "model"), answer.body)
            self.assertIn("must be set", answer.json["detail"])


class WithoutAFrontend(unittest.TestCase):
    def test_it_says_so_and_lives(self) -> None:
        with Gateway(f"127.0.0.1:{harness.free_port()}") as gateway:
            self.assertEqual(call(gateway.port, "GET", "/livez").status, 200)
            self.assertEqual(call(gateway.port, "GET", "/readyz").status, 503)
            self.assertEqual(call(gateway.port, "GET", "/v1/videos").status, 503)


if __name__ == "__main__":
    harness.main()
