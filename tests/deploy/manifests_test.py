#!/usr/bin/env python3
"""Flags, fields, ports, groups and grace periods in deploy/kubernetes must match the programs. The manifests must also
contain what they promise: who reaches which port, and what a container may do."""

import ipaddress
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import manifests
import harness
import pods
from gateway_test import Gateway, call

SERVED = [name for name in manifests.OVERLAYS if name.startswith("overlays/")]
SHARING = "overlays/frontends"  # the one with several frontends
HERE = Path(__file__).parent
FRONTEND = {"app.kubernetes.io/name": "kinora", "app.kubernetes.io/component": "frontend"}
PROMETHEUS = harness.ROOT / "deploy" / "prometheus"
ALERTS = PROMETHEUS / "alerts.yaml"
MONITORING = manifests.MANIFESTS / "components" / "monitoring"
RULES = {MONITORING / "rules.yaml": ALERTS, MONITORING / "sglang.yaml": PROMETHEUS / "sglang.yaml"}  # the operator's, and their sources
WORKER = {"app.kubernetes.io/name": "kinora", "app.kubernetes.io/component": "worker"}
GATEWAY = {"app.kubernetes.io/name": "kinora", "app.kubernetes.io/component": "gateway"}
GATEWAY_SOURCES = harness.ROOT / "server" / "gateway"
FOR_OPERATORS = {"/livez", "/readyz", "/metrics"}  # paths of the gateway that the Ingress does not publish
COMPONENTS = {"frontend": FRONTEND, "worker": WORKER, "gateway": GATEWAY}


def containers(objects: list[dict]) -> list[dict]:
    return [c for _, t in manifests.pod_templates(objects) for c in t["spec"]["containers"]]


def help_of(program: str) -> str:
    return subprocess.run([manifests.program(program), "--help"], capture_output=True, text=True, check=True).stdout


def config(objects: list[dict], program: str) -> str:
    [text] = [m["data"][f"{program}.textproto"] for m in objects if f"{program}.textproto" in m.get("data", {})]
    return text


def groups(objects: list[dict]) -> dict[str, int]:
    return {m[1]: int(m[2]) for m in re.finditer(r'^groups \{ id: "(\S+)" processes: (\d+) outside: true \}', config(objects, "frontend"), re.M)}


