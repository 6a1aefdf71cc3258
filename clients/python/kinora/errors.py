"""What a call can end with instead of a clip."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from .messages import Video


class KinoraError(Exception):
    """Of all errors of this package."""


class Unreachable(KinoraError):
    """No server answers, or one without a model, for as long as `wait` says."""


class CallError(KinoraError):
    """The server said no: Refused for what a changed request may mend, else this.

    code: "INVALID_ARGUMENT"; reason: "SHAPE_TOO_LARGE", "" if there is none; fields: each wrong field and what it may be;
    retry_seconds: when to try again, None if that does not help.
    """

    def __init__(self, code: str, message: str, reason: str = "", fields: Optional[Mapping[str, str]] = None,
                 retry_seconds: Optional[float] = None) -> None:
        self.code, self.reason = code, reason
        self.fields, self.retry_seconds = dict(fields or {}), retry_seconds
        super().__init__(f"{code}: {message}")


class Refused(CallError):
    """The request is wrong, or the server takes none like it now."""


class JobFailed(KinoraError):
    """The job ended as FAILED; `video.error` says why."""

    def __init__(self, video: Video) -> None:
        self.video = video
        super().__init__(f"job {video.id} failed: {video.error.message}")


class JobCancelled(KinoraError):
    """Somebody cancelled the job."""

    def __init__(self, video: Video) -> None:
        self.video = video
        super().__init__(f"job {video.id} was cancelled")


class DamagedDownload(KinoraError):
    """What came is not what the job's record says."""


_FAULTS = {"INTERNAL", "UNKNOWN", "DATA_LOSS", "ABORTED", "CANCELLED"}


def from_rpc(error: Any) -> KinoraError:
    """The error that a grpc.RpcError stands for, with what its details say."""
    code, message = error.code().name, error.details() or ""
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return Unreachable(f"{code}: {message}")
    found: dict[str, Any] = {"reason": "", "fields": {}, "retry_seconds": None}
    for detail in _details(error):
        _read(detail, found)
    return (CallError if code in _FAULTS else Refused)(code, message, **found)


def may_pass(error: Any) -> bool:
    """Of an UNAVAILABLE: gRPC's own says nothing of why, a server's when to try again, or that this does not help."""
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
