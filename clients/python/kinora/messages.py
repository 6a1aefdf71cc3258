"""The messages of the API: video_generation.proto of package kinora.v1."""

from .v1.video_generation_pb2 import *  # noqa: F401,F403
