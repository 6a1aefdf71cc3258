"""Builds a request from keyword arguments, and writes the file of its clip."""

from __future__ import annotations

import difflib
import hashlib
import math
import os
import sys
import uuid
import warnings
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Tuple, TypedDict, Union

from ._media import Audio, Image, Lora, Media, Retake, Uploads, add_loras, add_media
from .errors import DamagedDownload
from .messages import Artifact, ArtifactChunk, CreateVideoRequest, Generation, Guidance, Output

if TYPE_CHECKING:
    from typing_extensions import Unpack

Scales = Union[float, Tuple[float, float]]


class Options(TypedDict, total=False):
    """Keyword arguments of generate(), create(), estimate() and make_request(). The defaults are the model's.

    The clip
      model            id of a model, as in Client.models(); default: the server's only or default model
      recipe           "one_stage", "two_stage", "distilled", "distilled_two_stage", "hq"
      negative_prompt  what to avoid; "": nothing
      width, height    size in pixels; or both as size="768x512" or (768, 512)
      frames           number of frames, 8k + 1; or duration=5 (seconds), rounded to a valid number, at 24 fps unless fps is given
      auto_length      (shortest, longest): the model chooses the length from the prompt, within these seconds
      fps              frames per second
      seed             random seed; default: the server draws one (Clip.seed)
      steps            number of denoising steps
      sigmas           explicit noise levels, descending, ending in 0
      schedule_tokens  token count that the dev schedule is shifted for; -1: the clip's own
      upsampler        for recipes with two stages: "x2", "x1.5", "temporal_x2"
      audio_only       True: generate sound without a picture

    Guidance: a number, or a tuple (picture, sound). Omitted terms keep the recipe's defaults
      cfg              classifier-free guidance; 1: off
      stg              spatio-temporal guidance; 0: off
      modality_scale   guidance between picture and sound; 1: off
      rescale          guidance rescale, 0 (off) to 1
      video_guidance, audio_guidance   a Guidance message, in which omitted terms are off

    Files: a path, bytes, or the result of Client.upload(). Each file is uploaded once
      images           pictures or clips that the video shows: one or a list, each a file, (file, frame, strength) or Image(...)
      clips            the same
      audio            the sound for which the clip is generated: a file, (file, start_seconds) or Audio(...)
      retake           a clip to regenerate between two times: (file, start_seconds, end_seconds) or Retake(...)
      loras            ids as in ModelInfo.loras: "kite", "kite:0.5", {"kite": 0.5}, Lora(...), or a list of these

    The file and the job
      container        "mp4", "webm", "png_frames", "wav"; default: by the extension of `out`
      crf              video encoder quality; lower is better
      silent           True: no sound in the file
      embed_parameters, embed_prompt   True: store them in the file's metadata
      preview_every    steps between previews; default: 1 if `preview` is given, otherwise none
      trace            True: the artifact "trace.json", a timeline of each rank
      thumbnail        True: the artifact "thumbnail.jpg", the middle frame with at most 256 pixels on its longer side;
                       Client.download(video, out, "thumbnail.jpg") fetches it
      labels           a mapping of strings
      priority         -10 to 10; higher runs first
      deadline         seconds after creation by which the job must have finished
      ttl              how many seconds the server keeps the file

    Names from other programs are accepted too: num_frames, frame_rate, num_inference_steps, guidance_scale, cfg_scale,
    stg_scale, guidance_rescale, resolution, image, lora.
    """

    model: str
    recipe: str
    negative_prompt: str
    width: int
    height: int
    size: Union[str, Tuple[int, int]]
    frames: int
    duration: Union[float, str]
    auto_length: Tuple[float, float]
    fps: float
    seed: int
    steps: int
    sigmas: Sequence[float]
    schedule_tokens: int
    upsampler: str
    audio_only: bool
    cfg: Scales
    stg: Scales
    modality_scale: Scales
    rescale: Scales
    video_guidance: Guidance
    audio_guidance: Guidance
    images: Union[Media, Image, Tuple[Any, ...], List[Any]]
    clips: Union[Media, Image, Tuple[Any, ...], List[Any]]
    audio: Union[Media, Audio, Tuple[Any, ...]]
    retake: Union[Retake, Tuple[Any, ...]]
    loras: Union[str, Lora, Tuple[Any, ...], Mapping[str, float], List[Any]]
    container: str
    crf: int
    silent: bool
    embed_parameters: bool
    embed_prompt: bool
    preview_every: int
    trace: bool
    thumbnail: bool
    labels: Mapping[str, str]
    priority: int
    deadline: float
    ttl: float


