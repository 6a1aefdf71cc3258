#!/usr/bin/env python3
"""Injects random faults into several frontends with one database and one bucket, which must not lose anything.

    python3 tests/e2e/frontend_faults.py --build build/release --minutes 10 [--seed 7]

Frontends, PostgreSQL, an S3 server and groups run on this machine, with proxies between them. While creators make jobs with
different recipes and watchers move between the frontends, the program kills and stops processes, cuts, holds and slows connections,
drops answers, interrupts commits, makes the bucket fail, takes the database away, and restarts the frontends one after another.

Afterwards every job must be COMPLETED once, with the bytes of an undisturbed frontend, or FAILED because it lost its groups. Its
stored events must be complete, and each of its watchers must have seen each of them once and in order. The bucket must hold what the
records name and nothing else. Prints the seed, which repeats the schedule of faults, then the faults and figures. If anything is
wrong, exits with status 1 and keeps the logs.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # processes are started while calls are open

from fault_processes import HEARTBEAT_SECONDS, LEASE_SECONDS, LEAVE_SECONDS, ROOT, Cluster, harness  # noqa: E402

harness.require(modules=["grpc", "google.protobuf"], programs=["protoc", "setpriv"], folders=["/usr/lib/postgresql"])

import grpc  # noqa: E402
from fault_checks import TERMINAL, wrong_history, wrong_result, wrong_view  # noqa: E402
from fault_clients import VARIANTS, Clients, Job, Service, load_package, undisturbed  # noqa: E402

PATIENCE = 240.0  # seconds that jobs may take after the last fault
CREATORS = 8  # that create jobs at once
WATCHES = 8  # watchers of each job, if there are so many
FAULT_SECONDS = 3.0  # the mean time between faults
BUSY_SECONDS = 3.0  # for which a fault waits for a rank that computes


@dataclass(frozen=True)
class Fault:
    """at: seconds after the first job. whom, much: from 0 to 1, which process or proxy, and how long or often."""

    at: float
    kind: str
    whom: float
    much: float


class Faults:
    """Strikes a cluster. Each method named as a kind of fault returns what it did."""

    def __init__(self, cluster: Cluster, minutes: float) -> None:
        self.cluster, self.seconds = cluster, 60 * minutes
        self.wrong: list[str] = []

    def _one(self, of: list[Any], fault: Fault) -> Any:
        return of[int(fault.whom * len(of))]

    def frontend_killed(self, fault: Fault) -> str:
        kept = self._one(self.cluster.frontends, fault).kept
        kept.kill(down=6 * fault.much)
        return f"{kept.name}, back after {6 * fault.much:.1f} s"

    def frontend_stopped(self, fault: Fault) -> str:
        kept, seconds = self._one(self.cluster.frontends, fault).kept, LEASE_SECONDS * (1.1 + fault.much)
        kept.stop_for(seconds)
        return f"{kept.name} for {seconds:.1f} s"

    def rank_killed(self, fault: Fault) -> str:
        kept = self._one(self.cluster.busy_ranks(BUSY_SECONDS), fault)
        kept.kill()
        return kept.name

    def rank_stopped(self, fault: Fault) -> str:
        kept, seconds = self._one(self.cluster.busy_ranks(BUSY_SECONDS), fault), HEARTBEAT_SECONDS * (0.5 + 2 * fault.much)
        kept.stop_for(seconds)
        return f"{kept.name} for {seconds:.1f} s"

    def database_killed(self, fault: Fault) -> str:
        self.cluster.database.server.kill(down=3 * fault.much)
        return f"back after {3 * fault.much:.1f} s"

    def commits_terminated(self, fault: Fault) -> str:
        return f"{self.cluster.database.terminate_commits(0.5 + 2 * fault.much)} connections"

    def database_cut(self, fault: Fault) -> str:
        return self._proxies("cut", "database", fault, 0)

    def database_slow(self, fault: Fault) -> str:
        return self._proxies("slow", "database", fault, 6 * fault.much)

    def database_held(self, fault: Fault) -> str:
        return self._proxies("hold", "database", fault, 14 * fault.much)

    def database_answers_lost(self, fault: Fault) -> str:
        return self._proxies("swallow", "database", fault, 0.5 * fault.much)

    def bucket_slow(self, fault: Fault) -> str:
        return self._proxies("slow", "bucket", fault, 6 * fault.much)

    def bucket_held(self, fault: Fault) -> str:
        return self._proxies("hold", "bucket", fault, 10 * fault.much)

    def bucket_cut(self, fault: Fault) -> str:
        return self._proxies("cut", "bucket", fault, 0)

    def clients_cut(self, fault: Fault) -> str:
        return self._proxies("cut", "clients", fault, 0)

    def clients_answers_lost(self, fault: Fault) -> str:
        return self._proxies("swallow", "clients", fault, fault.much)

    def ranks_cut(self, fault: Fault) -> str:
        return self._proxies("cut", "ranks", fault, 0)

    def ranks_slow(self, fault: Fault) -> str:
        return self._proxies("slow", "ranks", fault, 6 * fault.much)

    def ranks_held(self, fault: Fault) -> str:
        return self._proxies("hold", "ranks", fault, 2 * HEARTBEAT_SECONDS * fault.much)

    def peers_cut(self, fault: Fault) -> str:
        return self._proxies("cut", "peers", fault, 0)

    def peers_slow(self, fault: Fault) -> str:
        return self._proxies("slow", "peers", fault, 6 * fault.much)

    def peers_held(self, fault: Fault) -> str:
        return self._proxies("hold", "peers", fault, 10 * fault.much)

    def _proxies(self, action: str, name: str, fault: Fault, seconds: float) -> str:
        """A proxy of one frontend, or that of each."""
        everywhere = fault.whom < 0.3
        frontends = self.cluster.frontends if everywhere else [self._one(self.cluster.frontends, fault)]
        proxies = [getattr(frontend, name) for frontend in frontends]
        for proxy in proxies:
            proxy.slow(0.01 + 0.15 * fault.much) if action == "slow" else getattr(proxy, action)()
        if action != "cut":
            time.sleep(seconds)
            for proxy in proxies:
                if action == "swallow":
                    proxy.cut()
                proxy.pass_on()
        return f"{'all frontends' if everywhere else frontends[0].kept.name}{f' for {seconds:.1f} s' if seconds else ''}"

    def bucket_errors(self, fault: Fault) -> str:
        return self._bucket([{"kind": "reply", "status": status, "body": "<Error><Code>SlowDown</Code></Error>"} for status in (500, 503)],
                            fault)

    def bucket_answers_lost(self, fault: Fault) -> str:
        return self._bucket([{"kind": kind} for kind in ("lost", "cut", "refuse")], fault)

    def _bucket(self, faults: list[dict[str, Any]], fault: Fault) -> str:
        method = ["PUT", "GET", "DELETE|HEAD", "."][int(4 * fault.whom)]
        times = 1 + int(5 * fault.much)
        self.cluster.bucket.fail([{"match": method, "times": times, **each} for each in faults])
        return f"{times * len(faults)} requests {method if method != '.' else 'of any kind'}"

    def database_away(self, fault: Fault) -> str:
        seconds = min(60.0, self.seconds / 6)
        for frontend in self.cluster.frontends:
            frontend.database.refuse()
        time.sleep(seconds)
        for frontend in self.cluster.frontends:
            frontend.database.pass_on()
        return f"for {seconds:.0f} s"

    def rolling_restart(self, fault: Fault) -> str:
        statuses = [frontend.kept.terminate() for frontend in self.cluster.frontends]
        self.wrong += [f"a frontend did not end within {LEAVE_SECONDS:.0f} s of SIGTERM" for status in statuses if status is None]
        return f"exit statuses {statuses}"


ONCE = ["database_away", "rolling_restart"]  # in five minutes; the others come again and again
TWICE = ["frontend_killed", "rank_killed", "rank_stopped"]  # in each round of the others
KINDS = TWICE + [name for name in vars(Faults) if not name.startswith("_") and name not in ONCE]


def schedule(seed: int, minutes: float) -> list[Fault]:
    """Draws the faults: all kinds in a random order, then again."""
    chance = random.Random(seed)
    end, at, deck = 60 * minutes, 0.0, []
    faults = []
    rounds = max(1, round(minutes / 5))
    for number in range(rounds):
        for kind, place in zip(ONCE, (0.25, 0.7)):
            faults.append(Fault((number + place) * end / rounds, kind, chance.random(), chance.random()))
    while True:
        at += FAULT_SECONDS * (0.3 + 1.4 * chance.random())
        if at > end:
            return sorted(faults, key=lambda fault: fault.at)
        if not deck:
            deck = chance.sample(KINDS, len(KINDS))
        faults.append(Fault(at, deck.pop(), chance.random(), chance.random()))


def strike_all(faults: Faults, planned: list[Fault], begin: float) -> None:
    """Lets each fault happen at its time, over others that still last, and waits for the last one."""

    def strike(fault: Fault) -> None:
        time.sleep(max(0.0, begin + fault.at - time.monotonic()))
        what = getattr(faults, fault.kind)(fault)
        print(f"{fault.at:6.1f} s  {fault.kind.replace('_', ' '):24} {what}", flush=True)

    with ThreadPoolExecutor(len(planned)) as pool:
        for done in [pool.submit(strike, fault) for fault in planned]:
            done.result()


def create_all(clients: Clients, minutes: float, begin: float) -> list[threading.Thread]:
    """Starts creators that spread the jobs over the time of the faults."""
    left = collections.deque(enumerate(clients.jobs))

    def create() -> None:
        while not clients.over.is_set():
            try:
                number, job = left.popleft()
            except IndexError:
                return
            clients.over.wait(max(0.0, begin + 60 * minutes * number / len(clients.jobs) - time.monotonic()))
            clients.create(job)

    threads = [threading.Thread(target=create, daemon=True) for _ in range(CREATORS)]
    for thread in threads:
        thread.start()
    return threads


def await_all(threads: list[threading.Thread], until: float) -> bool:
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


class Findings:
    """Compares what is stored after the faults with what clients saw and what they asked for."""

    def __init__(self, service: Service, clients: Clients, expected: dict[str, dict[str, str]]) -> None:
        self.service, self.clients, self.expected = service, clients, expected
        self.wrong = list(clients.wrong)
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.attempts = self.resumed = self.events = self.views = 0
        self.videos: list[tuple[Job, Any]] = []
        self.left: list[int] = []  # objects that no record names, at each look

    def await_ends(self, until: float) -> None:
        """Waits until every frontend answers and lists all jobs as ended."""
        waits = dict.fromkeys(range(len(self.service.stubs)), "")
        while waits and time.monotonic() < until:
            time.sleep(0.5)
            for number in list(waits):
                try:
                    open_jobs = [video.id for video in self.service.jobs(self.service.stubs[number]) if self._state(video) not in TERMINAL]
                    waits[number] = f"lists as not ended: {open_jobs}"
                except grpc.RpcError as error:
                    waits[number], open_jobs = f"does not answer: {error.details()}", None
                if open_jobs == []:
                    del waits[number]
        self.wrong += [f"frontend {number} {why}" for number, why in waits.items()]

    def _state(self, video: Any) -> str:
        return self.service.kinora.messages.Video.State.Name(video.state)

    def _reason(self, video: Any) -> str:
        from google.rpc import error_details_pb2

        info = error_details_pb2.ErrorInfo()
        return next((info.reason for detail in video.error.details if detail.Unpack(info)), "") if video.HasField("error") else ""

    def check(self) -> None:
        listed = [self.service.jobs(stub) for stub in self.service.stubs]
        for number, videos in enumerate(listed):
            requests = collections.Counter(video.request_id for video in videos)
            if requests != {f"job {job.number}": 1 for job in self.clients.jobs}:
                odd = sorted((set(f"job {job.number}" for job in self.clients.jobs) ^ set(requests)) |
                             {name for name, times in requests.items() if times > 1})
                self.wrong.append(f"frontend {number} lists {len(videos)} jobs; none or several of {odd}")
        videos = {video.id: video for video in listed[0]}
        for job in self.clients.jobs:
            if job.id in videos:
                self.videos.append((job, videos[job.id]))
                try:
                    self._check_job(job, videos[job.id])
                except grpc.RpcError as error:
                    self.wrong.append(f"job {job.number} ({job.id}): a call after the faults failed: {error.code()} {error.details()}")
            else:
                self.wrong.append(f"job {job.number} was acknowledged as {job.id or 'nothing'} and is not there")

    def _check_job(self, job: Job, video: Any) -> None:
        state, reason = self._state(video), self._reason(video)
        self.outcomes[f"{state} {reason}".strip()] += 1
        self.attempts += video.attempt
        self.resumed += bool(video.resolved.resumed_from_stage)
        wrong = list(wrong_result(video, state, reason, self.expected[job.variant]))
        if state in TERMINAL:
            stored = [self.service.events(stub, job.id) for stub in self.service.stubs]
            self.events += len(stored[0])
            wrong += wrong_history(stored[0])
            wrong += [f"frontend {number} has other events: {events}" for number, events in enumerate(stored) if events != stored[0]]
            for watcher, seen in enumerate(self.clients.seen):
                if job.id in seen:
                    self.views += 1
                    wrong += [f"watcher {watcher}: {what}" for what in wrong_view(seen[job.id], stored[0])]
        if state == "COMPLETED":
            stub = self.service.stubs[job.number % len(self.service.stubs)]
            for artifact, digest in self.expected[job.variant].items():
                if self.service.download(stub, job.id, artifact) != digest:
                    wrong.append(f"the download of {artifact} has other bytes")
        self.wrong += [f"job {job.number} ({job.variant}, {job.id}): {what}" for what in wrong]

    def check_bucket(self, cluster: Cluster) -> None:
        """Starts the frontends again, which then remove what lost attempts have left, and waits until nothing else is there."""
        named = {f"{job.id}/{video.attempt}/{artifact.id}" for job, video in self.videos for artifact in video.artifacts}

        def look() -> set[str]:
            there = {key for key in cluster.bucket.keys() if not key.startswith("inputs/")}
            self.left.append(len(there - named))
            return there

        look()
        self.wrong += [f"{frontend.kept.name} ended with {status} after SIGTERM" for frontend in cluster.frontends
                       if (status := frontend.kept.terminate()) != 0]
        until = time.monotonic() + PATIENCE
        while (there := look()) != named and time.monotonic() < until:
            time.sleep(0.5)
        if there != named:
            self.wrong.append(f"objects without a record: {sorted(there - named)}; records without an object: {sorted(named - there)}")


def print_figures(cluster: Cluster, clients: Clients, findings: Findings, planned: list[Fault]) -> None:
    kinds = collections.Counter(fault.kind for fault in planned)
    print(f"faults: {len(planned)}: " + ", ".join(f"{kind.replace('_', ' ')} {times}" for kind, times in sorted(kinds.items())))
    print(f"jobs: {dict(findings.outcomes)}; attempts: {findings.attempts}, resumed: {findings.resumed}; stored events: {findings.events}")
    print(f"watchers: {len(clients.seen)}, which watched {findings.views} times in {clients.moves} streams")
    print(f"calls repeated after: {dict(sorted(clients.codes.items()))}; answers to repeated requests: {clients.replayed}")
    for kept in (*cluster.kept(), cluster.database.server):
        print(f"{kept.name}: exits {dict(collections.Counter(kept.statuses))}")
    print(f"requests to the bucket: {len(cluster.bucket.requests())}; objects of lost attempts: {findings.left[0]} before the frontends "
          f"were started again, {findings.left[-1]} behind", flush=True)


def run(arguments: argparse.Namespace, folder: Path) -> list[str]:
    """Returns what went wrong."""
    begin = time.monotonic()
    programs, minutes = arguments.build / "bin", arguments.minutes
    package = load_package(folder)
    chance = random.Random(f"{arguments.seed} homes")
    planned = schedule(arguments.seed, minutes)
    with Cluster(programs, folder, arguments.frontends, arguments.groups, chance) as cluster:
        expected = undisturbed(package, programs, folder)
        service = Service(package, [f"127.0.0.1:{frontend.clients.port}" for frontend in cluster.frontends])
        jobs = [Job(number, list(VARIANTS)[number % len(VARIANTS)]) for number in range(arguments.jobs)]
        clients = Clients(service, jobs, arguments.seed)
        start = time.monotonic()
        print(f"{start - begin:.0f} s until the first fault", flush=True)
        threads = create_all(clients, minutes, start) + clients.start(arguments.watchers, max(1, arguments.watchers // WATCHES))
        faults = Faults(cluster, minutes)
        strike_all(faults, planned, start)
        cluster.calm()
        end = time.monotonic()
        until = end + PATIENCE
        ended = await_all(threads, until)
        clients.over.set()
        direct = Service(package, [frontend.address for frontend in cluster.frontends])
        findings = Findings(direct, clients, expected)
        findings.await_ends(until)
        print(f"{end - start:.0f} s of faults, {time.monotonic() - end:.1f} s until the last job and watch had ended", flush=True)
        findings.check()
        if not ended:
            findings.wrong.append(f"creators or watchers were not done {PATIENCE:.0f} s after the last fault")
        findings.check_bucket(cluster)
        service.close()
        direct.close()
        print_figures(cluster, clients, findings, planned)
        wrong = faults.wrong + findings.wrong + cluster.wrong_exits() + cluster.close_frontends()
    print(f"{time.monotonic() - begin:.0f} s in all")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--frontends", type=int, default=3)
    parser.add_argument("--groups", type=int, default=4, help="the first has two ranks, the others one")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--watchers", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10, help="of faults")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="kinora-faults-"))
    try:
        wrong = run(arguments, folder)
    except unittest.SkipTest as skip:
        print(f"SKIPPED: {skip}")
        return harness.SKIPPED
    for what in wrong:
        print(f"WRONG: {what}", file=sys.stderr)
    if wrong:
        print(f"logs: {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
