"""Exports, imports and records of kube-scheduler-simulator."""

from __future__ import annotations

import json
from typing import Any

from controlplane.scenarios.inputs.simulator_files import (
    ADD,
    DELETE,
    UPDATE,
    change_line,
    exported,
    imported,
    names_claim,
)

LISTS = {"persistentVolumes": "pvs", "persistentVolumeClaims": "pvcs"}
EVENTS = {"add": ADD, "update": UPDATE, "delete": DELETE}


def answer(case: dict[str, Any]) -> Any:
    return {"snap": _snap, "load": _load, "record": _record}[case["kind"]](case)


def _snap(case: dict[str, Any]) -> Any:
    objects = {LISTS.get(name, name): value for name, value in case.items() if name != "kind"}
    for value in objects.values():
        if isinstance(value, list):
            value.sort(key=lambda tree: tree["metadata"]["name"])
    return {"file": exported(objects, case.get("schedulerConfig"))}


def _load(case: dict[str, Any]) -> Any:
    stages, config = imported(case["file"])
    applied = []
    for kind, tree in (each for stage in stages for each in stage):
        if names_claim(tree):
            reference = tree["spec"]["claimRef"]
            claim = {"name": reference["name"], "namespace": reference["namespace"]}
            applied.append({"get": "persistentvolumeclaims", **claim})
            tree = {**tree, "spec": {**tree["spec"], "claimRef": {**reference, "uid": "new-uid-x"}}}
        applied.append(
            {
                "resource": kind.resource,
                "subresource": "",
                "namespace": tree["metadata"].get("namespace", ""),
                "name": tree["metadata"]["name"],
                "type": "application/apply-patch+yaml",
                "body": tree,
            }
        )
    applied.sort(key=lambda each: json.dumps(each, sort_keys=True, separators=(",", ":")))
    out: dict[str, Any] = {"applied": applied}
    if not case.get("ignoreSchedulerConfiguration"):
        out["restartedWith"] = config
    return out


def _record(case: dict[str, Any]) -> Any:
    lines = [change_line(EVENTS[op["op"]], op["object"], 0) for op in case["ops"]]
    return {"lines": [{**line, "time": "<time>"} for line in lines]}
