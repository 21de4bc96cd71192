"""Invariants of nodes see as much when they ask the node whose step it was as when they ask all."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from controlplane.api.object import Object
from controlplane.kubelet.pod.container_runtime import Sandbox, container_id
from controlplane.kubelet.pod.static_pods import CONFIG_HASH, FOLDER, static_pod
from controlplane.scenarios.invariants import nodes
from controlplane.scenarios.invariants.views import stored_pods
from controlplane.scenarios.search.exploring import Campaign
from tests.scenarios.churns.test_kubelet_churn import campaign


def ends(gate: str, faults: bool, seeds: range, always: bool) -> list[tuple[str, str, int, str]]:
    seen = campaign(gate, faults=faults)
    if always:
        laws = tuple(evolve(each, looks_at=None) for each in seen.plan.invariants())
        seen = Campaign(evolve(seen.plan, scenario=evolve(seen.plan.scenario, invariants=laws)))
    runs = [seen.under(seed).result for seed in seeds]
    return [(run.verdict, run.reason, run.steps, run.trace_hash) for run in runs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "faults", "seeds"),
    [
        ("104824", False, range(3, 6)),  # what runs is not remembered
        ("81344", True, range(72, 73)),  # two run on one CPU
        ("", True, range(3)),
    ],
)
def test_to_ask_who_took_the_step_when_something_changed_is_to_ask_all_always(
    monkeypatch, gate, faults, seeds
) -> None:
    asked = []
    own = nodes._own
    monkeypatch.setattr(nodes, "_own", lambda run, those: asked.append(run) or own(run, those))
    found = ends(gate, faults, seeds, always=False)
    looked = len(asked)
    monkeypatch.setattr(nodes, "_own", lambda run, those: asked.append(run) or those)
    assert ends(gate, faults, seeds, always=True) == found
    assert 0 < looked < len(asked) - looked
    assert ("violated" in {verdict for verdict, *_ in found}) is bool(gate)


@pytest.mark.parametrize("law", [nodes.statuses_are_their_own, nodes.no_condition_means_done])
def test_what_only_stored_pods_can_break_is_asked_when_one_was_written(law) -> None:
    assert law("node-1").looks_at is stored_pods


def mirror(made_for: str, told: str) -> Object[Any]:
    metadata = {"name": "proxy-node-1", "namespace": "default", "uid": "mirror"}
    status = {"containerStatuses": [{"name": "main", "containerID": told}]}
    annotations = {CONFIG_HASH: made_for}
    return Object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "annotations": annotations},
            "spec": {"nodeName": "node-1"},
            "status": status,
        }
    )


def manifest(name: str, image: str) -> str:
    container = {"name": "main", "image": image}
    pod = {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    return json.dumps(pod)


@pytest.mark.parametrize(
    ("file", "running", "holds"),
    [
        (manifest("proxy", "app:2"), True, True),
        (manifest("proxy", "app:2"), False, True),
        (manifest("agent", "app:2"), True, False),
        (None, True, True),
        (None, False, False),
    ],
    ids=[
        "its file's",
        "its file's, not begun",
        "another file's",
        "of a file that is gone",
        "of none",
    ],
)
def test_a_mirror_is_reported_with_containers_of_the_static_pod_of_its_name(
    file, running, holds
) -> None:
    name = "agent" if file is not None and "agent" in file else "proxy"
    changed = json.loads(file or manifest("proxy", "app:3"))
    uid = static_pod(changed, "node-1", f"{name}.yaml", 0)["metadata"]["uid"]
    files = {} if file is None else {f"{FOLDER}{name}.yaml": file}
    disk = SimpleNamespace(keys=files.keys, read=files.get)
    machine = SimpleNamespace(sandboxes={uid: Sandbox(uid)} if running else {})
    found = [mirror("first-content", container_id(uid, "main", 0))]
    run = SimpleNamespace(
        objects=lambda _: found,
        world=SimpleNamespace(disk=lambda _: disk),
        cluster=SimpleNamespace(machines={"node-1": machine}),
    )
    assert (nodes.statuses_are_their_own("node-1").check(run) is None) is holds


@pytest.mark.parametrize(
    ("status", "known", "told"),
    [
        ({"phase": "Running"}, True, "node-1: CPU 1 is old/main's and new/main's"),
        ({"phase": "Failed"}, True, "node-1: CPU 1 is old/main's and new/main's"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, True, None),
        (None, False, None),
    ],
)
def test_two_containers_on_one_cpu_are_found_unless_the_kubelet_does_not_want_one(
    status, known, told
) -> None:
    container = SimpleNamespace(name="main", cpus="1-2", exclusive=True)
    sandbox = SimpleNamespace(running=lambda: [container])
    shared = SimpleNamespace(statuses={"old": status}, pods=("old", "new") if known else ("new",))
    machine = SimpleNamespace(
        containers=object(),
        sandboxes={"old": sandbox, "new": sandbox},
        process=SimpleNamespace(shared=shared, workers={}),
    )
    world = SimpleNamespace(stepped=None)
    run: Any = SimpleNamespace(cluster=SimpleNamespace(machines={"node-1": machine}), world=world)
    assert nodes.no_two_run_on_one_cpu("node-1").check(run) == told


@pytest.mark.parametrize(
    ("phase", "told", "is_found"),
    [
        ("Running", {"phase": "Running"}, True),
        ("Failed", {"phase": "Running"}, False),
        ("Pending", {"phase": "Failed", "reason": "OutOfcpu"}, False),
    ],
)
def test_a_resize_without_its_condition_is_found_unless_the_pod_ends(phase, told, is_found) -> None:
    container = {
        "name": "main",
        "state": {"running": {}},
        "allocatedResources": {"cpu": "3"},
        "resources": {"requests": {"cpu": "1"}},
    }
    status = {"phase": phase, "containerStatuses": [container]}
    tree = {"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "node-1"}, "status": status}
    stored = Object({**tree, "metadata": {"name": "web", "namespace": "default", "uid": "u"}})
    process = SimpleNamespace(shared=SimpleNamespace(statuses={"u": told}))
    cluster = SimpleNamespace(machines={"node-1": SimpleNamespace(process=process)})
    run: Any = SimpleNamespace(objects=lambda _prefix: [stored], cluster=cluster)
    assert bool(nodes.no_condition_means_done("node-1").check(run)) is is_found
