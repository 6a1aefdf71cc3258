"""The asyncio client: the same calls as in client.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, AsyncIterator, List, Optional, Union

import grpc
from google.protobuf.empty_pb2 import Empty

from ._connection import CHANNEL_OPTIONS, Endpoint
from ._job import Clip, Job, Retries, artifact_of, clip_of
from ._media import Medium, medium_of
from ._request import Options, PartFile, build_request, with_request_id
from .client import OnPreview, OnProgress, Path
from .errors import KinoraError, from_rpc
from .messages import (Artifact, CancelVideoRequest, CreateVideoRequest, DeleteVideoRequest, DownloadArtifactRequest, Estimate,
                       GetInputRequest, GetVideoRequest, Input, ListVideosRequest, ModelInfo, Video)
from .v1 import video_generation_pb2_grpc as services

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Client:
    """Like kinora.Client, but its calls are coroutines and `list` is an asynchronous iterator. `progress` and `preview` are plain
    functions."""

    def __init__(self, server: Optional[str] = None, *, wait: float = 60.0, timeout: float = 30.0, **endpoint: Any) -> None:
        to = Endpoint(server, **endpoint)
        credentials = to.credentials()
        self._metadata, self._wait, self._timeout = to.metadata(), wait, timeout
        self._channel = (grpc.aio.insecure_channel(to.target, CHANNEL_OPTIONS) if credentials is None
                         else grpc.aio.secure_channel(to.target, credentials, CHANNEL_OPTIONS))
        self._videos = services.VideoGenerationStub(self._channel)
        self._models = services.ModelsStub(self._channel)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close()

    async def generate(self, prompt: str, out: Optional[Path] = None, *, progress: Optional[OnProgress] = None,
                       preview: Optional[OnPreview] = None, **options: Unpack[Options]) -> Clip:
        if preview:
            options.setdefault("preview_every", 1)
        return await self.run(await self._request(prompt, out, options), out, progress=progress, preview=preview)

    async def run(self, request: CreateVideoRequest, out: Optional[Path] = None, *, progress: Optional[OnProgress] = None,
                  preview: Optional[OnPreview] = None) -> Clip:
        job = Job(self._wait, with_request_id(request))
        if out is None:
            return clip_of(await self._follow(job, progress, preview, cancel=True), None)
        with PartFile(out) as part:
            video = await self._follow(job, progress, preview, cancel=True)
            await self._download(video, artifact_of(video), part)
        return clip_of(video, part.path)

    async def create(self, prompt: str, **options: Unpack[Options]) -> Video:
        return await self._call(self._videos.CreateVideo, await self._request(prompt, None, options))

    async def upload(self, media: Union[Path, bytes]) -> Input:
        return await self._upload(medium_of(media))

    async def wait_for(self, video_id: str, *, progress: Optional[OnProgress] = None,
                       preview: Optional[OnPreview] = None) -> Video:
        return await self._follow(Job(self._wait, video_id=video_id), progress, preview, cancel=False)

    async def download(self, video: Video, out: Path, artifact_id: Optional[str] = None) -> None:
        with PartFile(out) as part:
            await self._download(video, artifact_of(video, artifact_id), part)

    async def get(self, video_id: str) -> Video:
        return await self._call(self._videos.GetVideo, GetVideoRequest(id=video_id))

    async def list(self, *, states: Any = (), text: str = "", after_id: str = "", oldest_first: bool = False,
                   page_size: int = 100) -> AsyncIterator[Video]:
        request = ListVideosRequest(page_size=page_size, states=states, text=text, after_id=after_id, ascending=oldest_first)
        while True:
            page = await self._call(self._videos.ListVideos, request)
            for video in page.videos:
                yield video
            if not page.next_page_token:
                return
            request.after_id, request.page_token = "", page.next_page_token

    async def cancel(self, video_id: str) -> Video:
        return await self._call(self._videos.CancelVideo, CancelVideoRequest(id=video_id))

    async def delete(self, video_id: str, *, cancel: bool = False) -> None:
        await self._call(self._videos.DeleteVideo, DeleteVideoRequest(id=video_id, cancel=cancel))

    async def estimate(self, prompt: str, **options: Unpack[Options]) -> Estimate:
        return await self._call(self._videos.EstimateVideo, await self._request(prompt, None, options))

    async def models(self) -> List[ModelInfo]:
        return list((await self._call(self._models.ListModels, Empty())).models)

    async def _request(self, prompt: str, out: Optional[Path], options: Any) -> CreateVideoRequest:
        request, uploads = build_request(prompt, out, options)
        for medium in uploads:
            medium.name_it((await self._upload(medium)).id)
        return request

    async def _upload(self, medium: Medium) -> Input:
        await asyncio.to_thread(medium.measure)
        retries = Retries(self._wait)
        offset = 0
        while True:
            try:
                offset = await self._received(medium)
                return await self._videos.UploadInput(medium.requests(offset), metadata=self._metadata)
            except grpc.RpcError as error:
                await asyncio.sleep(retries.pause_after(error, offset))

    async def _received(self, medium: Medium) -> int:
        try:
            known = await self._videos.GetInput(GetInputRequest(sha256=medium.header.sha256), timeout=self._timeout,
                                                metadata=self._metadata)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return 0
            raise
        return medium.offset_after(known)

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise from_rpc(error) from error

    async def _follow(self, job: Job, progress: Optional[OnProgress], preview: Optional[OnPreview], cancel: bool) -> Video:
        try:
            while job.ended is None:
                broken = await self._read(job, progress, preview)
                if job.ended is None:
                    waits = job.broken(broken)
                    if progress:
                        progress(waits)
                    await asyncio.sleep(job.pause)
        except BaseException as error:
            if cancel and job.id and not isinstance(error, KinoraError):
                try:
                    await asyncio.shield(self.cancel(job.id))
                except KinoraError:
                    pass  # without a watch, the server cancels it after its grace period
            raise
        return job.completed()

    async def _read(self, job: Job, progress: Optional[OnProgress], preview: Optional[OnPreview]) -> Optional[grpc.RpcError]:
        method, request = job.next_call()
        events = getattr(self._videos, method)(request, metadata=self._metadata)
        try:
            while True:
                try:
                    event = await events.read()
                except grpc.RpcError as error:
                    return error
                if event is grpc.aio.EOF:
                    return None
                made = job.take(event)
                if progress and made:
                    progress(made)
                if preview and event.HasField("preview"):
                    preview(event.preview)
        finally:
            events.cancel()

    async def _download(self, video: Video, artifact: Artifact, part: PartFile) -> None:
        retries = Retries(self._wait)
        while True:
            request = DownloadArtifactRequest(video_id=video.id, artifact_id=artifact.id, offset=part.received)
            try:
                async for chunk in self._videos.DownloadArtifact(request, metadata=self._metadata):
                    part.take(chunk)
                break
            except grpc.RpcError as error:
                await asyncio.sleep(retries.pause_after(error, part.received))
        part.finish(artifact)


async def generate(prompt: str, out: Optional[Path] = None, *, server: Optional[str] = None, token: Optional[str] = None,
                   ca_file: Optional[str] = None, wait: float = 60.0, progress: Optional[OnProgress] = None,
                   preview: Optional[OnPreview] = None, **options: Unpack[Options]) -> Clip:
    """Client.generate() with a new connection."""
    async with Client(server, token=token, ca_file=ca_file, wait=wait) as client:
        return await client.generate(prompt, out, progress=progress, preview=preview, **options)
