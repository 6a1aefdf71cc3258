"""The errors of this package."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from .messages import Video


class KinoraError(Exception):
    """The base class of all errors of this package."""


class Unreachable(KinoraError):
    """The server has been unreachable, or without a model, for `wait` seconds."""


class CallError(KinoraError):
    """The call failed. The subclass Refused is for calls that the server rejected; others are faults of the server.

    code: for example "INVALID_ARGUMENT". reason: for example "SHAPE_TOO_LARGE", or "". fields: each invalid field with a
    description that names valid values. retry_seconds: when to retry; None if retrying does not help.
    """

    def __init__(self, code: str, message: str, reason: str = "", fields: Optional[Mapping[str, str]] = None,
                 retry_seconds: Optional[float] = None) -> None:
        self.code, self.reason = code, reason
        self.fields, self.retry_seconds = dict(fields or {}), retry_seconds
        super().__init__(f"{code}: {message}")


class Refused(CallError):
    """The server rejected the call: the request is invalid, or the server does not accept it now."""


class JobFailed(KinoraError):
    """The job FAILED; `video.error` says why."""

    def __init__(self, video: Video) -> None:
        self.video = video
        super().__init__(f"job {video.id} failed: {video.error.message}")


class JobCancelled(KinoraError):
    """The job was cancelled."""

    def __init__(self, video: Video) -> None:
        self.video = video
        super().__init__(f"job {video.id} was cancelled")


class DamagedDownload(KinoraError):
    """The downloaded data does not match the job's record."""


_FAULTS = {"INTERNAL", "UNKNOWN", "DATA_LOSS", "ABORTED", "CANCELLED"}


def from_rpc(error: Any) -> KinoraError:
    """The error for a grpc.RpcError, with its details."""
    code, message = error.code().name, error.details() or ""
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return Unreachable(f"{code}: {with_hint(message)}")
    found: dict[str, Any] = {"reason": "", "fields": {}, "retry_seconds": None}
    for detail in _details(error):
        _read(detail, found)
    return (CallError if code in _FAULTS else Refused)(code, message, **found)


def with_hint(message: str) -> str:
    """gRPC's message about an unreachable server, with a hint at the likely mistake."""
    if "last error" in message and ("Socket closed" in message or "Connection reset by peer" in message):
        return message + "; a server that wants TLS closes connections without it: pass tls=True, or ca_file= with its authority"
    return message


def may_pass(error: Any) -> bool:
    """Whether retrying after UNAVAILABLE can help: gRPC's own has no reason; a server's has a retry delay if it can."""
    found: dict[str, Any] = {"reason": "", "retry_seconds": None}
    for detail in _details(error):
        _read(detail, found)
    return not found["reason"] or found["retry_seconds"] is not None


def _details(error: Any) -> Any:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            try:
                return status_pb2.Status.FromString(value).details
            except DecodeError:
                return ()
    return ()


def _read(detail: Any, found: dict[str, Any]) -> None:
    bad_request, info, retry = error_details_pb2.BadRequest(), error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    if detail.Unpack(bad_request):
        found["fields"] = {violation.field: violation.description for violation in bad_request.field_violations}
    elif detail.Unpack(info):
        found["reason"] = info.reason
    elif detail.Unpack(retry):
        found["retry_seconds"] = retry.retry_delay.seconds + retry.retry_delay.nanos * 1e-9
