"""Client for Kinora, a server that makes video with sound from text.

    import kinora
    clip = kinora.generate("a yellow triangle moves up on a blue background", out="clip.mp4")

help(kinora.Options) lists the options of a clip, help(kinora.Client) the calls.
"""

from . import aio, messages
from ._connection import Endpoint
from ._job import Clip, Progress
from ._media import Audio, Image, Lora, Retake
from ._request import Options, make_request
from ._version import __version__
from .client import Client, generate
from .errors import CallError, DamagedDownload, JobCancelled, JobFailed, KinoraError, Refused, Unreachable

__all__ = ["Audio", "CallError", "Client", "Clip", "DamagedDownload", "Endpoint", "Image", "JobCancelled", "JobFailed", "KinoraError",
           "Lora", "Options", "Progress", "Refused", "Retake", "Unreachable", "__version__", "aio", "generate", "make_request", "messages"]
