"""The threaded client."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Union

import grpc
from google.protobuf.empty_pb2 import Empty

from ._connection import CHANNEL_OPTIONS, Endpoint
from ._job import Clip, Job, Progress, Retries, artifact_of, clip_of
from ._media import Medium, medium_of
from ._request import Options, PartFile, build_request, with_request_id
from .errors import KinoraError, from_rpc
from .messages import (Artifact, CancelVideoRequest, CreateVideoRequest, DeleteVideoRequest, DownloadArtifactRequest, Estimate,
                       GetInputRequest, GetVideoRequest, Input, ListVideosRequest, ModelInfo, Preview, Video, VideoEvent)
from .v1 import video_generation_pb2_grpc as services

if TYPE_CHECKING:
    from typing_extensions import Unpack

Path = Union[str, "os.PathLike[str]"]
OnProgress = Callable[[Progress], object]
OnPreview = Callable[[Preview], object]


class Client:
    """A connection to one server, usable by any number of threads. `endpoint`: the arguments of Endpoint.

    wait: how many seconds the server may be unreachable or loading its model, or a transfer may stall, before an error.
    timeout: seconds for calls that are not streams.
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
        """Generates a clip, waits for it and writes its file to `out`, whose extension selects the container and whose folder is
        created.

        progress is called with the latest step; steps may be skipped. An exception that it raises, and Ctrl-C, cancel the
        job. preview is called with Preview messages, small JPEGs of approximately what the clip will look like.
        options: see help(kinora.Options). Files among them (images, audio, retake) are uploaded first.
        Raises Refused, Unreachable, JobFailed, JobCancelled.
        """
        if preview:
            options.setdefault("preview_every", 1)
        return self.run(self._request(prompt, out, options), out, progress=progress, preview=preview)

    def run(self, request: CreateVideoRequest, out: Optional[Path] = None, *, progress: Optional[OnProgress] = None,
            preview: Optional[OnPreview] = None) -> Clip:
        """Like generate(), for a request message."""
        job = Job(self._wait, with_request_id(request))
        if out is None:
            return clip_of(self._follow(job, progress, preview, cancel=True), None)
        with PartFile(out) as part:
            video = self._follow(job, progress, preview, cancel=True)
            self._download(video, artifact_of(video), part)
        return clip_of(video, part.path)

    def create(self, prompt: str, **options: Unpack[Options]) -> Video:
        """Creates a job and returns at once. wait_for() follows it, now or later, from this or another process."""
        return self._call(self._videos.CreateVideo, self._request(prompt, None, options))

    def upload(self, media: Union[Path, bytes]) -> Input:
        """Uploads a picture, a clip or a sound from a path or bytes. Content that the server already has is not sent again.

        Pass the result as images, clips, audio or retake, or its `id` in a MediaRef of your own request.
        """
        return self._upload(medium_of(media))

    def wait_for(self, video_id: str, *, progress: Optional[OnProgress] = None,
                 preview: Optional[OnPreview] = None) -> Video:
        """Waits until the job has ended, and returns it, COMPLETED. Interrupting the call does not cancel the job.

        Raises JobFailed or JobCancelled if it ended so, and Unreachable if the server was away for longer than `wait`; the job
        then continues.
        """
        return self._follow(Job(self._wait, video_id=video_id), progress, preview, cancel=False)

    def download(self, video: Video, out: Path, artifact_id: Optional[str] = None) -> None:
        """Downloads the clip's file, or the artifact with this id, and checks its digest."""
        with PartFile(out) as part:
            self._download(video, artifact_of(video, artifact_id), part)

    def get(self, video_id: str) -> Video:
        return self._call(self._videos.GetVideo, GetVideoRequest(id=video_id))

    def list(self, *, states: Any = (), text: str = "", after_id: str = "", oldest_first: bool = False,
             page_size: int = 100) -> Iterator[Video]:
        """All jobs, newest first, or with oldest_first the other way round.

        states: only jobs in these, such as [Video.RUNNING]; empty: all. text: only jobs whose prompt contains each of these words.
        after_id: only jobs that come after this one.
        """
        request = ListVideosRequest(page_size=page_size, states=states, text=text, after_id=after_id, ascending=oldest_first)
        while True:
            page = self._call(self._videos.ListVideos, request)
            yield from page.videos
            if not page.next_page_token:
                return
            request.after_id, request.page_token = "", page.next_page_token

    def cancel(self, video_id: str) -> Video:
        return self._call(self._videos.CancelVideo, CancelVideoRequest(id=video_id))

    def delete(self, video_id: str, *, cancel: bool = False) -> None:
        """Deletes the record and the files of a job that has ended.

        cancel: cancels a job that has not ended, and returns at once; the server deletes it when it has.
        """
        self._call(self._videos.DeleteVideo, DeleteVideoRequest(id=video_id, cancel=cancel))

    def estimate(self, prompt: str, **options: Unpack[Options]) -> Estimate:
        return self._call(self._videos.EstimateVideo, self._request(prompt, None, options))

    def models(self) -> List[ModelInfo]:
        return list(self._call(self._models.ListModels, Empty()).models)

    def _request(self, prompt: str, out: Optional[Path], options: Any) -> CreateVideoRequest:
        request, uploads = build_request(prompt, out, options)
        for medium in uploads:
            medium.name_it(self._upload(medium).id)
        return request

    def _upload(self, medium: Medium) -> Input:
        medium.measure()
        retries = Retries(self._wait)
        offset = 0
        while True:
            try:
                offset = self._received(medium)
                return self._videos.UploadInput(medium.requests(offset), metadata=self._metadata)
            except grpc.RpcError as error:
                time.sleep(retries.pause_after(error, offset))

    def _received(self, medium: Medium) -> int:
        """The offset from which the upload can continue: the bytes that the server has."""
        try:
            known = self._videos.GetInput(GetInputRequest(sha256=medium.header.sha256), timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return 0
            raise
        return medium.offset_after(known)

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
                    pass  # without a watch, the server cancels it after its grace period
            raise
        return job.completed()

    def _read(self, job: Job, progress: Optional[OnProgress], preview: Optional[OnPreview]) -> Optional[grpc.RpcError]:
        """Reads one stream to its end, and returns the error that broke it, if any."""
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
    """Client.generate() with a new connection."""
    with Client(server, token=token, ca_file=ca_file, wait=wait) as client:
        return client.generate(prompt, out, progress=progress, preview=preview, **options)