def rules_of(operators: Path, source: Path) -> str:
    """Returns the operator's object for a file of rules, which kustomize cannot read outside its own folder."""
    rules = source.read_text()
    groups = rules[rules.index("groups:"):]
    head = operators.read_text().split("spec:\n")[0]
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
            secrets = {"kinora-tls": pods.make_tls(Path(folder) / "tls"), "kinora-tokens": pods.make_tokens(),
                       "kinora-bucket": {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}}
            secrets["kinora-database"] = {"PGPASSWORD": "secret", "ca.crt": secrets["kinora-tls"]["ca.crt"]}
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
                    done = subprocess.run([manifests.program(f"kinora-{component}"), *flags], capture_output=True, text=True,
                                          env=manifests.environment(**pod.env))
                    with self.subTest(overlay=name, component=component):
                        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_ports_are_those_of_the_configuration(self) -> None:
        for name in SERVED:
            objects = manifests.overlay(name)
            ports = {p["name"]: p["containerPort"] for p in manifests.of_component(objects, "frontend")["spec"]["containers"][0]["ports"]}
            text = config(objects, "frontend")
            for field, port in (("address", "api"), ("join_address", "join"), ("http_address", "http")):
                self.assertIn(f'\n{field}: "0.0.0.0:{ports[port]}"', "\n" + text)
            args = manifests.of_component(objects, "frontend")["spec"]["containers"][0]["args"]
            peers = [f"--peer-address=0.0.0.0:{ports['peers']}", f"--advertise-peer-address=$(POD_IP):{ports['peers']}",
                     f"--advertise-join-address=$(POD_IP):{ports['join']}"] if name == SHARING else []
            self.assertEqual([a for a in args if re.match("--(advertise|peer)-[a-z-]*address=", a)], peers)
            self.assertIn(f'frontend: "kinora-frontend:{ports["join"]}"', config(objects, "worker"))
            gateway = manifests.of_component(objects, "gateway")["spec"]["containers"][0]
            ports |= {p["name"]: p["containerPort"] for p in gateway["ports"]}
            self.assertLessEqual({f"--address=0.0.0.0:{ports['web']}", f"--frontend=kinora:{ports['api']}"}, set(gateway["args"]))
            for service in (o for o in objects if o["kind"] == "Service"):
                for port in service["spec"]["ports"]:
                    self.assertEqual(port["port"], ports[port["targetPort"]])
                    self.assertNotEqual(port["port"], 8474)  # frontends dial each other by the pods' addresses

    def test_a_gateway_accepts_the_names_of_its_service_and_its_ingress(self) -> None:
        for objects in (*map(manifests.overlay, SERVED), manifests.render(HERE / "all-components")):
            service = manifests.get(objects, "Service", "kinora-gateway")["metadata"]
            names = {service["name"], f"{service['name']}.{service['namespace']}", f"{service['name']}.{service['namespace']}.svc"}
            for ingress in (o for o in objects if o["kind"] == "Ingress"):
                names |= {rule["host"] for rule in ingress["spec"]["rules"]}
                for path in (p for rule in ingress["spec"]["rules"] for p in rule["http"]["paths"]):
                    self.assertEqual(path["backend"]["service"], {"name": service["name"], "port": {"name": "web"}})
            args = manifests.of_component(objects, "gateway")["spec"]["containers"][0]["args"]
            self.assertEqual({a.removeprefix("--host=") for a in args if a.startswith("--host=")}, names)

    def test_the_ingress_publishes_the_api_and_the_page(self) -> None:
        ingress = manifests.get(manifests.render(HERE / "all-components"), "Ingress", "kinora")
        paths = [(p["path"], p["pathType"]) for rule in ingress["spec"]["rules"] for p in rule["http"]["paths"]]
        page = set(re.findall(r'"(/[\w.]*)"', (GATEWAY_SOURCES / "page_handler.cc").read_text()))
        api = set(json.loads((GATEWAY_SOURCES / "openapi.json").read_text())["paths"])
        self.assertLess(FOR_OPERATORS, api)
        for path in page | api:
            published = any(path == of if kind == "Exact" else path == of or path.startswith(f"{of}/") for of, kind in paths)
            self.assertEqual(published, path not in FOR_OPERATORS, path)
        with Gateway("127.0.0.1:1") as gateway:  # no frontend is needed for its own files
            for path in page | {path for path, kind in paths if kind == "Exact"}:
                self.assertIn(call(gateway.port, "GET", path).status, (200, 204), path)
            index = call(gateway.port, "GET", "/").body.decode()
        self.assertLessEqual(set(re.findall(r'(?:href|src)="(/[^"]*)"', index)), {path for path, _ in paths})

    def test_a_gateways_uploads_fit_its_scratch_volume(self) -> None:
        most = re.search(r"--max-scratch-bytes.*?default:\s+(\d+)GiB", help_of("kinora-gateway"), re.S)
        for name in SERVED:
            volumes = manifests.of_component(manifests.overlay(name), "gateway")["spec"]["volumes"]
            [size] = [v["emptyDir"]["sizeLimit"] for v in volumes if v["name"] == "scratch"]
            self.assertGreater(int(size.removesuffix("Gi")), int(most[1]))

    def test_a_frontends_files_fit_its_volume_until_they_are_in_the_bucket(self) -> None:
        help = help_of("kinora-frontend")
        uploads, bytes = (int(re.search(rf"--{flag} .*?default:\s+(\d+)", help, re.S)[1]) for flag in ("max-uploads", "max-input-bytes"))
        volumes = manifests.of_component(manifests.overlay(SHARING), "frontend")["spec"]["volumes"]
        [size] = [v["emptyDir"]["sizeLimit"] for v in volumes if v["name"] == "state"]
        self.assertGreater(int(size.removesuffix("Gi")) * 2**30, uploads * bytes)

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
        drain = float(re.search(r"--drain-grace-seconds.*?default:\s+(\d+)", help_of("kinora-frontend"), re.S)[1])
        for name in SERVED:
            objects = manifests.overlay(name)
            for component in ("frontend", "worker"):
                spec = manifests.of_component(objects, component)["spec"]
                before = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
                self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], before + drain + 10)
                self.assertNotIn("drain_grace_seconds", config(objects, "frontend"))
            gateway = manifests.of_component(objects, "gateway")["spec"]
            grace = float(re.search(r"--drain-grace .*?default:\s+(\d+)s", help_of("kinora-gateway"), re.S)[1])
            self.assertGreaterEqual(gateway["terminationGracePeriodSeconds"],
                                    gateway["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] + grace + 10)
            self.assertNotIn("--drain-grace", str(gateway["containers"][0]["args"]))


KUBECTL = """#!/bin/bash
# Without a cluster: prints what would be applied or created.
case "$*" in
  'apply -k '*) exec {kubectl} kustomize "$3" ;;
  *' create secret '*) exec {kubectl} "$@" --dry-run=client -o json ;;
esac
"""


class Manual(unittest.TestCase):
    """The blocks of docs/deployment.md for Kubernetes, in a folder that has `deploy`."""

    def paste(self, part: str, *files: str) -> str:
        [block] = [b for b in harness.blocks("bash", harness.ROOT / "docs/deployment.md") if part in b]
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "deploy").symlink_to(harness.ROOT / "deploy")
        for file in files:
            (folder / file).write_text("secret")
        programs = folder / "programs"
        programs.mkdir()
        (programs / "kubectl").write_text(KUBECTL.format(kubectl=manifests.KUBECTL))
        (programs / "kubectl").chmod(0o755)
        return harness.run(["bash", "-ec", block], folder, PATH=f"{programs}:{os.environ['PATH']}")

    def test_the_examples_of_kustomizations_are_rendered(self) -> None:
        import yaml

        for part in ("newName: registry.example/kinora-frontend", "overlays/frontends"):
            objects = list(yaml.safe_load_all(self.paste(part)))
            self.assertEqual(manifests.get(objects, "Certificate", "kinora-frontend")["spec"]["secretName"], "kinora-tls")
        args = manifests.of_component(objects, "frontend")["spec"]["containers"][0]["args"]
        last = dict(a.split("=", 1) for a in args)  # as the program takes them
        self.assertIn("@db.prod.svc/", last["--store"])
        self.assertEqual((last["--artifacts"], last["--s3-region"]), ("s3://my-clips/kinora", "eu-west-1"))

    def test_the_secrets_that_are_created_have_the_keys_that_pods_use(self) -> None:
        made: dict[str, set[str]] = {}
        for part, files in (("create secret generic kinora-tls", ()),
                            ("create secret generic kinora-database", ("password", "db-ca.pem", "key-id", "key"))):
            for text in re.split(r"(?m)(?<=^\})\n", self.paste(part, *files)):
                if text.strip():
                    secret = json.loads(text)
                    made.setdefault(secret["metadata"]["name"], set()).update(secret["data"])
        used: dict[str, set[str]] = {"kinora-bucket": {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, "kinora-tls": {"tls.crt", "tls.key"},
                                     "kinora-tokens": {"clients", "workers", "peers"}}
        for _, template in manifests.pod_templates(manifests.overlay(SHARING)):
            for volume in template["spec"]["volumes"]:
                keys = {item["key"] for item in volume.get("secret", {}).get("items", [])}
                used.setdefault(volume.get("secret", {}).get("secretName", ""), set()).update(keys)
        used["kinora-database"].add("PGPASSWORD")
        del used[""]
        self.assertEqual(made, used)


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
                    ("peers", FRONTEND, ("kinora", FRONTEND), name == SHARING), ("peers", FRONTEND, ("other", FRONTEND), False),
                    ("peers", FRONTEND, ("kinora", WORKER), False), ("peers", FRONTEND, ("kinora", GATEWAY), False), ("peers", FRONTEND, anybody, False),
                    ("http", FRONTEND, ("kinora", WORKER), False), ("http", FRONTEND, ("other", prometheus[1]), False),
                    ("api", FRONTEND, anybody, True), ("web", GATEWAY, anybody, True), ("http", WORKER, prometheus, True), ("http", WORKER, anybody, False),
                    (40000, WORKER, ("kinora", WORKER), name == "overlays/multi-host"), (40000, WORKER, anybody, False)]:
                with self.subTest(overlay=name, port=port, who=who):
                    self.assertEqual(any(allows(p, to, port, who) for p in policies), reaches)
            for of in COMPONENTS.values():  # pods that no policy selects are open to all
                self.assertTrue(any(p["podSelector"]["matchLabels"] == of and "Ingress" in p["policyTypes"] for p in policies))

    def test_a_gateway_fetches_urls_only_with_the_component_and_only_from_public_addresses(self) -> None:
        def egress_of(objects: list[dict]) -> list[dict]:
            policies = [o["spec"] for o in objects if o["kind"] == "NetworkPolicy" and "Egress" in o["spec"]["policyTypes"]]
            return [rule for p in policies if p["podSelector"]["matchLabels"] == GATEWAY for rule in p["egress"]]

        for name in SERVED:
            objects = manifests.overlay(name)
            self.assertNotIn("--input-url", str(manifests.of_component(objects, "gateway")))
            self.assertNotIn("ipBlock", str(egress_of(objects)))
        objects = manifests.render(HERE / "all-components")
        self.assertIn("--input-url-host=", str(manifests.of_component(objects, "gateway")))
        [rule] = [rule for rule in egress_of(objects) if "ipBlock" in str(rule)]
        self.assertEqual(rule["ports"], [{"port": 443}])
        open4, open6 = (block["ipBlock"] for block in rule["to"])
        table = re.findall(r"\{0x([0-9a-f]{8}), (\d+)\}", (GATEWAY_SOURCES / "public_address.cc").read_text())
        self.assertEqual(open4, {"cidr": "0.0.0.0/0", "except": [f"{ipaddress.ip_address(int(first, 16))}/{bits}" for first, bits in table]})
        closed6 = [ipaddress.ip_network(network) for network in open6["except"]]
        for address in ("2606:4700::1111", "2001:db8::1", "2001::1", "2001:1ff:ffff::1", "2001:200::1", "2002::1", "3fff:fff::1", "fd00::1", "fe80::1", "::1", "64:ff9b::a00:1"):
            one = ipaddress.ip_address(address)
            reached = one in ipaddress.ip_network(open6["cidr"]) and not any(one in network for network in closed6)
            self.assertEqual(reached, address in ("2606:4700::1111", "2001:200::1"), address)

    def test_a_frontend_dials_only_what_it_shares_with_others(self) -> None:
        names = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
        for name in SERVED:
            policies = [o["spec"] for o in manifests.overlay(name) if o["kind"] == "NetworkPolicy"]
            mine = [p for p in policies if p["podSelector"]["matchLabels"] == FRONTEND and "Egress" in p["policyTypes"]]
            self.assertTrue(mine, name)
            found = [(rule["ports"], rule.get("to")) for p in mine for rule in p.get("egress", [])]
            wanted = [([{"port": 443}, *names], None), ([{"port": "peers"}], [{"podSelector": {"matchLabels": FRONTEND}}]),
                      ([{"port": 5432}, *names], None)]
            self.assertEqual(found, wanted if name == SHARING else [], name)

    def test_passwords_of_the_database_and_the_bucket_are_in_secrets(self) -> None:
        container = manifests.of_component(manifests.overlay(SHARING), "frontend")["spec"]["containers"][0]
        [store] = [a for a in container["args"] if a.startswith("--store=")]
        self.assertRegex(store, r"^--store=postgresql://kinora@[^:@]*\?sslmode=verify-full&sslrootcert=/run/kinora/database/ca.crt$")
        self.assertIn({"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "kinora-database", "key": "PGPASSWORD"}}}, container["env"])
        self.assertEqual(container["envFrom"], [{"secretRef": {"name": "kinora-bucket"}}])
        for _, template in manifests.pod_templates(manifests.overlay(SHARING)):
            if template["metadata"]["labels"]["app.kubernetes.io/component"] != "frontend":
                self.assertNotRegex(str(template), "kinora-(database|bucket)|peers")

    def test_frontends_trust_each_other_by_a_name_that_the_certificate_has(self) -> None:
        objects = manifests.render(HERE / "autoscaled-frontends")
        args = manifests.of_component(objects, "frontend")["spec"]["containers"][0]["args"]
        names = manifests.get(objects, "Certificate", "kinora-frontend")["spec"]["dnsNames"]
        [mine] = [a.removeprefix("--peer-server-name=") for a in args if a.startswith("--peer-server-name=")]
        self.assertIn(mine, names)
        self.assertIn(re.search(r'frontend: "([^:]*):', config(objects, "worker"))[1], names)  # also after a redirect
        [made] = re.findall(r"subjectAltName=(\S+)", (harness.ROOT / "docs/deployment.md").read_text())
        self.assertIn(f"DNS:{mine}", made.split(","))

    def test_components_know_both_kinds_of_frontend(self) -> None:
        for name, flags in (("multi-gpu-frontends", ()), ("autoscaled-frontends", ("--model-description=",))):
            objects = manifests.render(HERE / name)
            container = manifests.of_component(objects, "frontend")["spec"]["containers"][0]
            for flag in ("--artifacts=", "--store=", *flags):
                self.assertEqual(str(container["args"]).count(flag), 1, name)
            self.assertEqual(container["envFrom"], [{"secretRef": {"name": "kinora-bucket"}}])
        self.assertNotIn("replicas", manifests.get(objects, "StatefulSet", "kinora-worker")["spec"])

    def test_gateways_share_a_key_for_links_or_keep_their_clients(self) -> None:
        for name in SERVED:
            objects = manifests.overlay(name)
            with self.subTest(overlay=name):
                shared = "--link-key-file=" in str(manifests.of_component(objects, "gateway"))
                affinity = manifests.get(objects, "Service", "kinora-gateway")["spec"].get("sessionAffinity", "None")
                self.assertEqual(affinity, "None" if shared else "ClientIP")
                self.assertEqual(shared, name != "overlays/cpu-demo")

    def test_prometheus_reads_every_rank_under_the_jobs_that_the_alerts_match(self) -> None:
        prometheus = ("monitoring", {"app.kubernetes.io/name": "prometheus"})
        monitoring = manifests.render(HERE / "all-components")
        endpoints = manifests.get(monitoring, "PodMonitor", "kinora-worker")["spec"]["podMetricsEndpoints"]
        for endpoint in endpoints:  # otherwise the operator uses namespace/name
            self.assertEqual(endpoint["relabelings"], [{"targetLabel": "job", "replacement": "kinora-worker"}])
        jobs = ["kinora-worker"]
        for monitor in ("kinora-frontend", "kinora-gateway"):
            spec = manifests.get(monitoring, "ServiceMonitor", monitor)["spec"]
            jobs += [s["metadata"]["name"] for s in monitoring if s["kind"] == "Service"  # a ServiceMonitor's job is its Service
                     and spec["selector"]["matchLabels"].items() <= s["metadata"]["labels"].items()
                     and spec["endpoints"][0]["port"] in [p["name"] for p in s["spec"]["ports"]]]
        self.assertEqual(jobs, ["kinora-worker", "kinora-frontend", "kinora-gateway"])
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

    def test_the_operators_rules_are_those_of_prometheus(self) -> None:
        self.assertEqual(set(RULES.values()), set(PROMETHEUS.iterdir()))
        for operators, source in RULES.items():
            with self.subTest(source=source.name):
                self.assertEqual(operators.read_text(), rules_of(operators, source))

    def test_who_has_a_device_has_the_image_for_it(self) -> None:
        for name in manifests.OVERLAYS:
            for container in containers(manifests.overlay(name)):
                has_device = "nvidia.com/gpu" in container["resources"]["limits"]
                with self.subTest(overlay=name, container=container["name"]):
                    self.assertEqual(container["image"].startswith("kinora/worker-cuda:"), has_device)

    def test_frontends_are_replaced_one_by_one_and_spread_over_hosts_and_zones(self) -> None:
        objects = manifests.overlay(SHARING)
        spec = manifests.get(objects, "Deployment", "kinora-frontend")["spec"]
        self.assertEqual(spec["strategy"], {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})
        pod = spec["template"]["spec"]
        spread = {c["topologyKey"]: c["labelSelector"]["matchLabels"] for c in pod["topologySpreadConstraints"]}
        self.assertEqual(spread, {"kubernetes.io/hostname": FRONTEND, "topology.kubernetes.io/zone": FRONTEND})
        probes = {kind: pod["containers"][0][kind]["httpGet"]["path"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")}
        self.assertEqual(probes, {"startupProbe": "/livez", "readinessProbe": "/readyz", "livenessProbe": "/livez"})
        startup = pod["containers"][0]["startupProbe"]
        self.assertLess(startup["periodSeconds"] * startup["failureThreshold"] + spec["minReadySeconds"],
                        spec.get("progressDeadlineSeconds", 600))
        self.assertFalse(manifests.get(objects, "Service", "kinora-frontend")["spec"].get("publishNotReadyAddresses"))
        self.assertEqual([v for v in pod["volumes"] if "persistentVolumeClaim" in v], [])  # a pod may run anywhere

    def test_one_frontend_or_three_and_a_budget_for_each(self) -> None:
        for name in SERVED:
            objects = manifests.overlay(name)
            [owner] = [o for o in objects if o["metadata"]["name"] == "kinora-frontend" and "replicas" in o.get("spec", {})]
            self.assertEqual((owner["kind"], owner["spec"]["replicas"]), ("Deployment", 3) if name == SHARING else ("StatefulSet", 1))
            for of, template in COMPONENTS.items():
                budget = manifests.get(objects, "PodDisruptionBudget", f"kinora-{of}")["spec"]
                self.assertEqual((budget["maxUnavailable"], budget["selector"]["matchLabels"]), (1, template))
                labels = manifests.of_component(objects, of)["metadata"]["labels"]
                self.assertLessEqual(template.items(), labels.items())


def allows(policy: dict, to: dict, port: object, who: tuple[str, dict]) -> bool:
    namespace, labels = who
    if policy["podSelector"]["matchLabels"] != to:
        return False
    for rule in policy.get("ingress", []):
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
        for operators, source in RULES.items():
            operators.write_text(rules_of(operators, source))
        sys.exit()
    harness.main(programs=["openssl"], folders=[str(manifests.KUBECTL), str(manifests.CHECKS)])
