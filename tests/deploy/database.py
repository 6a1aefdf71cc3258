"""Debian's PostgreSQL for tests of deployments: a server of its own on this machine, which ends with the test."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))
import harness  # noqa: E402

PROGRAMS = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path("/usr/lib/postgresql/15/bin"))
PATIENCE = 60  # seconds
PASSWORD = "a password of the database"


def unprivileged(command: list[object]) -> list[str]:
    """Returns the command as the user postgres, if this one is root: the server refuses to run as root. It ends with this process."""
    user = ["--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
    return ["setpriv", "--pdeathsig=KILL", *user, *map(str, command)]


class Server:
    """A server on 127.0.0.1, started by `with`, with the database `jobs` of the role `kinora`, who has a password. `folder` is
    its data directory.

    tls: the Secret kinora-tls, whose certificate the server shows."""

    def __init__(self, tls: dict[str, str] = {}):
        self.port = harness.free_port()
        self._tls = tls
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> Server:
        self.root = Path(tempfile.mkdtemp(prefix="kinora-database-", dir="/tmp"))  # a folder that the user postgres may enter
        self._own(self.root)
        self.folder = self.root / "main"
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def _own(self, path: Path) -> None:
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(path, user.pw_uid, user.pw_gid)

    def _make(self) -> None:
        harness.run(unprivileged([PROGRAMS / "initdb", "--pgdata", self.folder, "--username=postgres", "--auth-local=trust",
                                  "--auth-host=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"]), self.root)
        for name, text in (("tls.crt", self._tls.get("tls.crt")), ("tls.key", self._tls.get("tls.key"))):
            if text is not None:
                file = self.folder / name
                file.touch(mode=0o600)
                file.write_text(text)
                self._own(file)
        self.start()
        self.sql(f"CREATE ROLE kinora LOGIN PASSWORD '{PASSWORD}'")
        self.sql("CREATE DATABASE jobs OWNER kinora")

    @property
    def url(self) -> str:
        return f"postgresql://kinora@127.0.0.1:{self.port}/jobs"

    @property
    def environment(self) -> dict[str, str]:
        """Reaches the server as the user postgres does by default."""
        return {"PGHOST": str(self.root), "PGPORT": str(self.port), "PGUSER": "postgres", "PGDATABASE": "postgres",
                "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}

    def start(self) -> None:
        tls = ["-c", "ssl=on", "-c", "ssl_cert_file=tls.crt", "-c", "ssl_key_file=tls.key"] if self._tls else []
        with (self.root / "log").open("a") as log:
            self._process = subprocess.Popen(
                unprivileged([PROGRAMS / "postgres", "-D", self.folder, "-c", f"port={self.port}", "-c", "listen_addresses=127.0.0.1",
                              "-c", f"unix_socket_directories={self.root}", "-c", "fsync=off", *tls]), stderr=log)
        deadline = time.monotonic() + PATIENCE
        ready = [PROGRAMS / "psql", "-XAtc", "SELECT NOT pg_is_in_recovery()"]  # a recovery has ended
        while subprocess.run(ready, env={**os.environ, **self.environment}, capture_output=True, text=True).stdout != "t\n":
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the database does not start:\n" + self.log())
            time.sleep(0.05)

    def stop(self) -> None:
        """As systemctl stop: clients are cut off, and nothing is lost."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=PATIENCE)
            self._process = None

    def log(self) -> str:
        return (self.root / "log").read_text()

    def sql(self, statement: str, database: str = "postgres") -> str:
        return harness.run([str(PROGRAMS / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", statement], self.root,
                           **self.environment).strip()
