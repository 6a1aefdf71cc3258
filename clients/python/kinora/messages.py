"""The messages of the API, from kinora/v1/video_generation.proto."""

from .v1.video_generation_pb2 import *  # noqa: F401,F403
