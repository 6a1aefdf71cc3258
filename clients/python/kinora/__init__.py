"""Client of Kinora, a server that makes video with sound from text.

    import kinora
    clip = kinora.generate("a yellow triangle moves up on a blue background", out="clip.mp4")
"""

from . import aio, messages
from ._connection import Endpoint
from ._job import Clip, Progress
from ._request import Options, make_request
from ._version import __version__
from .client import Client, generate
from .errors import CallError, DamagedDownload, JobCancelled, JobFailed, KinoraError, Refused, Unreachable

__all__ = ["CallError", "Client", "Clip", "DamagedDownload", "Endpoint", "JobCancelled", "JobFailed", "KinoraError", "Options",
           "Progress", "Refused", "Unreachable", "__version__", "aio", "generate", "make_request", "messages"]
