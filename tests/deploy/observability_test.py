#!/usr/bin/env python3
"""Tests deploy/grafana and deploy/prometheus: Debian's Prometheus reads a frontend, a gateway and a worker of two ranks that
have run jobs with every outcome. Every expression of the dashboard and every alert's metric has series, the dashboard shows
the values that a run itself reports, and alerts are silent on a healthy run and fire otherwise.

    python3 tests/deploy/observability_test.py --build build/release

Needs prometheus and promtool (Debian: prometheus), and PostgreSQL (Debian: postgresql-15).
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))
import database  # noqa: E402
import harness  # noqa: E402
import s3  # noqa: E402
from gateway_test import Gateway, call  # noqa: E402

ROOT = harness.ROOT
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
ALERT_CASES = ROOT / "tests" / "deploy" / "alerts_test.yaml"
SGLANG = ROOT / "deploy" / "prometheus" / "sglang.yaml"
SGLANG_CASES = ROOT / "tests" / "deploy" / "sglang_test.yaml"
# Each of SGLang's names and labels that the rules record, and what it must equal.
AS_SGLANG = {
    'diffusion_num_queue_reqs{role="monolithic"}': "sum(kinora_queue_depth)",
    'diffusion_num_running_reqs{role="monolithic"}': "kinora_jobs_running",
    'diffusion_requests_total{status="success", is_warmup="false"}': 'sum(kinora_requests_total{code="OK"})',
    'diffusion_request_latency_seconds_count{status="success", is_warmup="false"}': "sum(kinora_request_duration_seconds_count)",
    'diffusion_request_latency_seconds_sum{status="success", is_warmup="false"}': "sum(kinora_request_duration_seconds_sum)",
    'diffusion_request_latency_seconds_bucket{le="+Inf"}': "sum(kinora_request_duration_seconds_count)",
    'diffusion_queue_time_seconds_count{is_warmup="false"}': "kinora_queue_wait_seconds_count",
    'diffusion_queue_time_seconds_sum{is_warmup="false"}': "kinora_queue_wait_seconds_sum",
    'diffusion_queue_time_seconds_bucket{le="+Inf"}': "kinora_queue_wait_seconds_count",
    'diffusion_stage_host_latency_seconds_count{stage="denoise"}': 'kinora_stage_duration_seconds_count{stage="denoise"}',
    'diffusion_stage_host_latency_seconds_sum{stage="decode_video"}': 'kinora_stage_duration_seconds_sum{stage="decode_video"}',
    'diffusion_stage_host_latency_seconds_bucket{stage="DenoisingStep", le="+Inf"}': "sum(kinora_denoise_step_seconds_count)",
    'diffusion_stage_host_latency_seconds_count{stage="DenoisingStep"}': "sum(kinora_denoise_step_seconds_count)",
}
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "kinora.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PATIENCE = 60  # seconds, on a busy machine
STEPS = 60
COLLECTIVES = ["all_reduce_sum", "all_gather", "all_to_all", "broadcast", "gather_to"]


def alerts() -> list[dict[str, str]]:
    """Returns each alert's name, expression and runbook. `promtool check rules` accepts the file."""
    found = []
    for block in re.split(r"\n      - alert: ", ALERTS.read_text())[1:]:
        expression = re.search(r"expr: (?:>-\n)?(.*?)\n        (?:for|labels):", block, re.DOTALL).group(1)
        found.append({"name": block.split("\n")[0], "expression": " ".join(expression.split()),
                      "runbook": re.search(r"runbook: (\S+)", block).group(1)})
    return found


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
        return reply.read()


def await_(what: str, condition) -> None:
    begin = time.monotonic()
    while not condition():
        if time.monotonic() > begin + PATIENCE:
            raise AssertionError(f"waited {PATIENCE} s for {what}")
        threading.Event().wait(0.05)


