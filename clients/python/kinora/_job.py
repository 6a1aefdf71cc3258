"""One job from its request to its end: which call comes next, and what each event means. Without I/O, so that the threaded
and the asyncio client follow the same rules."""

from __future__ import annotations

import random
import time
import wave
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import grpc

from .errors import JobCancelled, JobFailed, KinoraError, Unreachable, from_rpc, may_pass, with_hint
from .messages import Artifact, CreateVideoRequest, Video, VideoEvent, WatchVideoRequest

_BESIDE = ("application/json", "image/jpeg")  # the types of the artifacts beside the clip: trace and thumbnail
_TERMINAL = (Video.COMPLETED, Video.FAILED, Video.CANCELLED)
# After these a stream is reopened, once the job is known.
_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN,
           grpc.StatusCode.DEADLINE_EXCEEDED)
# After these a download is resumed. ABORTED: the client read too slowly; RESOURCE_EXHAUSTED: the server has too many.
_MAY_GO_ON = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED,
              grpc.StatusCode.RESOURCE_EXHAUSTED)


@dataclass(frozen=True)
class Progress:
    """The progress of a job."""

    state: str  # "WAITING" (for a server, for its model), "QUEUED", "RUNNING", "FINALIZING", "COMPLETED", "FAILED", "CANCELLED"
    video_id: str = ""
    queue_position: int = 0  # 1: next; 0: not queued
    stage: str = ""  # "denoise"
    step: int = 0
    total_steps: int = 0
    fraction: float = 0.0  # of the whole job
    remaining_seconds: Optional[float] = None
    message: str = ""  # why it is waiting


@dataclass(frozen=True)
class Clip:
    """A completed job. path: its local file, None if none was requested. video: the server's record of it.
    seconds: its duration; for a local WAV file the duration of the sound, which may be shorter than the frames."""

    id: str
    path: Optional[Path]
    seed: int
    width: int
    height: int
    frames: int
    fps: float
    video: Video = field(repr=False)  # pages of text

    @property
    def seconds(self) -> float:
        if self.path is not None and self.path.suffix.lower() == ".wav":
            with wave.open(str(self.path)) as sound:
                return sound.getnframes() / sound.getframerate()
        return self.frames / self.fps


def clip_of(video: Video, path: Optional[Path]) -> Clip:
    made = video.effective
    frames = made.num_frames or video.resolved.num_frames  # of a length that the model or a sound determined
    return Clip(video.id, path, made.seed, made.width, made.height, frames, made.frame_rate, video)


def artifact_of(video: Video, artifact_id: Optional[str] = None) -> Artifact:
    """The artifact with this id; default: the clip's file."""
    for artifact in video.artifacts:
        if artifact.id == artifact_id or (artifact_id is None and artifact.media_type not in _BESIDE):
            return artifact
    raise KinoraError(f"job {video.id} has no file {artifact_id or ''}".rstrip())


class Retries:
    """When to resume a broken transfer. Pauses grow from a quarter of a second to four, with jitter, so that the clients of one
    server do not return all at once. wait: how many seconds may pass without a byte."""

    def __init__(self, wait: float) -> None:
        self._wait, self._pause, self._received = wait, 0.0, -1
        self._away_since = 0.0

    def pause_after(self, error: Any, received: int) -> float:
        """Seconds before the next attempt. Raises if retrying cannot help or has taken too long. received: the total of bytes."""
        unreachable = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        if error.code() not in _MAY_GO_ON or (unreachable and not may_pass(error)):
            raise from_rpc(error) from error
        now = time.monotonic()
        if received != self._received:
            self._received, self._away_since, self._pause = received, now, 0.125
        left = self._away_since + self._wait - now
        if left <= 0:
            raise from_rpc(error) from error
        self._pause = min(2 * self._pause, 4.0)
        return min(self._pause * random.uniform(0.75, 1.25), left)


class Job:
    """Follows a job. wait: how many seconds the server may be unreachable or without a model."""

    def __init__(self, wait: float, request: Optional[CreateVideoRequest] = None, video_id: str = "", sequence: int = 0) -> None:
        self.id = video_id
        self.ended: Optional[Video] = None
        self._request, self._sequence, self._wait = request, sequence, wait
        self._state, self._position, self._snapshot_time = "QUEUED", 0, 0
        self._away_since: Optional[float] = None
        self._pause = 0.0

    def next_call(self) -> tuple[str, Any]:
        """The next method and its request. Until the job's id is known, the same request is sent again: its request_id gives the
        same job."""
        if not self.id and self._request is not None:
            return "GenerateVideo", self._request
        return "WatchVideo", WatchVideoRequest(id=self.id, after_sequence=self._sequence)

    def take(self, event: VideoEvent) -> Optional[Progress]:
        """The progress that an event reports, None if it reports none."""
        self.id = event.video_id
        self._away_since = None
        self._sequence = max(self._sequence, event.sequence)
        kind = event.WhichOneof("event")
        if kind == "snapshot":
            self._snapshot_time = event.time.ToNanoseconds()
        elif kind != "terminal" and event.time.ToNanoseconds() < self._snapshot_time:
            return None  # already part of the snapshot
        if kind in ("snapshot", "state", "terminal"):
            return self._take_video(getattr(event, kind))
        if kind in ("stage", "step"):
            return self._progress(getattr(event, kind))
        return None

    def _take_video(self, video: Video) -> Progress:
        self._state, self._position = Video.State.Name(video.state), video.queue_position
        if video.state in _TERMINAL:
            self.ended = video
        return self._progress(video.progress)

    def _progress(self, made: Any) -> Progress:
        remaining = made.remaining.ToNanoseconds() * 1e-9 if made.HasField("remaining") else None
        fraction = 1.0 if self._state == "COMPLETED" else made.fraction
        return Progress(self._state, self.id, self._position, made.stage, made.step, made.total_steps, fraction, remaining)

    def broken(self, error: Optional[Any]) -> Progress:
        """Called when the stream ends, with its error, before the job does. Returns what the client waits for; raises if waiting
        cannot help or has taken too long."""
        code = error.code() if error is not None else grpc.StatusCode.UNAVAILABLE
        if code != grpc.StatusCode.UNAVAILABLE and not (self.id and code in _BROKEN):
            raise from_rpc(error)
        if code == grpc.StatusCode.UNAVAILABLE and error is not None and not may_pass(error):
            raise from_rpc(error)
        now = time.monotonic()
        if self._away_since is None:
            self._away_since, self._pause = now, 0.125
        message = with_hint(error.details() or "") if error is not None else "the stream ended before the job did"
        if now - self._away_since >= self._wait:
            job = f"job {self.id}: " if self.id else ""
            raise Unreachable(f"{job}waited {self._wait:g} s: {message}")
        self._pause = min(2 * self._pause, 2.0)
        return Progress("WAITING", self.id, message=message or "")

    @property
    def pause(self) -> float:
        """Seconds before the next call."""
        return self._pause

    def completed(self) -> Video:
        assert self.ended is not None
        if self.ended.state == Video.FAILED:
            raise JobFailed(self.ended)
        if self.ended.state == Video.CANCELLED:
            raise JobCancelled(self.ended)
        return self.ended
