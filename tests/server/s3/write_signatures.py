#!/usr/bin/env python3
"""Writes data/signatures.json: requests to S3 as botocore signs them, with headers and as presigned links."""
import datetime, json, sys
from pathlib import Path
from unittest import mock
from urllib.parse import quote, urlencode

import botocore
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

NOW = datetime.datetime(2024, 2, 29, 23, 59, 58, tzinfo=datetime.timezone.utc)
KEYS = {"id": "AKIDEXAMPLE", "secret": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
TOKEN = "IQoJb3JpZ2luX2VjEXAMPLE+/=="
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

REQUESTS = [
    dict(method="GET", host="clips.s3.eu-central-1.amazonaws.com", path="/prefix/job/1/video.mp4"),
    dict(method="GET", host="127.0.0.1:9000", path="/clips/prefix/job/1/video.mp4",
         headers={"range": "bytes=0-1048575"}),
    dict(method="PUT", host="clips.s3.eu-central-1.amazonaws.com", path="/job/2/video.mp4", payload="ab" * 32,
         headers={"content-type": "application/octet-stream", "if-none-match": "*", "x-amz-meta-sha256": "cd" * 32}),
    dict(method="GET", host="clips.s3.eu-central-1.amazonaws.com", path="/",
         query={"list-type": "2", "prefix": "a b/ü~*'()!", "delimiter": "/", "continuation-token": "1+/=&x"}),
    dict(method="POST", host="clips.s3.eu-central-1.amazonaws.com", path="/key", query={"uploads": ""}),
    dict(method="PUT", host="clips.s3.eu-central-1.amazonaws.com", path="/key with spaces/ä+%~.mp4",
         query={"partNumber": "10", "uploadId": "a.b-c_d"}, payload="12" * 32),
    dict(method="DELETE", host="clips.s3.eu-central-1.amazonaws.com", path="/key", token=TOKEN),
    dict(method="GET", host="clips.s3.eu-central-1.amazonaws.com", path="/prefix/job/1/video.mp4", token=TOKEN,
         query={"response-content-type": "video/mp4",
                "response-content-disposition": 'attachment; filename="a fox.mp4"'}),
]


def request_of(case):
    query = urlencode(case.get("query", {}), quote_via=quote, safe="-_.~")
    url = f"https://{case['host']}{quote(case['path'], safe='/-_.~')}" + (f"?{query}" if query else "")
    return AWSRequest(case["method"], url, headers={"host": case["host"], **case.get("headers", {})})


def sign(case):
    keys = Credentials(KEYS["id"], KEYS["secret"], case.get("token"))
    request = request_of(case)
    request.headers["X-Amz-Content-SHA256"] = case.get("payload", EMPTY)
    signer = auth.S3SigV4Auth(keys, "s3", "eu-central-1")
    with mock.patch.object(auth.S3SigV4Auth, "payload", lambda self, request: case.get("payload", EMPTY)):
        signer.add_auth(request)
    out = dict(case, authorization=request.headers["Authorization"])
    if "headers" not in case and case["method"] == "GET":
        link = request_of(case)
        auth.S3SigV4QueryAuth(keys, "s3", "eu-central-1", expires=3600).add_auth(link)
        out["link"] = link.url
    return out


def main():
    with mock.patch.object(auth, "get_current_datetime", lambda *args, **kwargs: NOW.replace(tzinfo=None), create=True):
        cases = [sign(case) for case in REQUESTS]
    out = {"botocore": botocore.__version__, "now": NOW.isoformat(), "region": "eu-central-1", **KEYS, "cases": cases}
    path = Path(__file__).parent / "data/signatures.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
