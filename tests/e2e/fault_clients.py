"""The clients of tests/e2e/frontend_faults.py: their requests with the digests of an undisturbed frontend's clips, creators that
repeat a request until it is acknowledged, and watchers that move between frontends."""

from __future__ import annotations

import collections
import hashlib
import random
import struct
import sys
import threading
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import grpc
from fault_checks import Events, clip_digests
from fault_processes import FILES, LORA, ROOT, harness, worker_settings

PICTURE = ROOT / "tests/server/decode/data/camera.png"
SMALL = {"width": 64, "height": 64, "frames": 9, "recipe": "one_stage"}
LARGE = {"width": 128, "height": 128, "frames": 25}
# What distinguishes the requests. "picture" is uploaded and shown.
VARIANTS: dict[str, dict[str, Any]] = {
    "short": {**SMALL, "steps": 200, "seed": 1},
    "long": {**SMALL, "frames": 25, "steps": 500, "seed": 2},
    "frames": {**SMALL, "steps": 120, "frames": 25, "seed": 3, "thumbnail": True},
    "two stages": {**LARGE, "recipe": "two_stage", "steps": 120, "seed": 4},
    "picture": {**SMALL, "steps": 120, "seed": 5},
    "lora": {**SMALL, "steps": 150, "loras": f"{LORA}:0.5", "seed": 6},
    "hq": {**LARGE, "recipe": "hq", "steps": 30, "seed": 7, "container": "webm"},
    "sound": {"audio_only": True, "frames": 25, "steps": 60, "seed": 8},
    "distilled": {**LARGE, "recipe": "distilled", "seed": 9},
    "second picture": {**SMALL, "steps": 500, "seed": 10},
}
CALL_SECONDS = 8.0  # after which a client takes its call for lost
# After these a client repeats its call, as clients/python does. No call may end with another one.
REPEATED = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "RESOURCE_EXHAUSTED", "INTERNAL", "UNKNOWN", "ABORTED")
CHANNEL_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 200), ("grpc.min_reconnect_backoff_ms", 1000),
                   ("grpc.max_reconnect_backoff_ms", 1000), ("grpc.use_local_subchannel_pool", 1)]


def load_package(folder: Path) -> tuple[Any, Any]:
    """Returns clients/python and its stubs. google.rpc is generated into `folder`."""
    sys.path[:0] = [str(ROOT / "clients/python"), str(folder)]
    harness.generate_google_rpc(folder)
    import google

    google.__path__.append(str(folder / "google"))
    import kinora
    from kinora.v1 import video_generation_pb2_grpc

    return kinora, video_generation_pb2_grpc


def picture_with(text: str) -> bytes:
    """Returns a PNG with the pixels of PICTURE, and a text that makes it a file of its own."""
    png = PICTURE.read_bytes()
    chunk = b"tEXt" + b"Comment\0" + text.encode()
    after_header = 8 + 25
    return png[:after_header] + struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[after_header:]


def stored_event(kinora: Any, event: Any) -> Optional[str]:
    """Returns what a stored event says, None for one that is not stored."""
    kind = event.WhichOneof("event")
    if kind == "stage":
        return f"stage {event.stage.stage}"
    if kind in ("state", "terminal"):
        video = getattr(event, kind)
        return f"{kind} {kinora.messages.Video.State.Name(video.state)} of attempt {video.attempt}"
    return None