# What diffusers and ltx-pipelines call them.
_SYNONYMS = {"num_frames": "frames", "frame_rate": "fps", "num_inference_steps": "steps", "guidance_scale": "cfg", "cfg_scale": "cfg",
             "stg_scale": "stg", "guidance_rescale": "rescale", "resolution": "size", "image": "images", "lora": "loras"}
_GENERATION = {"negative_prompt": "negative_prompt", "width": "width", "height": "height", "frames": "num_frames",
               "fps": "frame_rate", "seed": "seed", "steps": "num_inference_steps", "schedule_tokens": "schedule_tokens",
               "upsampler": "upsampler", "audio_only": "audio_only"}
_GUIDANCE = {"cfg": "cfg_scale", "stg": "stg_scale", "modality_scale": "modality_scale", "rescale": "rescale"}
_OUTPUT = {"crf": "crf", "silent": "without_audio", "embed_parameters": "embed_parameters", "embed_prompt": "embed_prompt",
           "preview_every": "preview_every_steps", "trace": "trace", "thumbnail": "thumbnail"}
_NEVER_ZERO = ("width", "height", "frames", "fps", "steps")  # 0 would mean: the default
_CONTAINERS = {".mp4": "MP4", ".webm": "WEBM", ".wav": "WAV", ".zip": "PNG_FRAMES"}
_USUAL_FPS = 24.0


def make_request(prompt: str, out: Optional[Union[str, os.PathLike[str]]] = None,
                 **options: Unpack[Options]) -> CreateVideoRequest:
    """The request for a clip, with a request_id, so that it can be retried. Raises ValueError or TypeError for an invalid option.

    It contacts no server: images, audio and retake must be results of Client.upload().
    """
    request, uploads = build_request(prompt, out, options)
    for medium in uploads:
        raise ValueError(f"{medium.name}: must be uploaded first: pass the result of Client.upload()")
    return request


def build_request(prompt: str, out: Optional[Union[str, os.PathLike[str]]], given: Any) -> Tuple[CreateVideoRequest, Uploads]:
    """The request, and the files whose ids it still lacks."""
    options = _by_our_names(given)
    request, uploads = CreateVideoRequest(request_id=str(uuid.uuid4()), model=options.get("model", ""),
                                          labels=options.get("labels", {})), Uploads()
    request.generation.prompt = prompt
    for name, field in _GENERATION.items():
        if name in options:
            if name in _NEVER_ZERO and not options[name]:
                raise ValueError(f"{name}: {options[name]!r} is not valid; omit it for the model's default")
            setattr(request.generation, field, options[name])
    if "recipe" in options:
        request.generation.recipe = _enum(Generation.Recipe, "recipe", options["recipe"])
    if "auto_length" in options:
        bounds = _bounds(options["auto_length"])
        request.generation.auto_length.min_seconds, request.generation.auto_length.max_seconds = bounds
    request.generation.sigmas.extend(options.get("sigmas", ()))
    add_media(request, options, uploads)
    add_loras(request, options.get("loras", []))
    _add_guidance(request.generation, options)
    container = _container(out, options.get("container"))
    if container:
        request.output.container = _enum(Output.Container, "container", container)
    if request.output.container == Output.WAV and not request.generation.audio_only:
        warnings.warn("WAV holds only sound, so the picture is computed for nothing; use audio_only=True to skip it",
                      stacklevel=_stack_level())
    for name, field in _OUTPUT.items():
        if name in options:
            setattr(request.output, field, options[name])
    request.scheduling.priority = options.get("priority", 0)
    for name, duration in (("deadline", request.scheduling.deadline), ("ttl", request.output.ttl)):
        if name in options:
            duration.FromNanoseconds(round(options[name] * 1e9))
    return request, uploads


