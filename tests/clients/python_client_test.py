#!/usr/bin/env python3
"""Tests clients/python, installed by pip, against a frontend with the tiny model; faults at a specific byte use the
test's own service."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from concurrent import futures
from pathlib import Path
from typing import Any

import harness

PROMPT = "a red fox in fresh snow"
SMALL: dict[str, Any] = {"width": 64, "height": 64, "frames": 9, "seed": 7, "recipe": "one_stage"}
MANY_STEPS = 200  # enough to be interrupted

kinora: Any = None


def setUpModule() -> None:
    global kinora
    folder = unittest.enterModuleContext(tempfile.TemporaryDirectory())
    sys.path.insert(0, str(harness.install_package(Path(folder))))
    import google

    google.__path__.append(sys.path[0] + "/google")  # already imported, with gRPC
    import kinora as package

    kinora = package


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name != "state")


class AgainstAFrontend(InAFolder):
    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.frontend = cls.enterClassContext(harness.Frontend(folder))
        cls.server = cls.frontend.address

    def test_a_clip_lies_at_out_with_its_steps_told_and_its_twin_makes_the_same_bytes(self) -> None:
        told: list[Any] = []
        clip = kinora.generate(PROMPT, out=self.folder / "new" / "fox.mp4", server=self.server, steps=40, progress=told.append, **SMALL)
        self.assertEqual((clip.seed, clip.width, clip.frames, clip.seconds), (7, 64, 9, 9 / 24))
        steps = [made.step for made in told if made.stage == "denoise" and made.step > 0]  # the server may drop some
        self.assertEqual(steps, sorted(set(steps) & set(range(1, 41))))
        self.assertGreater(len(steps), 1)
        self.assertEqual((told[-1].state, told[-1].fraction), ("COMPLETED", 1.0))
        self.assertEqual(sorted(told, key=lambda made: made.fraction), told)
        twin = asyncio.run(kinora.aio.generate(PROMPT, out=self.folder / "twin.mp4", server=self.server, steps=40, **SMALL))
        self.assertEqual(clip.path.read_bytes(), twin.path.read_bytes())
        self.assertEqual(clip.path.read_bytes()[4:8], b"ftyp")

    def test_the_ending_picks_the_container(self) -> None:
        for name, begin in (("fox.webm", b"\x1a\x45\xdf\xa3"), ("fox.wav", b"RIFF"), ("fox.zip", b"PK")):
            with self.assertWarnsRegex(UserWarning, "audio_only=True") if name == "fox.wav" else contextlib.nullcontext():
                clip = kinora.generate(PROMPT, out=self.folder / name, server=self.server, steps=1, **SMALL)
            self.assertTrue(clip.path.read_bytes().startswith(begin), name)
            if name == "fox.wav":  # sound length: 9 frames at 24 fps are 9 tokens, or 33 rows of 10 ms
                self.assertEqual(clip.seconds, 0.33)

    def test_a_job_is_queued_followed_listed_and_deleted(self) -> None:
        with kinora.Client(self.server) as client:
            self.assertEqual(client.models()[0].family, "ltx-2.3")
            self.assertGreater(client.estimate(PROMPT, steps=2, **SMALL).seconds, 0)
            job = client.create(PROMPT, steps=2, labels={"a": "b"}, thumbnail=True, **SMALL)
            video = client.wait_for(job.id)
            self.assertIn(job.id, [v.id for v in client.list(states=[video.state], page_size=1)])
            later = client.create("a heron, never seen before", steps=MANY_STEPS, **SMALL)
            self.assertEqual([v.id for v in client.list(text="HERON never", after_id=job.id, oldest_first=True)], [later.id])
            self.assertEqual([v.id for v in client.list(page_size=1)], [v.id for v in client.list(oldest_first=True)][::-1])
            client.delete(later.id, cancel=True)
            client.download(video, self.folder / "fox.mp4")
            client.download(video, self.folder / "fox.jpg", "thumbnail.jpg")
            client.delete(job.id)
            with self.assertRaises(kinora.Refused) as raised:
                client.get(job.id)
            self.assertEqual(raised.exception.code, "NOT_FOUND")
        self.assertEqual(self.files(), ["fox.jpg", "fox.mp4"])

    def test_pictures_clips_and_sounds_are_sent_by_path_or_bytes(self) -> None:
        picture = (harness.ROOT / "docs/recipes.png").read_bytes()
        clip = kinora.generate(PROMPT, out=self.folder / "fox.mp4", server=self.server, steps=1, **SMALL)
        with kinora.Client(self.server) as client:
            request = dict(SMALL, steps=1)
            made = client.generate(PROMPT, images=[picture, (clip.path, 8, 0.5)], cfg=2, **request)
            first, second = made.video.effective.conditions
            self.assertTrue(first.HasField("image") and second.HasField("clip"))
            self.assertEqual((first.frame, second.frame, second.strength), (0, 8, 0.5))
            self.assertEqual(made.video.effective.video_guidance.cfg_scale, 2)
            self.assertNotEqual(made.video.effective.video_guidance.stg_scale, 0)  # the recipe's
            sent = client.upload(picture)
            self.assertEqual((sent.id, sent.media_type), (first.image.input_id, "image/png"))
            again = client.generate(PROMPT, retake=(clip.path, 0, 0.2), **request)
            self.assertEqual(again.video.effective.retake.clip.input_id, second.clip.input_id)
            job = client.create(PROMPT, images=kinora.Image(sent, strength=0.5), audio=clip.path, **request)
            self.assertEqual(client.wait_for(job.id).effective.audio.media.input_id, second.clip.input_id)
            with self.assertRaises(kinora.Refused) as raised:
                client.upload(b"words")
            self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")

        async def twin() -> None:
            async with kinora.aio.Client(self.server) as client:
                self.assertEqual((await client.upload(picture)).id, sent.id)
                made = await client.generate(PROMPT, images=picture, **request)
                self.assertEqual(made.video.effective.conditions[0].image.input_id, sent.id)

        asyncio.run(twin())

    def test_asyncio_has_the_same_calls(self) -> None:
        async def calls() -> None:
            async with kinora.aio.Client(self.server) as client:
                self.assertEqual((await client.models())[0].family, "ltx-2.3")
                job = await client.create(PROMPT, steps=2, **SMALL)
                video = await client.wait_for(job.id)
                await client.download(video, self.folder / "fox.mp4")
                self.assertIn(job.id, [v.id async for v in client.list(page_size=1)])
                self.assertEqual([v.id async for v in client.list(after_id=job.id, oldest_first=True, text="fox")], [])
                await client.delete(job.id)
                with self.assertRaises(kinora.Refused):
                    await client.get(job.id)

        asyncio.run(calls())
        self.assertEqual(self.files(), ["fox.mp4"])

    def test_a_refusal_names_the_fields_and_leaves_no_file(self) -> None:
        with self.assertRaises(kinora.Refused) as raised:
            kinora.generate(PROMPT, out=self.folder / "fox.mp4", server=self.server, width=63, frames=2)
        self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")
        self.assertIn("nearest: 64", raised.exception.fields["generation.width"])
        self.assertIn("generation.num_frames", raised.exception.fields)
        with self.assertRaises(kinora.Refused) as raised:
            kinora.generate(PROMPT, server=self.server, model="none")
        self.assertEqual(raised.exception.reason, "MODEL_NOT_LOADED")
        self.assertEqual(self.files(), [])

    def test_what_progress_raises_cancels_the_job(self) -> None:
        class Enough(Exception):
            pass

        def stop(made: Any) -> None:
            if made.step >= 3:
                self.video_id = made.video_id
                raise Enough

        with self.assertRaises(Enough):
            kinora.generate(PROMPT, out=self.folder / "fox.mp4", server=self.server, steps=MANY_STEPS, progress=stop, **SMALL)
        with kinora.Client(self.server) as client, self.assertRaises(kinora.JobCancelled) as raised:
            client.wait_for(self.video_id)
        self.assertEqual(raised.exception.video.id, self.video_id)
        self.assertEqual(self.files(), [])

    def test_a_cancelled_task_cancels_the_job(self) -> None:
        async def leave() -> None:
            async with kinora.aio.Client(self.server) as client:
                runs, seen = asyncio.Event(), []

                def note(made: Any) -> None:
                    seen.append(made.video_id)
                    if made.step >= 3:
                        runs.set()

                task = asyncio.create_task(client.generate(PROMPT, steps=MANY_STEPS, progress=note, **SMALL))
                await runs.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                with self.assertRaises(kinora.JobCancelled):
                    await client.wait_for(seen[-1])

        asyncio.run(leave())

    def test_previews_come_as_pictures_where_they_are_asked_for(self) -> None:
        shown: list[Any] = []
        clip = kinora.generate(PROMPT, server=self.server, steps=8, preview=shown.append, preview_every=2, **SMALL)
        self.assertTrue({made.step for made in shown} <= {2, 4, 6, 8} and shown)
        for made in shown:
            self.assertEqual((made.stage, made.media_type, made.image[:3]), ("denoise", "image/jpeg", b"\xff\xd8\xff"))
        self.assertEqual(clip.video.output.preview_every_steps, 2)

        async def twin() -> None:
            async with kinora.aio.Client(self.server) as client:
                seen: list[Any] = []
                await client.generate(PROMPT, steps=8, preview=seen.append, **SMALL)
                self.assertTrue(seen)

        asyncio.run(twin())
        with self.assertRaises(kinora.Refused) as raised:
            kinora.generate(PROMPT, server=self.server, preview_every=-1, **SMALL)
        self.assertIn("output.preview_every_steps", raised.exception.fields)

    def test_what_the_proto_marks_as_unimplemented_is_nothing(self) -> None:
        proto = (harness.ROOT / "proto/kinora/v1/video_generation.proto").read_text()
        self.assertNotRegex(proto, r"(?m)^ +// UNIMPLEMENTED")

    def test_a_folder_or_an_ending_that_is_no_file_is_met_before_the_server_is(self) -> None:
        for out, error in ((self.folder, ValueError), ("fox.gif", ValueError), ("fox", ValueError)):
            with self.assertRaises(error):
                kinora.generate(PROMPT, out=out, server="127.0.0.1:1")
        (self.folder / "folder.mp4").mkdir()
        with self.assertRaises(IsADirectoryError):
            kinora.generate(PROMPT, out=self.folder / "folder.mp4", server="127.0.0.1:1")
        with self.assertRaisesRegex(ValueError, "selects MP4, but container is wav"):
            kinora.generate(PROMPT, out="fox.mp4", container="wav")
        for option in ("width", "height", "frames", "fps", "steps"):  # 0 would mean the default
            with self.assertRaisesRegex(ValueError, f"{option}: 0 is not valid"):
                kinora.generate(PROMPT, server="127.0.0.1:1", **{option: 0})
        with self.assertRaisesRegex(TypeError, r"unknown option: heigth \(did you mean height\?\)\. Options: .*height"):
            kinora.generate(PROMPT, heigth=64)
        with self.assertRaisesRegex(ValueError, "recipe 'fast': must be one of ONE_STAGE, "):
            kinora.generate(PROMPT, recipe="fast")


class AgainstAServerThatIsAway(InAFolder):
    def test_a_call_waits_for_a_server_that_starts_and_for_one_that_is_killed_and_comes_back(self) -> None:
        frontend = harness.Frontend(self.folder)
        away, runs, back = threading.Event(), threading.Event(), threading.Event()
        states: list[str] = []

        def note(made: Any) -> None:
            states.append(made.state)
            if made.state == "WAITING":
                (back if runs.is_set() else away).set()
            if made.step >= 3:
                runs.set()

        with futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(kinora.generate, PROMPT, out=self.folder / "fox.mp4", server=frontend.address, steps=MANY_STEPS,
                               progress=note, **SMALL)
            self.assertTrue(away.wait(harness.START_SECONDS))
            frontend.start()
            self.assertTrue(runs.wait(harness.START_SECONDS), frontend.log)
            frontend.kill()
            self.assertTrue(back.wait(harness.START_SECONDS))
            frontend.start()
            self.addCleanup(frontend.stop)
            clip = call.result()
        self.assertEqual(clip.video.attempt, 2)
        self.assertEqual(clip.path.read_bytes()[4:8], b"ftyp")

    def test_a_server_that_does_not_come_is_unreachable(self) -> None:
        address = f"127.0.0.1:{harness.free_port()}"
        with self.assertRaisesRegex(kinora.Unreachable, "waited 0 s: .*Connection refused"):
            kinora.generate(PROMPT, out=self.folder / "fox.mp4", server=address, wait=0)
        with self.assertRaises(kinora.Unreachable):
            asyncio.run(kinora.aio.generate(PROMPT, server=address, wait=0))
        self.assertEqual(self.files(), [])


class OverTls(InAFolder):
    def test_a_certificate_and_a_token_are_asked_for_and_shown(self) -> None:
        for name in ("server", "stranger"):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                            f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.folder / f"{name}-key.pem",
                            "-out", self.folder / f"{name}.pem"], check=True, capture_output=True)
        token = self.folder / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        flags = [f"--tls-certificate-file={self.folder / 'server.pem'}", f"--tls-key-file={self.folder / 'server-key.pem'}",
                 f"--token-file={token}"]
        server = self.enterContext(harness.Frontend(self.folder, flags=flags)).address
        ours, others = str(self.folder / "server.pem"), str(self.folder / "stranger.pem")
        with kinora.Client(server, ca_file=ours, token_file=str(token)) as client:
            self.assertEqual(client.models()[0].family, "ltx-2.3")
            client.generate(PROMPT, out=self.folder / "fox.mp4", steps=1, **SMALL)
        for wrong in (None, "fedcba9876543210"):
            with kinora.Client(server, ca_file=ours, token=wrong) as client, self.assertRaises(kinora.Refused) as raised:
                client.generate(PROMPT)
            self.assertEqual(raised.exception.code, "UNAUTHENTICATED")
        for endpoint, words in (({"ca_file": others}, ""), ({}, "wants TLS .*ca_file=")):
            with kinora.Client(server, token_file=str(token), wait=0, **endpoint) as client:
                with self.assertRaisesRegex(kinora.Unreachable, words):
                    client.generate(PROMPT)
                with self.assertRaisesRegex(kinora.Unreachable, words):
                    client.models()


class OfABrokenUpload(InAFolder):
    def test_it_goes_on_with_what_the_server_has_not(self) -> None:
        import grpc

        content = bytes(range(256)) * 4096
        calls: list[tuple[int, int]] = []
        stored = bytearray()

        class Service(kinora.client.services.VideoGenerationServicer):
            def GetInput(self, request: Any, context: Any) -> Any:
                if not stored:
                    context.abort(grpc.StatusCode.NOT_FOUND, "nothing")
                return kinora.messages.Input(sha256=request.sha256, bytes=len(content), received=len(stored))

            def UploadInput(self, parts: Any, context: Any) -> Any:
                header = next(parts).header
                for part in parts:
                    stored.extend(part.data)
                    if not calls:
                        calls.append((header.offset, len(stored)))
                        context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
                calls.append((header.offset, len(stored)))
                return kinora.messages.Input(id="in", bytes=header.bytes, sha256=header.sha256)

        server = grpc.server(futures.ThreadPoolExecutor(1))
        kinora.client.services.add_VideoGenerationServicer_to_server(Service(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())

        async def twin() -> Any:
            async with kinora.aio.Client(f"127.0.0.1:{port}") as client:
                return await client.upload(content)

        for asynchronous in (False, True):
            calls.clear()
            stored.clear()
            if asynchronous:
                sent = asyncio.run(twin())
            else:
                with kinora.Client(f"127.0.0.1:{port}") as client:
                    sent = client.upload(content)
            self.assertEqual((sent.id, bytes(stored)), ("in", content))
            self.assertEqual(calls, [(0, 256 << 10), (256 << 10, len(content))])


class OfABrokenDownload(InAFolder):
    """A service that breaks the first streams after one chunk, has no slot, or sends data that is not the file."""

    CONTENT = bytes(range(256)) * 8

    def download(self, content: bytes, breaks: int = 1, refusals: int = 0, wait: float = 60) -> list[int]:
        import grpc

        offsets: list[int] = []
        times = self.times = []  # of attempts

        class Service(kinora.client.services.VideoGenerationServicer):
            def DownloadArtifact(self, request: Any, context: Any) -> Any:
                offsets.append(request.offset)
                times.append(time.monotonic())
                if len(offsets) <= refusals:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "away")
                for offset in range(request.offset, len(content), 1000):
                    if offset > request.offset and len(offsets) <= refusals + breaks:
                        context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
                    yield kinora.messages.ArtifactChunk(data=content[offset:offset + 1000], offset=offset)

        server = grpc.server(futures.ThreadPoolExecutor(1))
        kinora.client.services.add_VideoGenerationServicer_to_server(Service(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        artifact = kinora.messages.Artifact(id="a", bytes=len(self.CONTENT), sha256=hashlib.sha256(self.CONTENT).hexdigest())
        video = kinora.messages.Video(id="v", artifacts=[artifact])

        async def twin() -> None:
            async with kinora.aio.Client(f"127.0.0.1:{port}", wait=wait) as client:
                await client.download(video, self.folder / "clip")

        if self.asynchronous:
            asyncio.run(twin())
        else:
            with kinora.Client(f"127.0.0.1:{port}", wait=wait) as client:
                client.download(video, self.folder / "clip")
        return offsets

    asynchronous = False
    times: list[float]

    def test_it_goes_on_where_it_broke(self) -> None:
        self.assertEqual(self.download(self.CONTENT), [0, 1000])
        self.assertEqual((self.folder / "clip").read_bytes(), self.CONTENT)

    def test_it_is_tried_again_with_pauses_for_as_long_as_wait_says(self) -> None:
        for self.asynchronous in (False, True):
            self.assertEqual(self.download(self.CONTENT, breaks=2, refusals=4), [0, 0, 0, 0, 0, 1000, 2000])
            pauses = [after - before for before, after in zip(self.times, self.times[1:])]
            for least, pause in zip((0.18, 0.37, 0.75, 1.5, 0.18, 0.18), pauses):
                self.assertGreater(pause, least)
            with self.assertRaises(kinora.Unreachable):
                self.download(self.CONTENT, refusals=100, wait=0.5)
            self.assertLess(len(self.times), 6)

    def test_what_the_server_has_lost_is_not_tried_again(self) -> None:
        import grpc
        from google.protobuf import any_pb2
        from google.rpc import error_details_pb2, status_pb2
        from kinora._job import Retries

        class Lost(grpc.RpcError):
            def __init__(self, detail: Any) -> None:
                super().__init__()
                packed = any_pb2.Any()
                packed.Pack(detail)
                self._details = status_pb2.Status(code=14, details=[packed]).SerializeToString()

            def code(self) -> Any:
                return grpc.StatusCode.UNAVAILABLE

            def details(self) -> str:
                return "lost"

            def trailing_metadata(self) -> Any:
                return (("grpc-status-details-bin", self._details),)

        with self.assertRaises(kinora.Unreachable):
            Retries(60).pause_after(Lost(error_details_pb2.ErrorInfo(reason="STATE_LOST")), 0)
        self.assertGreater(Retries(60).pause_after(Lost(error_details_pb2.RetryInfo()), 0), 0)

    def test_other_bytes_are_no_file(self) -> None:
        for content in (self.CONTENT[:-1], self.CONTENT[:-1] + b"!"):
            with self.assertRaises(kinora.DamagedDownload):
                self.download(content)
        self.assertEqual(self.files(), [])


class OfARequest(unittest.TestCase):
    def test_the_names_of_other_programs_are_ours(self) -> None:
        made = kinora.make_request("a fox", size="768x512", duration="5s", frame_rate=25, guidance_scale=(3, 7), num_inference_steps=4,
                                   lora="kite:0.5:0.3").generation
        self.assertEqual((made.width, made.height, made.num_frames, made.frame_rate), (768, 512, 121, 25))
        self.assertEqual((made.video_guidance.cfg_scale, made.audio_guidance.cfg_scale, made.num_inference_steps), (3, 7, 4))
        self.assertTrue(made.video_guidance.keep_defaults and not made.video_guidance.HasField("stg_scale"))
        self.assertEqual((made.loras[0].id, made.loras[0].strength, made.loras[0].strength_stage2), ("kite", 0.5, 0.3))
        for seconds, frames in ((5, 121), (1.04, 25), (0.2, 1), (0.25, 9), (10, 241)):
            made = kinora.make_request("a fox", duration=seconds).generation
            self.assertEqual((made.num_frames, made.frame_rate), (frames, 24))
        loras = kinora.make_request("a fox", loras=[kinora.Lora("a"), ("b", 2)]).generation.loras
        self.assertEqual([(lora.id, lora.strength) for lora in loras], [("a", 0), ("b", 2)])
        for options, error in (({"num_frames": 9, "frames": 9}, "num_frames and frames are the same option"), ({"size": "768"}, "size: '768'"),
                               ({"size": (64, 64), "width": 64}, "size: cannot be combined with width"),
                               ({"duration": "soon"}, "duration: 'soon'"), ({"cfg": (1, 2, 3)}, "cfg: "),
                               ({"duration": 5, "frames": 9}, "duration: cannot be combined with frames"),
                               ({"auto_length": (1, 2), "duration": 9}, "auto_length: cannot be combined with duration"),
                               ({"auto_length": 5}, "auto_length: 5: must be"),
                               ({"loras": "a:b"}, "loras: 'a:b'"), ({"images": b"words"}, "images: 5 bytes: is neither"),
                               ({"images": "/nowhere.png"}, "images: /nowhere.png: no such file"), ({"audio": 3}, "audio: 3"),
                               ({"retake": "clip.mp4"}, r"retake: 'clip.mp4': must be \(path, start_seconds, end_seconds\)"),
                               ({"images": b"\x89PNG"}, "upload"), ({"guidance": 3}, "unknown option: guidance")):
            with self.subTest(options=options), self.assertRaisesRegex((TypeError, ValueError, FileNotFoundError), error):
                kinora.make_request("a fox", **options)

    def test_what_is_not_made_is_not_guided(self) -> None:
        sound = kinora.make_request("a tone", audio_only=True, cfg=3).generation
        self.assertFalse(sound.HasField("video_guidance"))
        self.assertEqual(sound.audio_guidance.cfg_scale, 3)
        given = kinora.make_request("a fox", audio=kinora.messages.Input(id="in"), cfg=3).generation
        self.assertFalse(given.HasField("audio_guidance"))
        message = kinora.messages.Guidance(stg_scale=1)
        merged = kinora.make_request("a fox", video_guidance=message, cfg=3).generation.video_guidance
        self.assertEqual((merged.stg_scale, merged.cfg_scale, merged.keep_defaults), (1, 3, False))

    def test_help_explains_every_option(self) -> None:
        import pydoc

        text = pydoc.plain(pydoc.render_doc(kinora.Options))
        for option in kinora.Options.__annotations__:
            self.assertRegex(kinora.Options.__doc__, rf"\b{option}\b")
            self.assertRegex(text, rf"\b{option}\b")

    def test_one_without_an_id_gets_one_so_that_it_may_be_sent_again(self) -> None:
        from kinora._request import with_request_id
        from kinora.messages import CreateVideoRequest

        bare, named = CreateVideoRequest(), CreateVideoRequest(request_id="mine")
        self.assertNotEqual(with_request_id(bare).request_id, "")
        self.assertEqual(bare.request_id, "")
        self.assertEqual(with_request_id(named).request_id, "mine")


class OfAnAddress(unittest.TestCase):
    def test_the_authority_may_come_from_the_environment(self) -> None:
        with tempfile.NamedTemporaryFile() as authority, unittest.mock.patch.dict("os.environ", KINORA_TLS_CA=authority.name):
            self.assertIsNotNone(kinora.Endpoint("clips").credentials())
            for plain in ("unix:/a", "http://clips"):
                self.assertIsNone(kinora.Endpoint(plain).credentials())
        self.assertIsNone(kinora.Endpoint("clips").credentials())

    def test_the_port_may_be_left_out(self) -> None:
        for server, target in (("clips", "clips:8470"), ("clips:1", "clips:1"), ("unix:/a", "unix:/a"), ("[::1]", "[::1]:8470"),
                               ("[::1]:2", "[::1]:2"),
                               ("https://clips", "clips:8470"), ("http://clips:1/", "clips:1")):
            self.assertEqual(kinora.Endpoint(server).target, target)
        self.assertIsNotNone(kinora.Endpoint("https://clips").credentials())


if __name__ == "__main__":
    harness.main(modules=["grpc", "pip", "setuptools"], programs=["protoc", "openssl"])
