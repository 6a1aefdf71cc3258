#!/usr/bin/env python3
"""Kubernetes and the operators must accept every rendered object of deploy/kubernetes: no unknown or missing fields,
and correct types."""

import copy
import json
import re
import unittest
from pathlib import Path

import manifests
import harness

VERSIONS = ["1.34", "1.37"]  # since 1.34, preStop.sleep needs no feature gate


def check_builtin(o: dict) -> None:
    import kubernetes_validate

    for version in VERSIONS:
        kubernetes_validate.validate(o, version, strict=True)


def check_lws(o: dict) -> None:
    import jsonschema
    import kubernetes_validate

    jsonschema.validate(o, json.loads((Path(__file__).parent / "leaderworkerset.json").read_text()))
    template = o["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    check_builtin({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": o["metadata"],  # a kind with a template
                   "spec": {"serviceName": "kinora", "selector": {}, "template": template}})


def model_of(o: dict) -> type:
    from cloudcoil.models.cert_manager import v1 as cert_manager
    from cloudcoil.models.keda import v1alpha1 as keda
    from cloudcoil.models.prometheus_operator import v1 as prometheus

    return getattr({"cert-manager.io/v1": cert_manager, "keda.sh/v1alpha1": keda,
                    "monitoring.coreos.com/v1": prometheus}[o["apiVersion"]], o["kind"])


def check_operator(o: dict) -> None:
    read = model_of(o).model_validate(o).model_dump(by_alias=True, exclude_unset=True, mode="json")
    if read != o:  # the model keeps or drops unknown fields but never rejects them
        raise ValueError(f"{o['kind']}: read as {read}")
    unknown = sorted(unknown_fields(model_of(o).model_validate(o)))
    if unknown:
        raise ValueError(f"{o['kind']} has no field {', '.join(unknown)}")


def unknown_fields(model: object, path: str = "") -> list[str]:
    from pydantic import BaseModel

    if isinstance(model, list):
        return [u for i, m in enumerate(model) for u in unknown_fields(m, f"{path}[{i}]")]
    if not isinstance(model, BaseModel):
        return []
    found = [f"{path}.{name}" for name in (model.model_extra or {})]
    for name in type(model).model_fields:
        found += unknown_fields(getattr(model, name), f"{path}.{name}")
    return found


def check(o: dict) -> None:
    if o["apiVersion"].startswith("leaderworkerset."):
        check_lws(o)
    elif re.search(r"(cert-manager\.io|keda\.sh|coreos\.com)/", o["apiVersion"]):
        check_operator(o)
    else:
        check_builtin(o)


QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")


def quantities(value: object, key: str = "") -> list[str]:
    if isinstance(value, dict):
        wanted = key in ("limits", "requests")
        found = [str(v) for v in value.values()] if wanted else [str(value[k]) for k in ("sizeLimit",) if k in value]
        return found + [q for k, v in value.items() for q in quantities(v, k)]
    return [q for v in value for q in quantities(v)] if isinstance(value, list) else []


class Schemas(unittest.TestCase):
    def test_every_object_is_as_its_schema_says(self) -> None:
        for name in [*manifests.OVERLAYS, *manifests.COMBINATIONS]:
            for o in manifests.overlay(name):
                with self.subTest(overlay=name, kind=o["kind"], name=o["metadata"]["name"]):
                    check(o)
                    for quantity in quantities(o):
                        self.assertRegex(quantity, rf"^{QUANTITY.pattern}$")

    def test_a_wrong_object_of_each_kind_is_found(self) -> None:
        objects = [o for name in [*manifests.OVERLAYS, *manifests.COMBINATIONS] for o in manifests.overlay(name)]
        by_kind = {o["kind"]: o for o in objects}
        for kind, o in by_kind.items():
            wrong = copy.deepcopy(o)
            wrong.setdefault("spec" if "spec" in wrong else "metadata", {})["notAField"] = 1
            with self.subTest(kind=kind), self.assertRaises(Exception):
                check(wrong)
        wrong = copy.deepcopy(by_kind["LeaderWorkerSet"])
        wrong["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["imge"] = "x"
        with self.assertRaises(Exception):
            check(wrong)
        wrong = copy.deepcopy(by_kind["ServiceMonitor"])
        wrong["spec"]["endpoints"][0]["prt"] = "http"
        with self.assertRaises(Exception):
            check(wrong)

    def test_every_component_is_in_some_kustomization(self) -> None:
        text = "".join(p.read_text() for p in manifests.MANIFESTS.rglob("kustomization.yaml"))
        text += "".join((folder / "kustomization.yaml").read_text() for folder in manifests.COMBINATIONS)
        for component in (manifests.MANIFESTS / "components").iterdir():
            self.assertIn(f"components/{component.name}\n", text)


if __name__ == "__main__":
    harness.main(folders=[str(manifests.KUBECTL), str(manifests.CHECKS)])
