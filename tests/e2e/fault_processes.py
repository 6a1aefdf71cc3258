"""The processes of tests/e2e/frontend_faults.py, each restarted whenever it ends: PostgreSQL, frontends, and the ranks of groups,
with a proxy in front of everything that a process connects to."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/clients"))

import harness  # noqa: E402
import s3  # noqa: E402
from fault_proxy import Proxy  # noqa: E402

MODEL = ROOT / "models" / "demo"
FILES = [MODEL / "ltx-2.3-demo-dev.safetensors", f"text_encoder={MODEL / 'gemma'}",
         f"spatial_upsampler={MODEL / 'ltx-2.3-demo-spatial-upscaler-x2.safetensors'}",
         f"distilled_lora={MODEL / 'ltx-2.3-demo-distilled-lora.safetensors'}"]
LORA = "few"  # the ID of the distilled LoRA when a request names it
LEASE_SECONDS = 4.0
HEARTBEAT_SECONDS = 3.0  # after which a silent worker is lost
START_AGAIN = 75  # the status of a worker whose group is lost
LEAVE_SECONDS = 60.0  # that a process may take to exit after SIGTERM


def worker_settings(folder: Path) -> dict[str, object]:
    return {"model-id": "demo", "device": "cpu", "precision": "f32", "lora-folder": folder / "loras", "checkpoint-seconds": 0.5,
            "http-address": ""}


class Kept:
    """A process that a thread starts again whenever it ends, as a launcher does, until leave(). It ends with this program."""

    PAUSE = 0.3  # seconds before a new start

    def __init__(self, name: str, command: Callable[[], list[str]], log: Path, prefix: tuple[str, ...] = (), **environment: str):
        self.name, self.log, self.statuses = name, log, []
        self._command, self._prefix, self._environment = command, prefix, {**os.environ, **environment}
        self._leaves, self._started, self._pause = threading.Event(), threading.Event(), self.PAUSE
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._started.wait()

    def _run(self) -> None:
        while not self._leaves.is_set():
            command = ["/usr/bin/setpriv", "--pdeathsig", "KILL", *self._prefix, *self._command()]
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment)
            self._started.set()
            self.statuses.append(self.process.wait())
            pause, self._pause = self._pause, self.PAUSE
            self._leaves.wait(pause)

    def kill(self, down: float = PAUSE) -> None:
        """Kills it, and starts it again after `down` seconds."""
        self._pause = down
        self.process.kill()

    def stop_for(self, seconds: float) -> None:
        process = self.process
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def terminate(self) -> Optional[int]:
        """Sends SIGTERM and waits for the exit. It is then started again. Returns its status, None if it did not end."""
        process = self.process
        process.terminate()
        try:
            return process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def leave(self) -> Optional[int]:
        """Ends it for good. Returns its status, None if it did not end by itself."""
        self._leaves.set()
        self.process.send_signal(signal.SIGCONT)
        status = self.terminate()
        self.process.kill()
        self._thread.join()
        return status

    def cpu_ticks(self) -> int:
        """Returns the hundredths of a second that it has computed, 0 if it has just ended."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0
        return int(fields[11]) + int(fields[12])

    def last_lines(self, count: int = 15) -> str:
        return "".join(self.log.read_text(errors="replace").splitlines(keepends=True)[-count:])