class Prometheus:
    def __init__(self, folder: Path, pages: dict[str, int]):
        self.port = harness.free_port()
        self._pages = pages
        jobs = [f'  - {{job_name: {job}, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}' for job, port in pages.items()]
        config = folder / "prometheus.yml"
        config.write_text("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
                          f"rule_files: [{ALERTS}, {SGLANG}]\nscrape_configs:\n" + "\n".join(jobs) + "\n")
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{self.port}"], stderr=subprocess.DEVNULL)
        await_("Prometheus", self._ready)

    def _ready(self) -> bool:
        try:
            return bool(get(f"http://127.0.0.1:{self.port}/-/ready"))
        except OSError:
            return False

    def _api(self, path: str, **parameters: object) -> dict:
        query = urllib.parse.urlencode(parameters)
        return json.loads(get(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}"))["data"]

    def query(self, expression: str, at: float | None = None) -> list[dict]:
        return self._api("query", query=expression, time=at or time.time())["result"]

    def value(self, expression: str, at: float) -> float:
        return sum(float(series["value"][1]) for series in self.query(expression, at))

    def range(self, expression: str, begin: float, end: float) -> list[dict]:
        return self._api("query_range", query=expression, start=begin, end=end, step=1)["result"]

    def alerts(self) -> list[dict]:
        return self._api("alerts")["alerts"]

    def await_scrape(self) -> float:
        """Waits until every page has been scraped after this call. Returns the time."""
        now = time.time()
        await_("a scrape", lambda: len(self.query(f"timestamp(up) > {now} and up == 1")) == len(self._pages))
        return time.time()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


class Observability(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = Path(cls.temporary.name)
        cls.pages = {"kinora-frontend": harness.free_port(), "kinora-worker": harness.free_port()}
        bucket = cls.enterClassContext(s3.Server())
        store = cls.enterClassContext(database.Server())
        cls.enterClassContext(mock.patch.dict(os.environ, {**bucket.environment, "PGPASSWORD": database.PASSWORD}))
        cls.frontend = harness.Frontend(cls.folder, flags=[*bucket.flags, f"--store={store.url}",
            f"--http-address=127.0.0.1:{cls.pages['kinora-frontend']}",
            f"--worker-http-address=127.0.0.1:{cls.pages['kinora-worker']}", "--worker-model-id=tiny",
            "--worker-ranks=tokens=2", "--worker-threads=2", "--worker-precision=f32"])
        cls.frontend.start()
        cls.addClassCleanup(cls.frontend.stop)
        cls.frontend.await_ready()
        gateway = cls.enterClassContext(Gateway(cls.frontend.address))
        cls.pages["kinora-gateway"] = gateway.port
        for path in ("/v1/models", "/nonsense"):  # a series for each route and status
            call(gateway.port, "GET", path)
        call(gateway.port, "GET", "/v1/models", Host="other.example")  # rejected
        cls.prometheus = Prometheus(cls.folder, cls.pages)
        cls.addClassCleanup(cls.prometheus.stop)
        cls.run_healthy()
        cls.run_others()

    @classmethod
    def kinora(cls, *arguments: str, status: int = 0) -> str:
        done = subprocess.run([str(harness.BUILD / "bin" / "kinora"), *arguments, f"--server={cls.frontend.address}"],
                              capture_output=True, text=True)
        if done.returncode != status:
            raise AssertionError(f"{arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    SHAPE = ["--width=64", "--height=64", "--frames=9", "--recipe=ONE_STAGE"]
    LONG = ["--width=256", "--height=256", "--frames=121", "--recipe=ONE_STAGE", "--steps=999"]  # takes hours

    @classmethod
    def run_healthy(cls) -> None:
        """Makes one clip and records Prometheus' state before and after."""
        cls.begin = cls.prometheus.await_scrape()
        answer = cls.kinora("generate", "a red fox", *cls.SHAPE, f"--steps={STEPS}", "--trace", "--json", "--quiet",
                            f"--output={cls.folder / 'fox.mp4'}")
        cls.video = json.loads(answer.splitlines()[-1])["video"]
        cls.end = cls.prometheus.await_scrape()
        cls.trace = json.loads(next(cls.folder.rglob("*trace.json")).read_text())["traceEvents"]
        cls.recorded = cls.prometheus.range('{job=~"kinora-.*", __name__!~"ALERTS.*"}', cls.begin, cls.end)
        cls.healthy_alerts = cls.prometheus.alerts()

    @classmethod
    def run_others(cls) -> None:
        """Runs jobs with the other outcomes: failed, cancelled while running, rejected."""
        damaged = cls.folder / "damaged.png"
        damaged.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
        cls.kinora("generate", "late", *cls.SHAPE, f"--image={damaged}", "-o", str(cls.folder / "x.mp4"), status=3)
        cls.kinora("create", "x", "--width=63", status=2)
        long = cls.kinora("create", "long", *cls.LONG).strip()
        await_("a run", lambda: '"RUNNING"' in cls.kinora("get", long, "--json"))
        waiting = cls.kinora("create", "waiting", *cls.SHAPE).strip()
        cls.kinora("cancel", waiting, "--wait")
        cls.kinora("cancel", long, "--wait")
        call(cls.pages["kinora-gateway"], "GET", "/v1/models")  # so that the time of requests has a rate
        states = [json.loads(line)["state"] for line in cls.kinora("list", "--json").splitlines()]
        assert sorted(states) == ["CANCELLED", "CANCELLED", "COMPLETED", "FAILED"], states
        cls.prometheus.await_scrape()
        cls.prometheus.await_scrape()

    def growth(self, series: str) -> float:
        """Returns the growth between the scrapes before and after the healthy run."""
        return self.prometheus.value(series, self.end) - self.prometheus.value(series, self.begin)

    def shown(self, panel: int) -> float:
        """Returns the value of the panel's first expression after the healthy run."""
        expression = next(p for p in PANELS if p["id"] == panel)["targets"][0]["expr"]
        return self.prometheus.value(expression.replace("$__rate_interval", "10m"), self.end)

    def test_every_panels_expression_has_series(self) -> None:
        for panel in PANELS:
            for target in panel["targets"]:
                with self.subTest(panel=panel["title"], expression=target["expr"]):
                    result = self.prometheus.query(target["expr"].replace("$__rate_interval", "10m"))
                    self.assertTrue([s for s in result if math.isfinite(float(s["value"][1]))], result)

    def test_every_alerts_measure_has_series(self) -> None:
        for alert in alerts():
            with self.subTest(alert=alert["name"]):
                measure = re.fullmatch(r"(.*) (?:<|>) [0-9.]+", alert["expression"])
                self.assertIsNotNone(measure, "a measure, a comparison, a number")
                self.assertTrue(self.prometheus.query(measure.group(1)), measure.group(1))

    def test_every_alert_has_a_runbook(self) -> None:
        known = anchors(ROOT / "docs/monitoring.md")
        for alert in alerts():
            page, anchor = alert["runbook"].split("#")
            self.assertEqual(page, "docs/monitoring.md")
            self.assertIn(anchor, known, alert["name"])

    def test_no_alert_fires_on_a_healthy_run(self) -> None:
        self.assertEqual([a for a in self.healthy_alerts if a["state"] == "firing"], [])
        interval, length = 15, 480
        series = []
        for recorded in self.recorded:
            labels = dict(recorded["metric"])
            name = labels.pop("__name__")
            text = name + "{" + ", ".join(f"{k}={json.dumps(v)}" for k, v in labels.items()) + "}"
            values = [value for _, value in recorded["values"]]
            series.append({"series": text, "values": " ".join(values) + f" {values[-1]}+0x{length}"})
        self.assertGreater(len(series), 100)
        checks = [{"eval_time": when, "alertname": alert["name"], "exp_alerts": []}
                  for alert in alerts() for when in ("5m", "20m", "1h", "2h")]
        cases = self.folder / "healthy.yaml"  # JSON is valid YAML
        cases.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [
            {"interval": f"{interval}s", "input_series": series, "alert_rule_test": checks}]}))
        self.promtool("test", "rules", str(cases))

    def test_every_code_that_an_alert_names_is_begun(self) -> None:
        [codes] = re.findall(r'code=~"([A-Z_|]+)"', ALERTS.read_text())
        begun = {series["metric"].get("code") for series in self.prometheus.query('kinora_requests_total{model="tiny"}', self.begin)}
        self.assertLessEqual(set(codes.split("|")), begun)

    def test_each_alert_fires(self) -> None:
        cases = ALERT_CASES.read_text()
        for alert in alerts():
            fires = re.search(rf"alertname: {alert['name']}\n\s+exp_alerts:\n\s+- ", cases)
            self.assertIsNotNone(fires, f"{alert['name']} fires in no case of {ALERT_CASES}")
        self.promtool("test", "rules", str(ALERT_CASES))

    def test_metrics_under_sglangs_names_have_their_values(self) -> None:
        recorded = set(re.findall(r"record: sglang:(\w+)", SGLANG.read_text()))
        tested = {name.split("{")[0] for name in AS_SGLANG}
        self.assertEqual(tested, recorded)
        self.prometheus.await_scrape()  # rules are evaluated as often
        now = self.prometheus.await_scrape()
        for name, source in AS_SGLANG.items():
            with self.subTest(name=name):
                found = self.prometheus.query(f"sglang:{name}", now)
                self.assertEqual(len(found), 1, found)
                self.assertEqual(found[0]["metric"]["replica"], found[0]["metric"]["instance"])
                self.assertEqual(float(found[0]["value"][1]), self.prometheus.value(source, now))
        self.promtool("test", "rules", str(SGLANG_CASES))
        manual = (ROOT / "docs/monitoring.md").read_text()
        for name in recorded:
            self.assertIn("`sglang:" + re.sub("_(bucket|sum|count)$", "", name), manual)

    def promtool(self, *arguments: str, text: str | None = None) -> str:
        done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_promtool_has_nothing_to_say_of_rules_and_pages(self) -> None:
        self.promtool("check", "rules", str(ALERTS), str(SGLANG))
        for job, port in self.pages.items():
            page = get(f"http://127.0.0.1:{port}/metrics").decode()
            self.assertEqual(self.promtool("check", "metrics", text=page), "", job)
            names = re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)
            self.assertEqual(names, sorted(names))

    def test_every_metric_is_documented(self) -> None:
        manual = (ROOT / "docs/monitoring.md").read_text()
        for port in self.pages.values():
            page = get(f"http://127.0.0.1:{port}/metrics").decode()
            for name in re.findall(r"^# TYPE (\S+)", page, re.MULTILINE):
                self.assertRegex(manual, rf"`{name}[`{{]")

    def assertAgree(self, shown: float, reported: float, what: str) -> None:
        """The values must be the same numbers, added up."""
        self.assertGreater(reported, 0, what)
        self.assertAlmostEqual(shown, reported, delta=1e-6 * reported, msg=what)

    def test_steps_are_what_the_run_reports(self) -> None:
        count, seconds = (self.growth(f"kinora_denoise_step_seconds_{of}") for of in ("count", "sum"))
        self.assertEqual(count, STEPS)
        self.assertGreater(seconds, 0)
        self.assertLessEqual(seconds, self.video["usage"]["stage_seconds"]["denoise"])  # ends after its last step
        self.assertAgree(self.shown(21), seconds / STEPS, "a step")

    def test_stages_are_what_the_run_reports(self) -> None:
        for stage, seconds in self.video["usage"]["stage_seconds"].items():
            self.assertAgree(self.growth(f'kinora_stage_duration_seconds_sum{{stage="{stage}"}}'), seconds, stage)

    def test_collectives_are_what_the_run_traces(self) -> None:
        for op in COLLECTIVES:
            calls = [event for event in self.trace if event.get("cat") == "op" and event["name"] == op]
            with self.subTest(op=op):
                self.assertEqual(self.growth(f'kinora_collective_seconds_count{{op="{op}"}}'), len(calls))
                self.assertGreaterEqual(self.growth(f'kinora_collective_seconds_sum{{op="{op}"}}'),
                                        self.growth(f'kinora_collective_wait_seconds_sum{{op="{op}"}}'))
        waits = [event["dur"] / 1e6 for event in self.trace if event.get("cat") == "wait"]
        self.assertEqual(self.growth("kinora_collective_wait_seconds_count"), len(waits))
        waited = self.growth("kinora_collective_wait_seconds_sum")
        self.assertGreater(waited, 0)
        self.assertAlmostEqual(waited, sum(waits), delta=1e-9 * len(waits))  # a trace has three digits of a microsecond
        skew = self.growth("kinora_rank_skew_seconds_sum")
        self.assertGreater(skew, 0)
        self.assertLessEqual(skew, waited + 1e-9)  # which also includes the waits between stages


