"""The client for threads."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Union

import grpc
from google.protobuf.empty_pb2 import Empty

from ._connection import CHANNEL_OPTIONS, Endpoint
from ._job import Clip, Job, Progress, Retries, artifact_of, clip_of
from ._request import Options, PartFile, make_request, with_request_id
from .errors import KinoraError, from_rpc
from .messages import (Artifact, CancelVideoRequest, CreateVideoRequest, DeleteVideoRequest, DownloadArtifactRequest, Estimate,
                       GetVideoRequest, ListVideosRequest, ModelInfo, Preview, Video, VideoEvent)
from .v1 import video_generation_pb2_grpc as services

if TYPE_CHECKING:
    from typing_extensions import Unpack

Path = Union[str, "os.PathLike[str]"]
OnProgress = Callable[[Progress], object]
OnPreview = Callable[[Preview], object]


class Client:
    """A connection to one server, for any number of threads. `endpoint` are the arguments of Endpoint.

    wait: seconds that a server may be away, or still load its model, before Unreachable; of a download, without a byte. timeout: of calls that are no stream.
    """

    def __init__(self, server: Optional[str] = None, *, wait: float = 60.0, timeout: float = 30.0, **endpoint: Any) -> None:
        to = Endpoint(server, **endpoint)
        credentials = to.credentials()
        self._metadata, self._wait, self._timeout = to.metadata(), wait, timeout
        self._channel = (grpc.insecure_channel(to.target, CHANNEL_OPTIONS) if credentials is None
                         else grpc.secure_channel(to.target, credentials, CHANNEL_OPTIONS))
        self._videos = services.VideoGenerationStub(self._channel)
        self._models = services.ModelsStub(self._channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def generate(self, prompt: str, out: Optional[Path] = None, *, progress: Optional[OnProgress] = None,
                 preview: Optional[OnPreview] = None, **options: Unpack[Options]) -> Clip:
        """Makes a clip, waits for it and puts its file at `out` (its ending picks the container; its folder is made).

        progress is called with the latest step (one may be skipped); what it raises, and Ctrl-C, cancel the
        job. preview is called with a message Preview, a small JPEG of about what the clip will look like.
        Raises Refused, Unreachable, JobFailed, JobCancelled.
        """
        if preview:
            options.setdefault("preview_every", 1)
        return self.run(make_request(prompt, out, **options), out, progress=progress, preview=preview)

    def run(self, request: CreateVideoRequest, out: Optional[Path] = None, *, progress: Optional[OnProgress] = None,
            preview: Optional[OnPreview] = None) -> Clip:
        """generate() for a request that says more than its arguments can."""
        job = Job(self._wait, with_request_id(request))
        if out is None:
            return clip_of(self._follow(job, progress, preview, cancel=True), None)
        with PartFile(out) as part:
            video = self._follow(job, progress, preview, cancel=True)
            self._download(video, artifact_of(video), part)
        return clip_of(video, part.path)

    def create(self, prompt: str, **options: Unpack[Options]) -> Video:
        """Queues a job and leaves it to the server; wait_for() follows it, now or later, from here or elsewhere."""
        return self._call(self._videos.CreateVideo, make_request(prompt, **options))

    def wait_for(self, video_id: str, *, progress: Optional[OnProgress] = None,
                 preview: Optional[OnPreview] = None) -> Video:
        """Until the job has ended: it as it is then, COMPLETED. Leaving it does not cancel it.

        JobFailed, JobCancelled: it ended so. Unreachable: the server stayed away for longer than `wait`; the job goes on.
        """
        return self._follow(Job(self._wait, video_id=video_id), progress, preview, cancel=False)

    def download(self, video: Video, out: Path, artifact_id: Optional[str] = None) -> None:
        """The clip's file, or the artifact of this id, checked against its digest."""
        with PartFile(out) as part:
            self._download(video, artifact_of(video, artifact_id), part)

    def get(self, video_id: str) -> Video:
        return self._call(self._videos.GetVideo, GetVideoRequest(id=video_id))

    def list(self, *, states: Any = (), page_size: int = 100) -> Iterator[Video]:
        """All jobs, the newest first; states: Video.RUNNING, …, empty: any."""
        request = ListVideosRequest(page_size=page_size, states=states)
        while True:
            page = self._call(self._videos.ListVideos, request)
            yield from page.videos
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def cancel(self, video_id: str) -> Video:
        return self._call(self._videos.CancelVideo, CancelVideoRequest(id=video_id))

    def delete(self, video_id: str) -> None:
        """Record and files of a job that has ended."""
        self._call(self._videos.DeleteVideo, DeleteVideoRequest(id=video_id))

    def estimate(self, prompt: str, **options: Unpack[Options]) -> Estimate:
        return self._call(self._videos.EstimateVideo, make_request(prompt, **options))

    def models(self) -> List[ModelInfo]:
        return list(self._call(self._models.ListModels, Empty()).models)

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise from_rpc(error) from error

    def _follow(self, job: Job, progress: Optional[OnProgress], preview: Optional[OnPreview], cancel: bool) -> Video:
        try:
            while job.ended is None:
                broken = self._read(job, progress, preview)
                if job.ended is None:
                    waits = job.broken(broken)
                    if progress:
                        progress(waits)
                    time.sleep(job.pause)
        except BaseException as error:
            if cancel and job.id and not isinstance(error, KinoraError):
                try:
                    self.cancel(job.id)
                except KinoraError:
                    pass  # nobody watches it any more: the server ends it by itself after its grace
            raise
        return job.completed()

    def _read(self, job: Job, progress: Optional[OnProgress], preview: Optional[OnPreview]) -> Optional[grpc.RpcError]:
        """Reads one stream to its end: what broke it, None if nothing did."""
        method, request = job.next_call()
        events = getattr(self._videos, method)(request, metadata=self._metadata)
        try:
            while True:
                try:
                    event: VideoEvent = next(events)
                except StopIteration:
                    return None
                except grpc.RpcError as error:
                    return error
                made = job.take(event)
                if progress and made:
                    progress(made)
                if preview and event.HasField("preview"):
                    preview(event.preview)
        finally:
            events.cancel()

    def _download(self, video: Video, artifact: Artifact, part: PartFile) -> None:
        retries = Retries(self._wait)
        while True:
            request = DownloadArtifactRequest(video_id=video.id, artifact_id=artifact.id, offset=part.received)
            try:
                for chunk in self._videos.DownloadArtifact(request, metadata=self._metadata):
                    part.take(chunk)
                break
            except grpc.RpcError as error:
                time.sleep(retries.pause_after(error, part.received))
        part.finish(artifact)


def generate(prompt: str, out: Optional[Path] = None, *, server: Optional[str] = None, token: Optional[str] = None,
             ca_file: Optional[str] = None, wait: float = 60.0, progress: Optional[OnProgress] = None,
             preview: Optional[OnPreview] = None, **options: Unpack[Options]) -> Clip:
    """Client.generate() over a connection of its own."""
    with Client(server, token=token, ca_file=ca_file, wait=wait) as client:
        return client.generate(prompt, out, progress=progress, preview=preview, **options)