class Database:
    """A PostgreSQL server with an empty database "kinora", reachable through its Unix socket alone."""

    PROGRAMS = Path("/usr/lib/postgresql")
    # Nothing is left in /dev/shm after a kill. The file system keeps what a killed server has written.
    SETTINGS = {"listen_addresses": "", "max_connections": "200", "shared_buffers": "64MB", "dynamic_shared_memory_type": "mmap",
                "fsync": "off"}
    SHOOT = """DO $$ DECLARE n int := 0; hit int; until timestamptz := clock_timestamp() + interval '{seconds} s'; BEGIN
        WHILE clock_timestamp() < until LOOP
          PERFORM pg_stat_clear_snapshot();
          SELECT count(pg_terminate_backend(pid)) INTO hit FROM pg_stat_activity
            WHERE datname = 'kinora' AND (wait_event = 'SyncRep' OR (state <> 'idle' AND random() < 0.01));
          n := n + hit;
          PERFORM pg_sleep(0.01);
        END LOOP; RAISE WARNING 'terminated %', n; END $$"""

    def __init__(self, log: Path) -> None:
        self._programs = sorted(self.PROGRAMS.glob("*/bin"))[-1]
        self.folder = Path(tempfile.mkdtemp(prefix="kinora-postgres-", dir="/tmp"))
        prefix: tuple[str, ...] = ()
        if os.getuid() == 0:  # the server refuses to run as root
            shutil.chown(self.folder, "postgres", "postgres")
            prefix = ("--reuid=postgres", "--regid=postgres", "--init-groups")
        subprocess.run(["/usr/bin/setpriv", *prefix, str(self._programs / "initdb"), "--pgdata", str(self.folder / "data"),
                        "--username", "kinora", "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C.UTF-8"],
                       check=True, stdout=subprocess.DEVNULL, cwd="/")
        settings = [word for name, value in self.SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder), *settings]
        self.server = Kept("PostgreSQL", lambda: command, log, prefix)
        self.socket = self.folder / ".s.PGSQL.5432"
        until = time.monotonic() + 60
        while self._psql("postgres", "CREATE DATABASE kinora").returncode:
            if time.monotonic() > until:
                raise AssertionError(self.server.last_lines())
            time.sleep(0.1)

    def _psql(self, database: str, *commands: str) -> subprocess.CompletedProcess:
        program = [str(self._programs / "psql"), "-h", str(self.folder), "-U", "kinora", "-d", database, "-Atq", "-v", "ON_ERROR_STOP=1"]
        return subprocess.run([*program, *(word for command in commands for word in ("-c", command))], capture_output=True, text=True)

    def terminate_commits(self, seconds: float) -> int:
        """Ends connections for so long: all that commit, after the commit and before its answer, and some others. Returns how many.

        For this time a commit waits for a standby that does not exist."""
        self._psql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
        answer = self._psql("postgres", self.SHOOT.format(seconds=seconds)).stderr
        until = time.monotonic() + 60
        while self._psql("postgres", "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()").returncode:
            if time.monotonic() > until:  # it may just be killed
                raise AssertionError(self.server.last_lines())
            time.sleep(0.1)
        return int(answer.rpartition("terminated ")[2].split()[0]) if "terminated " in answer else 0

    def close(self) -> None:
        self.server.leave()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Frontend:
    kept: Kept
    address: str
    database: Proxy
    bucket: Proxy
    clients: Proxy  # in front of its API
    ranks: Proxy  # in front of its join address
    peers: Proxy  # in front of where other frontends call it

    def proxies(self) -> tuple[Proxy, ...]:
        return self.database, self.bucket, self.clients, self.ranks, self.peers


