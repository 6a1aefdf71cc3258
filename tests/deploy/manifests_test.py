#!/usr/bin/env python3
"""What deploy/kubernetes names is what the programs have: flags, fields, ports, groups, graces; and what it promises is in it: who
reaches which port, what a container may."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import manifests
import harness
import pods

SERVED = [name for name in manifests.OVERLAYS if name.startswith("overlays/")]
FRONTEND = {"app.kubernetes.io/name": "kinora", "app.kubernetes.io/component": "frontend"}
ALERTS = harness.ROOT / "deploy" / "prometheus" / "alerts.yaml"
RULES = manifests.MANIFESTS / "components" / "monitoring" / "rules.yaml"
WORKER = {"app.kubernetes.io/name": "kinora", "app.kubernetes.io/component": "worker"}


def containers(objects: list[dict]) -> list[dict]:
    return [c for _, t in manifests.pod_templates(objects) for c in t["spec"]["containers"]]


def help_of(program: str) -> str:
    return subprocess.run([manifests.program(program), "--help"], capture_output=True, text=True, check=True).stdout


def config(objects: list[dict], program: str) -> str:
    [text] = [m["data"][f"{program}.textproto"] for m in objects if f"{program}.textproto" in m.get("data", {})]
    return text


def groups(objects: list[dict]) -> dict[str, int]:
    return {m[1]: int(m[2]) for m in re.finditer(r'^groups \{ id: "(\S+)" processes: (\d+) outside: true \}', config(objects, "frontend"), re.M)}


def rules_of(alerts: str) -> str:
    """Of alerts.yaml the operator's object; kustomize reads no file above its own folder."""
    groups = alerts[alerts.index("groups:"):]
    head = RULES.read_text().split("spec:\n")[0]
    return f"{head}spec:\n" + "".join(f"  {line}\n" for line in groups.splitlines())


class Programs(unittest.TestCase):
    def test_every_flag_is_the_programs(self) -> None:
        for name in manifests.OVERLAYS:
            for container in containers(manifests.overlay(name)):
                program = container["command"][0]
                if program == "bash":  # start-ranks passes its arguments on
                    program = "kinora-worker"
                for argument in container["args"]:
                    with self.subTest(overlay=name, argument=argument):
                        self.assertRegex(help_of(program), rf"\n  {argument.split('=')[0]}\b")
        script = (manifests.MANIFESTS / "components/ranks/start-ranks").read_text()
        for flag in re.findall(r"(--[a-z-]+)=", script):
            self.assertRegex(help_of("kinora-worker"), rf"\n  {flag}\b")

    def test_every_configuration_is_valid(self) -> None:
        tiny = harness.ROOT / "models" / "tiny"
        with tempfile.TemporaryDirectory() as folder:
            secrets = {"kinora-tls": pods.make_tls(Path(folder) / "tls"), "kinora-tokens": pods.make_tokens()}
            for name in SERVED:
                objects = manifests.overlay(name)
                if "--model-description" in str(objects):
                    description = {"model.textproto": pods.describe(tiny)}
                    objects = [*objects, {"kind": "ConfigMap", "metadata": {"name": "kinora-models"}, "data": description}]
                cluster = pods.Cluster(Path(folder) / name, objects, secrets)
                for component in ("frontend", "worker"):
                    pod = pods.Container(cluster, manifests.of_component(objects, component), component, {"GROUP_INDEX": "0"})
                    flags = [w for w in pod.command if w.startswith("--")] + ["--check-config"]
                    if component == "worker":
                        flags += [*pods.model_flags(tiny), f"--world-size={groups(objects)['kinora-worker-0']}"]
                    done = subprocess.run([manifests.program(f"kinora-{component}"), *flags], capture_output=True, text=True)
                    with self.subTest(overlay=name, component=component):
                        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_ports_are_those_of_the_configuration(self) -> None:
        for name in SERVED:
            objects = manifests.overlay(name)
            ports = {p["name"]: p["containerPort"] for p in manifests.of_component(objects, "frontend")["spec"]["containers"][0]["ports"]}
            text = config(objects, "frontend")
            for field, port in (("address", "api"), ("join_address", "join"), ("http_address", "http")):
                self.assertIn(f'\n{field}: "0.0.0.0:{ports[port]}"', "\n" + text)
            self.assertIn(f'frontend: "kinora-frontend:{ports["join"]}"', config(objects, "worker"))
            for service in (o for o in objects if o["kind"] == "Service"):
                for port in service["spec"]["ports"]:
                    self.assertEqual(port["port"], ports[port["targetPort"]])

    def test_every_group_that_may_join_is_awaited_and_its_mesh_has_its_size(self) -> None:
        for name in SERVED:
            objects, awaited = manifests.overlay(name), groups(manifests.overlay(name))
            [owner] = [o for o, t in manifests.pod_templates(objects) if t["metadata"]["labels"]["app.kubernetes.io/component"] == "worker"]
            most = [o["spec"]["maxReplicaCount"] for o in objects if o["kind"] == "ScaledObject"] or [owner["spec"].get("replicas", 1)]
            with self.subTest(overlay=name):
                self.assertLessEqual({f"{owner['metadata']['name']}-{i}" for i in range(most[0])}, awaited.keys())
                container = manifests.of_component(objects, "worker")["spec"]["containers"][0]
                ranks = int(next((e["value"] for e in container.get("env", []) if e["name"] == "RANKS_PER_POD"), 1))
                ranks *= owner["spec"].get("leaderWorkerTemplate", {}).get("size", 1)
                mesh = re.search(r'^ranks: "([^"]*)"', config(objects, "worker"), re.M)
                product = 1
                for axis in mesh[1].split(",") if mesh else []:
                    product *= int(axis.split("=")[1])
                self.assertEqual({ranks, product}, set(awaited.values()))

    def test_a_pod_is_killed_only_after_its_graces(self) -> None:
        drain = float(re.search(r"--drain-grace-seconds.*?\[(\d+)\]", help_of("kinora-frontend"), re.S)[1])
        for name in SERVED:
            objects = manifests.overlay(name)
            for component in ("frontend", "worker"):
                spec = manifests.of_component(objects, component)["spec"]
                before = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
                self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], before + drain + 10)
                self.assertNotIn("drain_grace_seconds", config(objects, "frontend"))


