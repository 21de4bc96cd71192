"""Exports and records of kube-scheduler-simulator as inputs of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.inputs import manifests
from controlplane.scenarios.inputs.reading import CREATE, DELETE, UPDATE, load
from controlplane.scenarios.inputs.simulator_files import (
    ADD,
    Change,
    changes_of,
    exported,
    imported,
    is_export,
    replayed,
)
from controlplane.scenarios.inputs.simulator_files import UPDATE as UPDATED
from controlplane.scenarios.manifest_run import SCENARIO

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def line(event: str, resource: Any, second: float) -> str:
    time = f"2026-11-01T10:00:{second:04.1f}Z"
    return json.dumps({"time": time, "event": event, "resource": resource}) + "\n"


def test_an_export_is_known_by_its_lists() -> None:
    file = exported({"pods": [POD]}, None)
    assert is_export(file)
    assert file["pods"][0]["metadata"]["creationTimestamp"] is None
    assert (file["nodes"], file["namespaces"]) == (None, [])
    assert not is_export({**file, "kind": "List"})
    assert not is_export({**file, "deployments": []})
    assert not is_export({"pods": []})


def test_the_objects_of_an_export_get_their_kinds_and_a_namespace_comes_first() -> None:
    file = {**exported({"pods": [POD]}, None), "namespaces": [{"metadata": {"name": "shop"}}]}
    found = manifests.load_text(json.dumps(file), "x.json")
    assert [each.name for each in found] == ["Namespace shop", "Pod shop/p"]
    stages, _ = imported(file)
    assert [each.tree for each in found] == [tree for stage in stages for _, tree in stage]
    with pytest.raises(UsageError, match=r"x\.json: pods: expected a list"):
        manifests.load_text(json.dumps({**file, "pods": {"a": 1}}), "x.json")


def test_objects_that_every_cluster_has_are_left_out_of_an_import(tmp_path: Path) -> None:
    names = ("default", "kube-system", "kube-of-a-user", "shop")
    classes = ("system-node-critical", "high")
    file = {
        **exported({}, None),
        "namespaces": [{"metadata": {"name": name}} for name in names],
        "priorityClasses": [{"metadata": {"name": name}, "value": 1} for name in classes],
        "schedulerConfig": {"profiles": []},
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps(file))
    found = load([path])
    made = [each.tree["metadata"]["name"] for each in found.submissions]
    assert made == ["shop", "high"]
    assert all(each.exported for each in found.submissions)
    assert found.scheduler is not None and found.scheduler.tree == {"profiles": []}


def test_the_scheduler_runs_with_the_configuration_of_an_export(tmp_path: Path) -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file = {**exported({}, None), "namespaces": [{"metadata": {"name": "shop"}}]}
    path = tmp_path / "x.json"

    def config_of(profile: Any, **options: Any) -> Any:
        path.write_text(json.dumps({**file, "schedulerConfig": {**head, "profiles": [profile]}}))
        plan = plan_of(SCENARIO, files=(str(path),), nodes=1, **options)
        return Execution(plan).cluster.config.scheduler

    assert config_of({"schedulerName": "mine"}).profiles[0].scheduler_name == "mine"
    wrong = {"plugins": {"filter": {"enabled": [{"name": "No"}]}}}
    with pytest.raises(UsageError, match=r"x\.json:1: schedulerConfig: .*No.* does not exist"):
        config_of(wrong)
    given = tmp_path / "config.yaml"
    given.write_text(json.dumps(head))
    named = config_of(wrong, scheduler_config=str(given))
    assert named.profiles[0].scheduler_name == "default-scheduler"


def test_a_record_brings_writes_at_its_times_and_the_nodes_that_it_begins_with(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.jsonl"
    later = {**NODE, "metadata": {"name": "later"}}
    path.write_text(
        line("Add", NODE, 0)
        + line("Add", POD, 1.5)
        + line("Update", {**POD, "spec": {"nodeName": "n"}}, 2)
        + line("Update", NODE, 3)
        + line("Add", later, 4)
        + line("Delete", POD, 5)
        + '{"time": "cut'
    )
    found = load([path])
    assert [node["metadata"]["name"] for node in found.nodes] == ["n"]
    assert [
        (each.at_ns, each.verb, each.tree["metadata"]["name"]) for each in found.submissions
    ] == [
        (1_500_000_000, CREATE, "p"),
        (3_000_000_000, UPDATE, "n"),
        (4_000_000_000, CREATE, "later"),
        (5_000_000_000, DELETE, "p"),
    ]
    assert found.is_trace


def test_a_node_that_a_record_adds_later_runs_pods(tmp_path: Path) -> None:
    size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {**NODE, "status": {"capacity": size, "allocatable": size}}
    meta = {"name": "p", "namespace": "default"}
    pod = {**POD, "metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    path = tmp_path / "r.jsonl"
    path.write_text(line("Add", pod, 0) + line("Add", node, 5))
    run = Execution(plan_of(SCENARIO, files=(str(path),)))
    assert run.cluster.config.nodes == ()
    run.execute("bare")
    (found,) = run.objects("/registry/pods/")
    assert (found.tree["spec"]["nodeName"], found.tree["status"]["phase"]) == ("n", "Running")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]\n", "r:1: resource: expected an object with metadata"),
        ("{\n", "r:1: not JSON"),
        (line("Add", {"metadata": {}}, 0), "r:1: resource.apiVersion: expected text"),
        (line("Added", POD, 0), "r:1: event: 'Added': expected Add, Update or Delete"),
        (line("Add", POD, 0).replace("2026", "x"), "r:1: time: "),
    ],
)
def test_a_line_that_is_no_change_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        list(changes_of(text, "r"))


def test_fields_of_the_recorded_server_are_left_out() -> None:
    pod = {
        **POD,
        "metadata": {
            **POD["metadata"],
            "uid": "u",
            "resourceVersion": "3",
            "ownerReferences": [{}],
        },
        "spec": {
            "serviceAccountName": "robot",
            "nodeName": "n",
            "containers": [{"volumeMounts": [{"name": "kube-api-access-abcde"}]}],
            "volumes": [{"name": "kube-api-access-abcde"}],
        },
    }
    found = replayed(Change(0, ADD, pod, 1), lambda _namespace, _name: "")
    assert found == {**POD, "spec": {"nodeName": "n", "containers": [{}]}}
    assert replayed(Change(0, UPDATED, pod, 1), lambda _namespace, _name: "") is None
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"claimRef": {"namespace": "shop", "name": "c", "uid": "old"}},
        "status": {"phase": "Bound"},
    }
    found = replayed(Change(0, ADD, volume, 1), lambda namespace, name: f"{namespace}/{name}")
    assert found is not None and found["spec"]["claimRef"]["uid"] == "shop/c"
