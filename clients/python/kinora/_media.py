"""The pictures, clips and sounds of a request: where their bytes come from, and where in the request their ids go."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Callable, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from .messages import AudioInput, CreateVideoRequest, Input, LoraRef, MediaRef, UploadInputRequest
from .messages import Retake as RetakeMessage

# A path, the bytes of a file, or what Client.upload() returned.
Media = Union[str, "os.PathLike[str]", bytes, Input]

CHUNK_BYTES = 256 << 10
_HEAD_BYTES = 64


@dataclass(frozen=True)
class Image:
    """A picture (PNG, JPEG, WebP) or a clip (MP4, WebM) that the video shows from `frame` on.

    strength: 0 to 1, default 1. append: frame 0 guides through appended tokens. crf: quality of the picture's H.264 pass,
    default 33.
    """

    media: Media
    frame: int = 0
    strength: Optional[float] = None
    append: bool = False
    crf: Optional[int] = None


@dataclass(frozen=True)
class Audio:
    """A sound for which the clip is generated, from start_seconds on."""

    media: Media
    start_seconds: float = 0.0


@dataclass(frozen=True)
class Retake:
    """Regenerates a clip between two times. keep_video, keep_audio: keep this modality unchanged."""

    clip: Media
    start_seconds: float
    end_seconds: float
    keep_video: bool = False
    keep_audio: bool = False


@dataclass(frozen=True)
class Lora:
    """A LoRA by its id. strength: default 1. strength_stage2: default strength."""

    id: str
    strength: Optional[float] = None
    strength_stage2: Optional[float] = None


class Medium:
    """A file to upload, with the references in the request that receive its id."""

    def __init__(self, source: Union[Path, bytes]) -> None:
        self._source = source
        self.refs: List[MediaRef] = []
        self.header = UploadInputRequest.Header()

    @property
    def name(self) -> str:
        return str(self._source) if isinstance(self._source, Path) else f"{len(self._source)} bytes"

    def open(self) -> IO[bytes]:
        return self._source.open("rb") if isinstance(self._source, Path) else io.BytesIO(self._source)

    def head(self) -> bytes:
        with self.open() as file:
            return file.read(_HEAD_BYTES)

    def measure(self) -> None:
        """Length and digest, for the header."""
        digest, length = hashlib.sha256(), 0
        with self.open() as file:
            while part := file.read(CHUNK_BYTES):
                digest.update(part)
                length += len(part)
        if not length:
            raise ValueError(f"{self.name}: the file is empty")
        self.header.bytes, self.header.sha256 = length, digest.hexdigest()

    def requests(self, offset: int) -> Iterator[UploadInputRequest]:
        """The messages of one upload call, starting at `offset`."""
        header = UploadInputRequest.Header()
        header.CopyFrom(self.header)
        header.offset = offset if offset < self.header.bytes else 0
        yield UploadInputRequest(header=header)
        with self.open() as file:
            file.seek(offset)
            while part := file.read(CHUNK_BYTES):
                yield UploadInputRequest(data=part)

    def offset_after(self, known: Input) -> int:
        """The offset at which an upload continues. known: what the server has; a complete input needs only the header."""
        if known.id:
            return self.header.bytes
        return known.received if known.bytes == self.header.bytes else 0

    def name_it(self, input_id: str) -> None:
        for ref in self.refs:
            ref.input_id = input_id


class Uploads:
    """The files that a request needs uploaded, each source once."""

    def __init__(self) -> None:
        self._by_source: dict[Union[Path, bytes], Medium] = {}

    def __iter__(self) -> Iterator[Medium]:
        return iter(self._by_source.values())

    def add(self, option: str, media: Any, ref: MediaRef) -> None:
        if isinstance(media, Input):
            ref.input_id = media.id
            return
        medium = medium_of(media, option)
        medium = self._by_source.setdefault(medium._source, medium)
        medium.refs.append(ref)


def medium_of(media: Any, option: str = "upload") -> Medium:
    if isinstance(media, (bytes, bytearray, memoryview)):
        return Medium(bytes(media))
    if isinstance(media, (str, os.PathLike)):
        path = Path(media)
        if not path.is_file():
            raise FileNotFoundError(f"{option}: {path}: no such file")
        return Medium(path)
    raise TypeError(f"{option}: {media!r}: must be a path, bytes or the result of upload()")


def is_clip(option: str, media: Any) -> bool:
    """Whether a medium is a clip; otherwise it is a picture."""
    if isinstance(media, Input):
        return media.media_type.startswith("video/")
    head = medium_of(media, option).head()
    if head.startswith((b"\x89PNG", b"\xff\xd8\xff")) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return False
    if head[4:8] == b"ftyp" or head.startswith(b"\x1a\x45\xdf\xa3"):
        return True
    what = media if isinstance(media, (str, os.PathLike)) else f"{len(media)} bytes"
    raise ValueError(f"{option}: {what}: is neither a picture (PNG, JPEG, WebP) nor a clip (MP4, WebM)")


def _each(value: Any) -> Sequence[Any]:
    """A list as it is, a single value as a list."""
    return value if isinstance(value, list) else [value]


def _as(kind: Callable[..., Any], option: str, value: Any, form: str) -> Any:
    """Converts a value to `kind`: a tuple gives all its arguments, anything else the first one."""
    if isinstance(value, kind):  # type: ignore[arg-type]
        return value
    try:
        return kind(*value) if isinstance(value, tuple) else kind(value)
    except TypeError:
        raise TypeError(f"{option}: {value!r}: must be {form}") from None


def add_media(request: CreateVideoRequest, options: Any, uploads: Uploads) -> None:
    """Adds images, audio and retake. Ids stay empty where `uploads` lists a file."""
    for option in ("images", "clips"):
        for one in _each(options.get(option, [])):
            image = _as(Image, option, one, "a path or bytes, or (path, frame, strength)")
            condition = request.generation.conditions.add(frame=image.frame, append=image.append)
            if image.strength is not None:
                condition.strength = image.strength
            if image.crf is not None:
                condition.crf = image.crf
            ref = condition.clip if is_clip(option, image.media) else condition.image
            ref.SetInParent()
            uploads.add(option, image.media, ref)
    if "audio" in options:
        audio = _as(Audio, "audio", options["audio"], "a path or bytes, or (path, start_seconds)")
        request.generation.audio.CopyFrom(AudioInput(start_seconds=audio.start_seconds))
        uploads.add("audio", audio.media, request.generation.audio.media)
    if "retake" in options:
        retake = _as(Retake, "retake", options["retake"], "(path, start_seconds, end_seconds)")
        request.generation.retake.CopyFrom(RetakeMessage(start_seconds=retake.start_seconds, end_seconds=retake.end_seconds,
                                                         keep_video=retake.keep_video, keep_audio=retake.keep_audio))
        uploads.add("retake", retake.clip, request.generation.retake.clip)


def add_loras(request: CreateVideoRequest, value: Any) -> None:
    """Adds LoRAs: "kite", "kite:0.5", ("kite", 0.5, 0.3), {"kite": 0.5}, or a list of these."""
    loras: Iterable[Any] = value.items() if isinstance(value, dict) else _each(value)
    for one in loras:
        lora = _as(Lora, "loras", _split(one) if isinstance(one, str) else one, "an id, or (id, strength)")
        ref = LoraRef(id=lora.id)
        if lora.strength is not None:
            ref.strength = lora.strength
        if lora.strength_stage2 is not None:
            ref.strength_stage2 = lora.strength_stage2
        request.generation.loras.append(ref)


def _split(text: str) -> Tuple[Any, ...]:
    name, *strengths = text.split(":")
    try:
        return (name, *map(float, strengths))
    except ValueError:
        raise ValueError(f"loras: {text!r}: must be ID[:STRENGTH[:STAGE2]], with numbers for STRENGTH and STAGE2") from None