def _by_our_names(given: Any) -> dict[str, Any]:
    """The options by our names, with size and duration converted to width, height and frames."""
    options: dict[str, Any] = {}
    taken: dict[str, str] = {}
    for name, value in given.items():
        ours = _SYNONYMS.get(name, name)
        if ours not in Options.__annotations__:
            near = difflib.get_close_matches(name, [*Options.__annotations__, *_SYNONYMS], 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            known = ", ".join(sorted(Options.__annotations__))
            raise TypeError(f"unknown option: {name}{hint}. Options: {known}; see help(kinora.Options)")
        if ours in taken:
            raise TypeError(f"{taken[ours]} and {name} are the same option")
        options[ours], taken[ours] = value, name
    for short, fields in (("size", ("width", "height")), ("duration", ("frames",)), ("auto_length", ("frames", "duration"))):
        for field in fields:
            if short in options and field in options:
                raise TypeError(f"{short}: cannot be combined with {field}")
    if "size" in options:
        options["width"], options["height"] = _sides(options.pop("size"))
    if "duration" in options:
        options.setdefault("fps", _USUAL_FPS)
        options["frames"] = _frames(options.pop("duration"), options["fps"])
    return options


def _sides(size: Any) -> Tuple[int, int]:
    try:
        width, height = (int(side) for side in (size.lower().split("x") if isinstance(size, str) else size))
    except (TypeError, ValueError):
        raise ValueError(f"size: {size!r}: must be \"768x512\" or (768, 512)") from None
    return width, height


def _bounds(length: Any) -> Tuple[float, float]:
    try:
        shortest, longest = (float(seconds) for seconds in length)
    except (TypeError, ValueError):
        raise ValueError(f"auto_length: {length!r}: must be the shortest and the longest duration in seconds, such as (1, 20)") from None
    return shortest, longest


def _frames(duration: Any, fps: float) -> int:
    """The nearest valid number of frames, 8k + 1; the smaller of two."""
    try:
        seconds = float(duration[:-1] if isinstance(duration, str) and duration.endswith("s") else duration)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise ValueError(f"duration: {duration!r}: must be seconds, such as 5 or \"5s\"")
    return 8 * math.ceil(max(seconds * fps - 1, 0) / 8 - 0.5) + 1


def _add_guidance(generation: Generation, options: Any) -> None:
    """Terms override the recipe's defaults or the given message. A modality that is not generated gets no guidance, unless it has
    a number of its own, which the server then rejects by name."""
    made = (not (generation.audio_only or generation.retake.keep_video),
            not (generation.HasField("audio") or generation.retake.keep_audio))
    messages = (generation.video_guidance, generation.audio_guidance)
    for message, name in zip(messages, ("video_guidance", "audio_guidance")):
        if name in options:
            message.CopyFrom(options[name])
            message.SetInParent()
    for name, field in _GUIDANCE.items():
        if name not in options:
            continue
        value = options[name]
        values = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
        if len(values) != 2:
            raise ValueError(f"{name}: {value!r}: must be one number, or two for picture and sound")
        for i, message in enumerate(messages):
            if made[i] or isinstance(value, (tuple, list)):
                setattr(message, field, values[i])
                message.keep_defaults = ("video_guidance", "audio_guidance")[i] not in options


def _stack_level() -> int:
    """The stack level of the caller outside this package."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level


def _enum(kind: Any, option: str, name: str) -> Any:
    names = [known for known in kind.keys() if not known.endswith("UNSPECIFIED")]
    if name.upper() not in names:
        raise ValueError(f"{option} {name!r}: must be one of {', '.join(names)}")
    return kind.Value(name.upper())


def _container(out: Optional[Union[str, os.PathLike[str]]], asked: Optional[str]) -> Optional[str]:
    if out is None:
        return asked
    ending = Path(out).suffix.lower()
    if ending not in _CONTAINERS:
        raise ValueError(f"out {os.fspath(out)!r}: its extension must be one of {', '.join(_CONTAINERS)}")
    if asked is not None and asked.upper() != _CONTAINERS[ending]:
        raise ValueError(f"out {os.fspath(out)!r} selects {_CONTAINERS[ending]}, but container is {asked}")
    return _CONTAINERS[ending]


def with_request_id(request: CreateVideoRequest) -> CreateVideoRequest:
    """The request with a request_id, so that it can be retried."""
    if request.request_id:
        return request
    named = CreateVideoRequest()
    named.CopyFrom(request)
    named.request_id = str(uuid.uuid4())
    return named


class PartFile:
    """A file that appears under its name once it is complete. Opened before the render, so that a bad path fails early."""

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
        self._part.unlink(missing_ok=True)  # a finished file was renamed

    def take(self, chunk: ArtifactChunk) -> None:
        if chunk.offset != self.received:
            raise DamagedDownload(f"{self.path}: the server sent offset {chunk.offset} instead of {self.received}")
        self._file.write(chunk.data)
        self._digest.update(chunk.data)
        self.received += len(chunk.data)

    def finish(self, artifact: Artifact) -> None:
        """Checks size and digest, and renames the file to its name."""
        if self.received != artifact.bytes or self._digest.hexdigest() != artifact.sha256:
            raise DamagedDownload(f"{self.path}: the {self.received} bytes received are not the {artifact.bytes} bytes with SHA-256 "
                                  f"{artifact.sha256}")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._part, self.path)
