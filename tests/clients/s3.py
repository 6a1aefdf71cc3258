"""An S3 server for tests of the programs: tests/server/s3/s3_server.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import unittest
import urllib.request
from typing import Any

import harness

PLACES = [str(harness.ROOT / "third_party/s3-server"), "/usr/local/share/kinora/s3-server"]  # as in that file
SCRIPT = [sys.executable, str(harness.ROOT / "tests/server/s3/s3_server.py")]


def flags(endpoint: str) -> list[str]:
    """A frontend's flags for the bucket, which it reaches at `endpoint`."""
    return ["--artifacts=s3://clips/kinora", f"--s3-endpoint={endpoint}", "--s3-region=eu-central-1", "--s3-path-style"]


class Server:
    """Serves the bucket "clips" at `endpoint` during the `with` block. `flags` and `environment` are a frontend's.

    Skips the test, or the class in its setUpClass, without moto."""

    def __init__(self) -> None:
        installed = subprocess.run([*SCRIPT, "--check"], capture_output=True).returncode == 0
        if not installed and not os.environ.get("KINORA_MUST_RUN"):
            raise unittest.SkipTest("moto is not installed")

    def __enter__(self) -> Server:
        self._process = subprocess.Popen(SCRIPT, stderr=subprocess.PIPE, text=True)
        for line in self._process.stderr:
            if line.startswith('{"moto"'):
                break
        else:
            raise AssertionError("the S3 server did not start")
        self._reader = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._reader.start()
        started = json.loads(line)
        self.port, self._moto = started["proxy"], f"http://127.0.0.1:{started['moto']}"
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.flags = flags(self.endpoint)
        self.environment = {"AWS_ACCESS_KEY_ID": started["keys"]["id"], "AWS_SECRET_ACCESS_KEY": started["keys"]["secret"]}
        return self

    def fail(self, faults: list[dict[str, Any]]) -> None:
        """Replaces the faults of the next requests; see tests/server/s3/s3_server.py."""
        urllib.request.urlopen(f"{self.endpoint}/-/faults", json.dumps(faults).encode(), timeout=30).close()

    def requests(self) -> list[str]:
        """All requests so far, as "METHOD PATH?QUERY"."""
        with urllib.request.urlopen(f"{self.endpoint}/-/requests", timeout=30) as answer:
            return json.load(answer)

    def keys(self) -> list[str]:
        """The keys of all objects below the prefix of `flags`."""
        sys.path += [place for place in PLACES if place not in sys.path]
        import boto3

        client = boto3.client("s3", endpoint_url=self._moto, region_name="eu-central-1",
                              aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
                              aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"])
        pages = client.get_paginator("list_objects_v2").paginate(Bucket="clips", Prefix="kinora/")
        return [found["Key"].removeprefix("kinora/") for page in pages for found in page.get("Contents", [])]

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stderr.close()
