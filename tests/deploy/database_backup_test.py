#!/usr/bin/env python3
"""Runs the blocks of docs/deployment.md "Back up the database and the bucket" against Debian's PostgreSQL and an S3 server, while a
frontend uses both: a base backup with archived WAL, a job that was waiting at the time to return to, a clip that was deleted
after it, and the restore. `sudo` and `systemctl` are stand-ins, and folders are in a temporary one."""

import json
import os
import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import database
import harness
import s3

PAGE = harness.ROOT / "docs/deployment.md"
SHAPE = ["--width=64", "--height=64", "--frames=9", "--steps=2"]
SUDO = """#!/bin/bash
# sudo [-u postgres] COMMAND: as the user postgres in either case, who owns all files here
if [ "$1" = -u ]; then shift 2; fi
exec {user} "$@"
"""


def block(kind: str) -> str:
    [found] = harness.blocks(kind, PAGE)
    return found


class DatabaseBackup(unittest.TestCase):
    def setUp(self) -> None:
        self.server = self.enterContext(database.Server())
        self.bucket = self.enterContext(s3.Server())
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(dir="/tmp")))
        self.backup = self.server.root / "backup"
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / "sudo").write_text(SUDO.format(user=" ".join(database.unprivileged([]))))
        (programs / "sudo").chmod(0o755)
        self.environment = {**self.server.environment, **self.bucket.environment, "AWS_ENDPOINT_URL_S3": self.bucket.endpoint,
                            "AWS_DEFAULT_REGION": "eu-central-1"}
        self.environment["PATH"] = f"{programs}:{self.environment['PATH']}"
        modules = [str(place / "s3-server") for place in (harness.ROOT / "third_party", Path("/usr/local/share/kinora"))]
        self.environment["PYTHONPATH"] = ":".join(modules)

    def paste(self, text: str, **environment: str) -> str:
        """Runs commands. The test itself is `systemctl`."""
        text = text.replace("/var/lib/postgresql/15/main", str(self.server.folder)).replace("/backup", str(self.backup))
        if os.getuid() != 0:
            text = text.replace("-o postgres ", "")
        out = ""
        for part in re.split(r"(?m)^(sudo systemctl \w+ postgresql)$\n?", text):
            if part.startswith("sudo systemctl"):
                for action in {"restart": ("stop", "start")}.get(part.split()[2], (part.split()[2],)):
                    {"stop": self.server.stop, "start": self.server.start}[action]()
            else:
                out += harness.run(["bash", "-ec", part], self.server.root, **self.environment, **environment)
        return out

    def frontend(self) -> harness.Frontend:
        with mock.patch.dict(os.environ, {**self.bucket.environment, "PGPASSWORD": database.PASSWORD}):
            frontend = harness.Frontend(self.folder, flags=[f"--store={self.server.url}", *self.bucket.flags, "--lease-seconds=2"])
            frontend.start()
        self.addCleanup(frontend.stop)
        frontend.await_ready()
        return frontend

    def kinora(self, frontend: harness.Frontend, *words: str, status: int = 0) -> str:
        done = subprocess.run([str(harness.BUILD / "bin/kinora"), *words, *([] if words[0] == "admin" else ["--server", frontend.address])],
                              capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, "KINORA_ADMIN_SERVER": f"unix:{self.folder}/state/admin.sock"})
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def create(self, frontend: harness.Frontend, prompt: str) -> str:
        return self.kinora(frontend, "create", prompt, *SHAPE).strip()

    def states(self, frontend: harness.Frontend) -> dict[str, str]:
        listed = self.kinora(frontend, "list", "--json", "--all")
        return {video["id"]: video["state"] for video in map(json.loads, listed.splitlines())}

    def clip(self, frontend: harness.Frontend, id: str) -> bytes:
        file = self.folder / f"{id}.mp4"
        file.unlink(missing_ok=True)
        self.kinora(frontend, "download", id, "-o", str(file))
        return file.read_bytes()

    def test_back_to_a_point_in_time(self) -> None:
        self.paste(block("bash archive"))
        self.paste("python3 - <<'END'\n" + block("python versions") + "END\n")
        frontend = self.frontend()
        kept, deleted = self.create(frontend, "a red fox"), self.create(frontend, "a blue bird")
        for id in (kept, deleted):
            self.kinora(frontend, "watch", id)
        clips = {id: self.clip(frontend, id) for id in (kept, deleted)}
        self.paste(block("bash base-backup"))

        after_backup = self.create(frontend, "a green frog")  # only in the archived WAL
        self.kinora(frontend, "watch", after_backup)
        self.kinora(frontend, "admin", "drain", "0")
        waiting = self.create(frontend, "a grey wolf")
        time.sleep(1.1)  # the bucket's times are whole seconds
        when = self.server.sql("SELECT clock_timestamp()")
        time.sleep(1.1)
        self.kinora(frontend, "admin", "restart", "0")
        self.kinora(frontend, "watch", waiting)
        too_late = self.create(frontend, "a white owl")
        self.kinora(frontend, "watch", too_late)
        first = self.clip(frontend, waiting)
        self.kinora(frontend, "delete", deleted)
        self.server.sql("SELECT pg_switch_wal()")  # the last segment is archived
        frontend.stop()

        [base] = self.backup.glob("2*")
        self.paste(block("bash restore"), when=when, base=str(base))
        self.assertIn("recovery stopping before", self.server.log())
        self.paste("python3 - <<'END'\n" + block("python restore") + "END\n", when=when)
        frontend = self.frontend()
        self.kinora(frontend, "watch", waiting)
        states = self.states(frontend)
        self.assertEqual(states, {id: "COMPLETED" for id in (kept, deleted, after_backup, waiting)})  # not too_late
        for name, id in (("kept", kept), ("deleted", deleted)):
            with self.subTest(clip=name):
                self.assertEqual(self.clip(frontend, id), clips[id])
        self.assertEqual(self.clip(frontend, waiting)[4:8], first[4:8])
        self.kinora(frontend, "watch", self.create(frontend, "another"))


if __name__ == "__main__":
    harness.main(programs=["setpriv", str(database.PROGRAMS / "pg_basebackup")])