class Service:
    """The API of all frontends, and the requests of the test."""

    def __init__(self, package: tuple[Any, Any], addresses: list[str]) -> None:
        self.kinora, stubs = package
        self.channels = [grpc.insecure_channel(address, CHANNEL_OPTIONS) for address in addresses]
        self.stubs = [stubs.VideoGenerationStub(channel) for channel in self.channels]

    def close(self) -> None:
        for channel in self.channels:
            channel.close()

    def upload(self, stub: Any, content: bytes) -> None:
        header = self.kinora.messages.UploadInputRequest.Header(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        parts = [self.kinora.messages.UploadInputRequest(header=header), self.kinora.messages.UploadInputRequest(data=content)]
        stub.UploadInput(iter(parts), timeout=CALL_SECONDS)

    def request(self, name: str, picture: bytes) -> Any:
        options = dict(VARIANTS[name])
        if "picture" in name:
            options["images"] = self.kinora.messages.Input(id=hashlib.sha256(picture).hexdigest(), media_type="image/png")
        return self.kinora.make_request("a red circle moves up on a white background", **options)

    def download(self, stub: Any, video_id: str, artifact_id: str) -> str:
        """Returns the digest of what is downloaded."""
        digest = hashlib.sha256()
        request = self.kinora.messages.DownloadArtifactRequest(video_id=video_id, artifact_id=artifact_id)
        for chunk in stub.DownloadArtifact(request, timeout=60):
            digest.update(chunk.data)
        return digest.hexdigest()

    def events(self, stub: Any, video_id: str) -> Events:
        """Returns the stored events of a job that has ended."""
        found = []
        for event in stub.WatchVideo(self.kinora.messages.WatchVideoRequest(id=video_id), timeout=60):
            if says := stored_event(self.kinora, event):
                found.append((event.sequence, says))
        return found

    def jobs(self, stub: Any) -> list[Any]:
        found, token = [], ""
        while True:
            page = stub.ListVideos(self.kinora.messages.ListVideosRequest(page_size=500, page_token=token), timeout=60)
            found += page.videos
            token = page.next_page_token
            if not token:
                return found


def undisturbed(package: tuple[Any, Any], programs: Path, folder: Path) -> dict[str, dict[str, str]]:
    """Returns the digests of the clips of all variants, made by a frontend of its own without faults."""
    flags = [f"--worker-{name}={value}" for name, value in worker_settings(folder).items()] + ["--worker-threads=2"]
    flags += [f"--worker-model={file}" for file in FILES]
    picture = picture_with("undisturbed")
    with harness.Frontend(folder, model="", flags=flags, bin=programs) as frontend:
        service = Service(package, [frontend.address])
        stub = service.stubs[0]
        service.upload(stub, picture)
        jobs = {name: stub.CreateVideo(service.request(name, picture), timeout=60).id for name in VARIANTS}
        digests = {}
        for name, job in jobs.items():
            *_, last = stub.WatchVideo(service.kinora.messages.WatchVideoRequest(id=job), timeout=120)
            assert last.terminal.state == service.kinora.messages.Video.COMPLETED, last
            digests[name] = clip_digests(last.terminal)
        service.close()
    return digests


@dataclass
class Job:
    """number: of all jobs from 0. id: set when `acknowledged` is, or "" if the request was rejected."""

    number: int
    variant: str
    id: str = ""
    acknowledged: threading.Event = field(default_factory=threading.Event)


class Clients:
    """Creators and watchers of `jobs`. `wrong` has all that they must never see."""

    def __init__(self, service: Service, jobs: list[Job], seed: int) -> None:
        self.service, self.jobs, self.seed = service, jobs, seed
        self.over = threading.Event()  # gives up
        self.wrong: list[str] = []
        self.codes: collections.Counter[str] = collections.Counter()  # of calls that failed
        self.replayed = 0
        self.seen: list[dict[str, Events]] = []  # by watcher, then by job
        self.moves = 0
        self._lock = threading.Lock()

    def _failed(self, call: str, error: grpc.RpcError) -> bool:
        """Whether the call may be repeated. Otherwise its status is wrong."""
        code = error.code().name
        with self._lock:
            self.codes[f"{call} {code}"] += 1
            if code not in REPEATED:
                self.wrong.append(f"{call} ended with {code} at {time.strftime('%H:%M:%S', time.gmtime())}: {error.details()}")
        return code in REPEATED

    def create(self, job: Job) -> None:
        """Repeats the request at random frontends until one has acknowledged it, and sometimes once more."""
        chance = random.Random(f"{self.seed} creator {job.number}")
        picture = picture_with(f"job {job.number}")
        request = self.service.request(job.variant, picture)
        request.request_id = f"job {job.number}"
        more = chance.random() < 0.2
        while not self.over.is_set():
            call = "CreateVideo"
            try:
                if "picture" in job.variant:
                    call = "UploadInput"
                    self.service.upload(chance.choice(self.service.stubs), picture)
                    call = "CreateVideo"
                video, answer = chance.choice(self.service.stubs).CreateVideo.with_call(request, timeout=CALL_SECONDS)
            except grpc.RpcError as error:
                if not self._failed(call, error):
                    job.acknowledged.set()  # without an ID: it was rejected
                    return
                self.over.wait(0.1 + 0.4 * chance.random())
                continue
            with self._lock:
                self.replayed += any(key == "x-kinora-replayed" for key, _ in [*answer.initial_metadata(), *answer.trailing_metadata()])
                if job.id and job.id != video.id:
                    self.wrong.append(f"job {job.number} was created twice: {job.id} and {video.id}")
            job.id = video.id
            job.acknowledged.set()
            if not more:
                return
            more = False

    def watch_some(self, watcher: int, every: int) -> None:
        """Watches one job after another, each `every`th of all."""
        chance = random.Random(f"{self.seed} watcher {watcher}")
        for job in self.jobs[watcher % every::every]:
            while not job.acknowledged.wait(0.5):
                if self.over.is_set():
                    return
            if not job.id:
                continue
            events: Events = []
            self.seen[watcher][job.id] = events
            while not self.over.is_set() and not (events and events[-1][1].startswith("terminal")):
                self._watch(job.id, events, chance)

    def _watch(self, job: str, events: Events, chance: random.Random) -> None:
        """Watches on at a random frontend, up to a random number of events or seconds."""
        after = events[-1][0] if events else 0
        request = self.service.kinora.messages.WatchVideoRequest(id=job, after_sequence=after)
        stream = chance.choice(self.service.stubs).WatchVideo(request, timeout=0.3 + 6 * chance.random())
        left = chance.choice([1, 2, 3, 100])
        try:
            for event in stream:
                if says := stored_event(self.service.kinora, event):
                    events.append((event.sequence, says))
                    left -= 1
                    if left == 0 and event.WhichOneof("event") != "terminal":
                        stream.cancel()
                        break
            else:
                if not (events and events[-1][1].startswith("terminal")):
                    with self._lock:
                        self.wrong.append(f"a watch of {job} from {after} ended with OK before the job did")
        except grpc.RpcError as error:
            self._failed("WatchVideo", error)
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                self.over.wait(0.5 * chance.random())
        with self._lock:
            self.moves += 1

    def start(self, watchers: int, every: int) -> list[threading.Thread]:
        self.seen = [{} for _ in range(watchers)]
        threads = [threading.Thread(target=self.watch_some, args=(number, every), daemon=True) for number in range(watchers)]
        for thread in threads:
            thread.start()
        return threads
