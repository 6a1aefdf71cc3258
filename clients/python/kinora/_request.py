"""A request from keyword arguments, and the file that its clip goes to."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Mapping, Optional, TypedDict, Union

from .errors import DamagedDownload
from .messages import Artifact, ArtifactChunk, CreateVideoRequest, Generation, Guidance, Output

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Options(TypedDict, total=False):
    """What a clip may ask for beside its prompt. Absent: the model's default."""

    model: str
    negative_prompt: str
    width: int  # pixels
    height: int
    frames: int  # 8k + 1
    fps: float
    seed: int  # absent: the server draws one
    steps: int
    recipe: str  # "ONE_STAGE", "DISTILLED"; in any case of letters
    video_guidance: Guidance
    audio_guidance: Guidance
    container: str  # "MP4", "WEBM", "PNG_FRAMES", "WAV"; absent: the ending of `out` says it
    silent: bool  # no sound in the file
    labels: Mapping[str, str]
    priority: int  # -10 … 10, higher first
    deadline: float  # seconds from creation
    ttl: float  # seconds that the file is kept on the server
    preview_every: int  # steps between previews; absent: 1 for a call with `preview`, else none


_GENERATION = {"negative_prompt": "negative_prompt", "width": "width", "height": "height", "frames": "num_frames",
               "fps": "frame_rate", "seed": "seed", "steps": "num_inference_steps"}
_NEVER_ZERO = ("width", "height", "frames", "fps", "steps")  # 0 would mean: the default
_CONTAINERS = {".mp4": "MP4", ".webm": "WEBM", ".wav": "WAV", ".zip": "PNG_FRAMES"}


def make_request(prompt: str, out: Optional[Union[str, os.PathLike[str]]] = None,
                 **options: Unpack[Options]) -> CreateVideoRequest:
    """The message that asks for this clip, with a request_id, so that it may be sent again. ValueError, TypeError: a bad option."""
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise TypeError(f"no such option: {', '.join(unknown)}; there are {', '.join(sorted(Options.__annotations__))}")
    request = CreateVideoRequest(request_id=str(uuid.uuid4()), model=options.get("model", ""),
                                 labels=options.get("labels", {}))
    request.generation.prompt = prompt
    for name, field in _GENERATION.items():
        if name in options:
            if name in _NEVER_ZERO and not options[name]:  # type: ignore[literal-required]
                raise ValueError(f"{name}: {options[name]!r} is no value; leave it out for the model's default")  # type: ignore[literal-required]
            setattr(request.generation, field, options[name])  # type: ignore[literal-required]
    if "recipe" in options:
        request.generation.recipe = _enum(Generation.Recipe, "recipe", options["recipe"])
    for name in ("video_guidance", "audio_guidance"):
        if name in options:
            getattr(request.generation, name).CopyFrom(options[name])  # type: ignore[literal-required]
    container = _container(out, options.get("container"))
    if container:
        request.output.container = _enum(Output.Container, "container", container)
    request.output.without_audio = options.get("silent", False)
    request.output.preview_every_steps = options.get("preview_every", 0)
    request.scheduling.priority = options.get("priority", 0)
    for name, duration in (("deadline", request.scheduling.deadline), ("ttl", request.output.ttl)):
        if name in options:
            duration.FromNanoseconds(round(options[name] * 1e9))  # type: ignore[literal-required]
    return request


def _enum(kind: Any, option: str, name: str) -> Any:
    names = [known for known in kind.keys() if not known.endswith("UNSPECIFIED")]
    if name.upper() not in names:
        raise ValueError(f"{option} {name!r}: one of {', '.join(names)}")
    return kind.Value(name.upper())


def _container(out: Optional[Union[str, os.PathLike[str]]], asked: Optional[str]) -> Optional[str]:
    if out is None:
        return asked
    ending = Path(out).suffix.lower()
    if ending not in _CONTAINERS:
        raise ValueError(f"out {os.fspath(out)!r}: its ending is one of {', '.join(_CONTAINERS)}")
    if asked is not None and asked.upper() != _CONTAINERS[ending]:
        raise ValueError(f"out {os.fspath(out)!r} is for {_CONTAINERS[ending]}, and container asks for {asked}")
    return _CONTAINERS[ending]


def with_request_id(request: CreateVideoRequest) -> CreateVideoRequest:
    """The request, with one if it has none, so that it may be sent again."""
    if request.request_id:
        return request
    named = CreateVideoRequest()
    named.CopyFrom(request)
    named.request_id = str(uuid.uuid4())
    return named


class PartFile:
    """A file that appears under its name once it is whole. Opened before the render, so that a bad path is met then."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.path} is a folder")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._part = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex[:8]}.part")
        self._file: IO[bytes] = self._part.open("xb")
        self._digest = hashlib.sha256()
        self.received = 0

    def __enter__(self) -> PartFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)  # gone already if it was finished

    def take(self, chunk: ArtifactChunk) -> None:
        if chunk.offset != self.received:
            raise DamagedDownload(f"{self.path}: the server sent byte {chunk.offset} in place of {self.received}")
        self._file.write(chunk.data)
        self._digest.update(chunk.data)
        self.received += len(chunk.data)

    def finish(self, artifact: Artifact) -> None:
        """Checks size and digest, and gives the file its name."""
        if self.received != artifact.bytes or self._digest.hexdigest() != artifact.sha256:
            raise DamagedDownload(f"{self.path}: {self.received} bytes came that are not the {artifact.bytes} of {artifact.sha256}")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._part, self.path)