class Promises(unittest.TestCase):
    def test_containers_are_restricted(self) -> None:
        for name in manifests.OVERLAYS:
            for o, template in manifests.pod_templates(manifests.overlay(name)):
                with self.subTest(overlay=name, pod=o["metadata"]["name"]):
                    pod = template["spec"]
                    self.assertEqual((pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]), (True, 10001))
                    self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                    self.assertIs(pod["automountServiceAccountToken"], False)
                    for container in pod["containers"]:
                        self.assertEqual(container["securityContext"], {
                            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})
                        self.assertRegex(container["image"], r"^kinora/[a-z-]+:[\w.]+$")  # no registry of ours
                    self.assertLessEqual({k for v in pod["volumes"] for k in v} - {"name"},
                                         {"configMap", "secret", "emptyDir", "persistentVolumeClaim"})

    def test_only_workers_join_and_only_prometheus_reads_metrics(self) -> None:
        prometheus = ("monitoring", {"app.kubernetes.io/name": "prometheus"})
        anybody = ("kinora", {"app": "something"})
        for name in SERVED:
            policies = [o["spec"] for o in manifests.overlay(name) if o["kind"] == "NetworkPolicy"]
            for port, to, who, reaches in [
                    ("join", FRONTEND, ("kinora", WORKER), True), ("join", FRONTEND, anybody, False), ("join", FRONTEND, prometheus, False),
                    ("join", FRONTEND, ("other", WORKER), False), ("http", FRONTEND, prometheus, True), ("http", FRONTEND, anybody, False),
                    ("http", FRONTEND, ("kinora", WORKER), False), ("http", FRONTEND, ("other", prometheus[1]), False),
                    ("api", FRONTEND, anybody, True), ("http", WORKER, prometheus, True), ("http", WORKER, anybody, False),
                    (40000, WORKER, ("kinora", WORKER), name == "overlays/multi-host"), (40000, WORKER, anybody, False)]:
                with self.subTest(overlay=name, port=port, who=who):
                    self.assertEqual(any(allows(p, to, port, who) for p in policies), reaches)
            for of in (FRONTEND, WORKER):  # what no policy selects is open to all
                self.assertTrue(any(p["podSelector"]["matchLabels"] == of and "Ingress" in p["policyTypes"] for p in policies))

    def test_prometheus_reads_every_rank_under_the_jobs_that_the_alerts_match(self) -> None:
        prometheus = ("monitoring", {"app.kubernetes.io/name": "prometheus"})
        monitoring = manifests.render(Path(__file__).parent / "all-components")
        endpoints = manifests.get(monitoring, "PodMonitor", "kinora-worker")["spec"]["podMetricsEndpoints"]
        for endpoint in endpoints:  # or the operator says namespace/name
            self.assertEqual(endpoint["relabelings"], [{"targetLabel": "job", "replacement": "kinora-worker"}])
        [page] = manifests.get(monitoring, "ServiceMonitor", "kinora-frontend")["spec"]["endpoints"]
        services = [s for s in monitoring if s["kind"] == "Service" and page["port"] in [p["name"] for p in s["spec"]["ports"]]]
        jobs = ["kinora-worker", *[s["metadata"]["name"] for s in services]]  # a ServiceMonitor's is that of the Service
        self.assertEqual(jobs, ["kinora-worker", "kinora-frontend"])
        for wanted in re.findall(r'job=~"([^"]*)"', ALERTS.read_text()):
            for job in jobs:
                self.assertRegex(job, f"^(?:{wanted})$")
        for name in SERVED:
            objects = manifests.overlay(name)
            policies = [o["spec"] for o in objects if o["kind"] == "NetworkPolicy"]
            container = manifests.of_component(objects, "worker")["spec"]["containers"][0]
            ranks = int(next((e["value"] for e in container.get("env", []) if e["name"] == "RANKS_PER_POD"), 1))
            self.assertEqual([p["containerPort"] for p in container["ports"]], [8481 + rank for rank in range(ranks)])
            for port in container["ports"]:
                with self.subTest(overlay=name, port=port["name"]):
                    self.assertIn(port["name"], [e["port"] for e in endpoints])
                    self.assertTrue(any(allows(p, WORKER, port["name"], prometheus) for p in policies))

    def test_the_operators_rules_are_the_alerts(self) -> None:
        self.assertEqual(RULES.read_text(), rules_of(ALERTS.read_text()))

    def test_who_has_a_device_has_the_image_for_it(self) -> None:
        for name in manifests.OVERLAYS:
            for container in containers(manifests.overlay(name)):
                has_device = "nvidia.com/gpu" in container["resources"]["limits"]
                with self.subTest(overlay=name, container=container["name"]):
                    self.assertEqual(container["image"].startswith("kinora/worker-cuda:"), has_device)

    def test_one_frontend_and_a_budget_for_each(self) -> None:
        for name in SERVED:
            objects = manifests.overlay(name)
            self.assertEqual(manifests.get(objects, "StatefulSet", "kinora-frontend")["spec"]["replicas"], 1)
            for pdb, of in (("kinora-frontend", FRONTEND), ("kinora-worker", WORKER)):
                budget = manifests.get(objects, "PodDisruptionBudget", pdb)["spec"]
                self.assertEqual((budget["maxUnavailable"], budget["selector"]["matchLabels"]), (1, of))
            for of, template in (("frontend", FRONTEND), ("worker", WORKER)):
                labels = manifests.of_component(objects, of)["metadata"]["labels"]
                self.assertLessEqual(template.items(), labels.items())


def allows(policy: dict, to: dict, port: object, who: tuple[str, dict]) -> bool:
    namespace, labels = who
    if policy["podSelector"]["matchLabels"] != to:
        return False
    for rule in policy["ingress"]:
        if "ports" in rule and port not in [p["port"] for p in rule["ports"]]:
            continue
        if "from" not in rule:
            return True
        for peer in rule["from"]:
            wanted = peer.get("namespaceSelector", {}).get("matchLabels", {"kubernetes.io/metadata.name": "kinora"})
            here = wanted == {"kubernetes.io/metadata.name": namespace}
            if here and peer["podSelector"]["matchLabels"].items() <= labels.items():
                return True
    return False


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        RULES.write_text(rules_of(ALERTS.read_text()))
        sys.exit()
    harness.main(programs=["openssl"], folders=[str(manifests.KUBECTL), str(manifests.CHECKS)])
