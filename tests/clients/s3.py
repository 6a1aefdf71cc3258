"""An S3 server for tests of the programs: tests/server/s3/s3_server.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import unittest

import harness

SCRIPT = [sys.executable, str(harness.ROOT / "tests/server/s3/s3_server.py")]


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
        self.endpoint = f"http://127.0.0.1:{started['proxy']}"
        self.flags = ["--artifacts=s3://clips/kinora", f"--s3-endpoint={self.endpoint}", "--s3-region=eu-central-1", "--s3-path-style"]
        self.environment = {"AWS_ACCESS_KEY_ID": started["keys"]["id"], "AWS_SECRET_ACCESS_KEY": started["keys"]["secret"]}
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stderr.close()