class Dashboard(unittest.TestCase):
    def test_frontends_that_share_a_database_are_counted_once(self) -> None:
        """Two frontends of one service, and one of another, which has a namespace of its own."""
        values = {"kinora_queue_seconds": 600, "kinora_queue_depth": 3, "kinora_input_bytes": 1000, "kinora_jobs_running": 2}
        series, wanted = [], {"kinora_queue_seconds": 1200, "kinora_queue_depth": 6, "kinora_input_bytes": 2000, "kinora_jobs_running": 6}
        for name, value in values.items():
            for instance, namespace in (("f", "a"), ("g", "a"), ("h", "b")):
                labels = f'job="kinora-frontend", namespace="{namespace}", instance="{instance}", model="m", priority="0"'
                series.append({"series": f"{name}{{{labels}}}", "values": f"{value}x5"})
        checks = []
        for target in (target for panel in PANELS for target in panel["targets"]):
            names = set(re.findall(r"kinora_\w+", target["expr"]))
            if len(names) == 1 and names < wanted.keys():
                checks.append({"expr": f"sum({target['expr']})", "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": wanted[names.pop()]}]})
        self.assertEqual(len(checks), len(wanted))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cases.yaml"  # JSON is valid YAML
            file.write_text(json.dumps({"rule_files": [], "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}]}))
            done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_ids_are_unique_and_panels_do_not_overlap(self) -> None:
        ids = [panel["id"] for panel in DASHBOARD["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        cells: dict[tuple[int, int], str] = {}
        for panel in DASHBOARD["panels"]:
            grid = panel["gridPos"]
            self.assertLessEqual(grid["x"] + grid["w"], 24, panel["title"])
            for x in range(grid["x"], grid["x"] + grid["w"]):
                for y in range(grid["y"], grid["y"] + grid["h"]):
                    self.assertNotIn((x, y), cells, f"{panel['title']} lies on {cells.get((x, y))}")
                    cells[(x, y)] = panel["title"]

    def test_has_the_shape_that_grafana_reads(self) -> None:
        kinds = {"uid": str, "title": str, "schemaVersion": int, "version": int, "panels": list, "templating": dict,
                 "time": dict, "tags": list, "editable": bool, "annotations": dict, "refresh": str}
        for key, kind in kinds.items():
            self.assertIsInstance(DASHBOARD[key], kind, key)
        self.assertGreaterEqual(DASHBOARD["schemaVersion"], 36)
        names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
        titles = [panel["title"] for panel in PANELS]
        self.assertEqual(len(titles), len(set(titles)))
        for panel in PANELS:
            with self.subTest(panel=panel["title"]):
                self.assertEqual(panel["type"], "timeseries")
                for where in (panel, *panel["targets"]):
                    self.assertEqual(where["datasource"]["type"], "prometheus")
                    self.assertIn(where["datasource"]["uid"].strip("${}"), names)
                references = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(references), len(set(references)))
                self.assertIn("unit", panel["fieldConfig"]["defaults"])


if __name__ == "__main__":
    harness.main(programs=["prometheus", "promtool", "setpriv", str(database.PROGRAMS / "initdb")])