@dataclass
class Cluster:
    """Frontends with one database and one bucket, and groups outside of them. A rank dials a random frontend whenever it starts."""

    programs: Path
    folder: Path
    frontends_count: int
    groups_count: int
    chance: random.Random
    frontends: list[Frontend] = field(default_factory=list)
    ranks: list[Kept] = field(default_factory=list)

    def __enter__(self) -> Cluster:
        (self.folder / "loras").mkdir(exist_ok=True)
        shutil.copy(MODEL / "ltx-2.3-demo-distilled-lora.safetensors", self.folder / "loras" / f"{LORA}.safetensors")
        for name in ("token", "peer-token"):
            (self.folder / name).touch(0o600)
            (self.folder / name).write_text(f"the {name} of the test\n")
        groups = [f"groups {{ id: '{name}' processes: {ranks} outside: true }}" for name, ranks in self.groups()]
        (self.folder / "kinora.textproto").write_text("\n".join(groups))
        self.bucket = s3.Server()
        self.bucket.__enter__()
        self.database = Database(self.folder / "postgres.log")
        self.frontends = [self._start_frontend(index) for index in range(self.frontends_count)]
        self.ranks = [self._start_rank(name, rank, ranks) for name, ranks in self.groups() for rank in range(ranks)]
        return self

    def groups(self) -> list[tuple[str, int]]:
        """The names of the groups and their numbers of ranks."""
        return [(chr(ord("a") + number), 2 if number == 0 else 1) for number in range(self.groups_count)]

    def _start_frontend(self, index: int) -> Frontend:
        port, join_port, peer_port = (harness.free_port() for _ in range(3))
        database, bucket = Proxy(self.database.socket), Proxy(self.bucket.port)
        clients, ranks, peers = Proxy(port), Proxy(join_port), Proxy(peer_port)
        command = [str(self.programs / "kinora-frontend"), f"--config={self.folder / 'kinora.textproto'}", f"--address=127.0.0.1:{port}",
                   "--http-address=", "--web-address=", f"--state-directory={self.folder / f'frontend-{index}'}",
                   f"--store=postgresql://kinora@127.0.0.1:{database.port}/kinora", *s3.flags(f"http://127.0.0.1:{bucket.port}"),
                   f"--join-address=127.0.0.1:{join_port}", f"--advertise-join-address=127.0.0.1:{ranks.port}",
                   f"--join-token-file={self.folder / 'token'}", f"--peer-address=127.0.0.1:{peer_port}",
                   f"--advertise-peer-address=127.0.0.1:{peers.port}", f"--peer-token-file={self.folder / 'peer-token'}",
                   f"--lease-seconds={LEASE_SECONDS}", f"--worker-heartbeat-timeout-seconds={HEARTBEAT_SECONDS}",
                   "--worker-step-floor-seconds=10", "--drain-grace-seconds=3", "--min-free-bytes=0", "--sweep-interval-seconds=2",
                   "--heartbeat-interval-seconds=1", "--group-join-timeout-seconds=20"]
        name = f"frontend {index}"
        kept = Kept(name, lambda: command, self.folder / f"frontend-{index}.log", **self.bucket.environment)
        return Frontend(kept, f"127.0.0.1:{port}", database, bucket, clients, ranks, peers)

    def _start_rank(self, group: str, rank: int, ranks: int) -> Kept:
        settings = worker_settings(self.folder) | {"group": group, "rank": rank, "world-size": ranks, "threads": ranks,
                                                   "token-file": self.folder / "token", "scratch-directory": self.folder}
        if ranks > 1:
            settings["ranks"] = f"tokens={ranks}"
        fixed = [f"--{name}={value}" for name, value in settings.items()] + [f"--model={file}" for file in FILES]

        def command() -> list[str]:
            return [str(self.programs / "kinora-worker"), f"--frontend=127.0.0.1:{self.chance.choice(self.frontends).ranks.port}", *fixed]

        return Kept(f"rank {rank} of {group}", command, self.folder / f"rank-{group}{rank}.log")

    def kept(self) -> list[Kept]:
        return [frontend.kept for frontend in self.frontends] + self.ranks

    def busy_ranks(self, patience: float) -> list[Kept]:
        """Waits until ranks compute, and returns them; all ranks if none does for so long."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            before = [rank.cpu_ticks() for rank in self.ranks]
            time.sleep(0.1)
            if busy := [rank for rank, ticks in zip(self.ranks, before) if rank.cpu_ticks() > ticks + 1]:
                return busy
        return self.ranks

    def calm(self) -> None:
        """Ends the faults of proxies and bucket."""
        for frontend in self.frontends:
            for proxy in frontend.proxies():
                proxy.pass_on()
        self.bucket.fail([])

    def wrong_exits(self) -> list[str]:
        """Returns the exits that no fault explains."""
        expected = {id(kept): {0, 1, -signal.SIGKILL} for kept in (frontend.kept for frontend in self.frontends)}
        wrong = []
        for kept in self.kept():
            for status in kept.statuses:
                if status not in expected.get(id(kept), {0, START_AGAIN, -signal.SIGKILL}):
                    wrong.append(f"{kept.name} ended with {status}:\n{kept.last_lines()}")
        return wrong

    def close_frontends(self) -> list[str]:
        """Ends ranks and frontends for good. Returns what did not end as it should."""
        leaving = [(kept.name, kept.leave()) for kept in self.ranks] + [(f.kept.name, f.kept.leave()) for f in self.frontends]
        return [f"{name} ended with {status} after SIGTERM" for name, status in leaving if status not in (0, START_AGAIN)]

    def __exit__(self, *_: object) -> None:
        for kept in self.kept():
            kept.process.kill()
        self.database.close()
        self.bucket.__exit__()
