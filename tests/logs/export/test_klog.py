"""Text in klog's form, with upstream's messages and keys."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest

from controlplane.logs.export import klog
from tests.logs.made import Made, event

HEADER = re.compile(
    r"([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) +(\d+) ([a-z_]+\.go):(\d+)\] (.*)\n", re.DOTALL
)
SCHEDULER = {
    "About to try and schedule pod": ["pod"],
    "Attempting to schedule pod": ["pod"],
    "Unable to schedule pod; no fit; waiting": ["pod", "err"],
    "Successfully bound pod to node": ["pod", "node", "evaluatedNodes", "feasibleNodes"],
}


class Parsed(NamedTuple):
    severity: str
    stamp: str
    file: str
    step: int
    text: str
    values: dict[str, Any]


def parsed(line: str) -> Parsed:
    """A line taken apart: Lmmdd hh:mm:ss.uuuuuu threadid file:line] "message" key=value..."""
    match = HEADER.fullmatch(line)
    assert match, line
    severity, stamp, _, file, number, rest = match.groups()
    assert "\n" not in rest
    decoder = json.JSONDecoder()
    text, at = decoder.raw_decode(rest)
    values = {}
    while at < len(rest):
        assert rest[at] == " "
        key, _, rest = rest[at + 1 :].partition("=")
        assert re.fullmatch(r"[A-Za-z-]+", key)
        values[key], at = decoder.raw_decode(rest)
    return Parsed(severity, stamp, file, int(number), text, values)


def all_of(log, verbosity=klog.VERBOSITY) -> list[Parsed]:
    return [parsed(line) for line in klog.lines(log, verbosity)]


def test_every_line_of_a_real_run_is_klogs(run_log):
    found = all_of(run_log)
    assert [each.step for each in found] == sorted(each.step for each in found)
    assert {each.text for each in found} >= {*SCHEDULER, "Caches populated", "HTTP"}
    for each in found:
        if each.text in SCHEDULER:
            assert list(each.values) == SCHEDULER[each.text]
            assert each.file == "schedule_one.go"


def test_the_schedulers_messages_are_those_of_its_attempts(run_log, run_lines):
    texts = [each.text for each in all_of(run_log)]
    for text, name in (
        ("Attempting to schedule pod", "scheduler.popped"),
        ("Unable to schedule pod; no fit; waiting", "scheduler.failed"),
    ):
        assert texts.count(text) == sum(line.event == name for line in run_lines) > 0
    requests = [line.data for line in run_lines if line.event == "apiserver.audited"]
    ended = sum("watch" not in data or "ended" in data for data in requests)
    assert texts.count("HTTP") == ended > 0
    bound = [each for each in all_of(run_log) if each.text == "Successfully bound pod to node"]
    chosen = {
        (line.obj.partition("/")[2], line.data["node"], line.data["evaluated"])
        for line in run_lines
        if line.event == "scheduler.assumed"
    }
    assert {
        (each.values["pod"], each.values["node"], each.values["evaluatedNodes"]) for each in bound
    } == chosen


VERBOSITY = {
    "About to try and schedule pod": 4,
    "Attempting to schedule pod": 3,
    "Successfully bound pod to node": 2,
    "HTTP": 3,
    "Caches populated": 2,
    "SyncLoop ADD": 2,
    "SyncLoop UPDATE": 2,
    "SyncLoop DELETE": 2,
    "SyncLoop REMOVE": 2,
    "SyncLoop RECONCILE": 4,
    "SyncLoop (PLEG): event for pod": 2,
    "Pod is being synced for the first time": 4,
    "Pod is marked for graceful deletion, begin teardown": 4,
    "Pod is in a terminal phase (success/failed), begin teardown": 4,
    "Pod termination stopped all running containers": 4,
    "Pod is terminated and will need no more status updates": 4,
    "Pod is complete and the worker can now stop": 4,
    "Status for pod updated successfully": 3,
    "Pod fully terminated and removed from etcd": 3,
    "Attempting to register node": 0,
    "Node was previously registered": 0,
    "Successfully registered node": 0,
    "Recording status change event message for node": 2,
    "Unable to schedule pod; no fit; waiting": 2,
}
"""As upstream's klog.V has them; what is not here is said at any verbosity."""
KUBELET = {
    "SyncLoop ADD": ("kubelet.go", ["source", "pods"]),
    "SyncLoop DELETE": ("kubelet.go", ["source", "pods"]),
    "SyncLoop RECONCILE": ("kubelet.go", ["source", "pods"]),
    "SyncLoop (PLEG): event for pod": ("kubelet.go", ["pod", "event"]),
    "Pod is being synced for the first time": ("pod_workers.go", ["pod", "podUID", "updateType"]),
    "Pod is marked for graceful deletion, begin teardown": (
        "pod_workers.go",
        ["pod", "podUID", "updateType"],
    ),
    "Status for pod updated successfully": ("status_manager.go", ["pod", "status"]),
    "Attempting to register node": ("kubelet_node_status.go", ["node"]),
    "Node was previously registered": ("kubelet_node_status.go", ["node"]),
    "Successfully registered node": ("kubelet_node_status.go", ["node"]),
}


def test_the_kubelets_messages_have_upstreams_files_and_keys(run_log):
    found = all_of(run_log)
    assert {each.text for each in found} >= KUBELET.keys()
    for each in found:
        if each.text in KUBELET:
            assert (each.file, list(each.values)) == KUBELET[each.text]
    events = [
        each.values["event"] for each in found if each.text == "SyncLoop (PLEG): event for pod"
    ]
    types = {event["Type"] for event in events}
    assert {"ContainerStarted"} <= types <= {"ContainerStarted", "ContainerDied"}
    assert all(event["ID"] and event["Data"] for event in events)


@pytest.mark.parametrize("verbosity", range(6))
def test_verbosity_leaves_out_what_is_said_above_it(run_log, verbosity):
    some = all_of(run_log, verbosity)
    assert some == [each for each in all_of(run_log) if VERBOSITY.get(each.text, 0) <= verbosity]


def test_times_are_the_clusters_and_durations_gos():
    asked = event(
        7,
        "apiserver.audited",
        t=86_401.25,
        verb="list",
        uri="/api/v1/pods",
        agent="a",
        code=200,
        began_ns=86_399_750_000_000,
    )
    (found,) = all_of(Made((asked,)))
    assert (found.stamp, found.step) == ("0102 00:00:01.250000", 7)
    assert found.values == {
        "verb": "LIST",
        "URI": "/api/v1/pods",
        "latency": "1.5s",
        "userAgent": "a",
        "resp": 200,
    }


def test_errors_say_first_what_was_wrong():
    retry = event(1, "controller.retry", controller="job", key="d/j", error='no "quoted"\ntext')
    (line,) = klog.lines(Made((retry,)))
    found = parsed(line)
    assert (found.severity, found.file, found.text) == ("E", "job_controller.go", "Unhandled Error")
    assert found.values == {"err": 'syncing job: no "quoted"\ntext'}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            event(1, "controller.retry", controller="deployment", key="d/w", error="no"),
            (
                "I",
                "deployment_controller.go",
                "Error syncing deployment",
                {"deployment": "d/w", "err": "no"},
            ),
        ),
        (
            event(1, "controller.retry", controller="replicaset", key="d/w", error="no"),
            ("E", "replica_set.go", "Unhandled Error", {"err": 'sync "d/w" failed with no'}),
        ),
        (
            event(1, "controller.popped", controller="deployment", key="d/w"),
            ("I", "deployment_controller.go", "Started syncing deployment", {"deployment": "d/w"}),
        ),
        (
            event(1, "deployment.scale", "Deployment/d/w", replica_set="w-1", to=3, **{"from": 0}),
            (
                "I",
                "event.go",
                "Event occurred",
                {
                    "object": "d/w",
                    "fieldPath": "",
                    "kind": "Deployment",
                    "apiVersion": "apps/v1",
                    "type": "Normal",
                    "reason": "ScalingReplicaSet",
                    "message": "Scaled up replica set w-1 from 0 to 3",
                },
            ),
        ),
        (
            event(1, "node.silent", "Node/n"),
            (
                "I",
                "controller_utils.go",
                "Recording status change event message for node",
                {"status": "NodeNotReady", "node": "n"},
            ),
        ),
        (
            event(1, "pod.evicted", "Pod/d/p"),
            (
                "I",
                "taint_eviction.go",
                "Deleting pod",
                {"controller": "taint-eviction-controller", "pod": "d/p"},
            ),
        ),
        (
            event(1, "election.leading", lease="kube-system/kube-scheduler", transitions=1),
            (
                "I",
                "leaderelection.go",
                "Successfully acquired lease",
                {"lock": "kube-system/kube-scheduler"},
            ),
        ),
        (
            event(1, "kubelet.rejected", "Pod/d/p", uid="u", reason="OutOfcpu", message="m"),
            (
                "I",
                "allocation_manager.go",
                "Pod admission denied",
                {"podUID": "u", "pod": "d/p", "reason": "OutOfcpu", "message": "m"},
            ),
        ),
        (
            event(
                1,
                "kubelet.assigned",
                "Pod/d/p",
                uid="u",
                file="cpu_manager_state",
                container="c",
                has="1-2",
                had="",
            ),
            (
                "I",
                "state_mem.go",
                "Updated desired CPUSet",
                {"podUID": "u", "containerName": "c", "cpuSet": "1-2"},
            ),
        ),
        (
            event(
                1,
                "kubelet.assigned",
                "Pod/d/p",
                uid="u",
                file="memory_manager_state",
                container="c",
                has="",
                had="64 of memory from 0",
            ),
            (
                "I",
                "state_mem.go",
                "Deleted memory assignment",
                {"podUID": "u", "containerName": "c"},
            ),
        ),
    ],
)
def test_messages_have_upstreams_files_texts_and_keys(made, said):
    (found,) = all_of(Made((made,)))
    assert (found.severity, found.file, found.text, found.values) == said


def test_all_pods_of_one_update_are_one_message():
    made = [
        event(
            3,
            "kubelet.heard",
            f"Pod/d/{name}",
            actor="node-1",
            uid=name,
            operation="ADD",
            source="api",
        )
        for name in ("a", "b")
    ]
    other = event(
        4, "kubelet.heard", "Pod/d/c", actor="node-1", uid="c", operation="ADD", source="api"
    )
    assert [each.values["pods"] for each in all_of(Made((*made, other)))] == [
        ["d/a", "d/b"],
        ["d/c"],
    ]


def test_the_end_of_a_pod_is_told_step_by_step():
    pod, uid = "Pod/d/p", "u"
    found = all_of(
        Made(
            (
                event(1, "apiserver.write", "Node/n", verb="create nodes", by="n", code=201),
                event(2, "kubelet.heard", pod, uid=uid, operation="DELETE", source="api"),
                event(3, "kubelet.worker", pod, uid=uid, phase="terminating"),
                event(4, "kubelet.worker", pod, uid=uid, phase="terminated"),
                event(5, "kubelet.worker", pod, uid=uid, phase="finished"),
                event(6, "apiserver.write", pod, verb="delete pods", by="n", code=200),
                event(7, "apiserver.write", pod, verb="delete pods", by="user", code=200),
            )
        )
    )
    known = {"pod": "d/p", "podUID": uid}
    assert [(each.step, each.file, each.text, each.values) for each in found if each.step > 2] == [
        (
            3,
            "pod_workers.go",
            "Pod is marked for graceful deletion, begin teardown",
            {**known, "updateType": "update"},
        ),
        (4, "kubelet.go", "Pod termination stopped all running containers", known),
        (5, "kubelet.go", "Pod is terminated and will need no more status updates", known),
        (5, "pod_workers.go", "Pod is complete and the worker can now stop", {"podUID": uid}),
        (6, "status_manager.go", "Pod fully terminated and removed from etcd", {"pod": "d/p"}),
    ]


def test_an_eviction_is_told_with_its_resource_and_ends_the_worker_so():
    found = all_of(
        Made(
            (
                event(
                    1, "kubelet.evicted", "Pod/d/p", uid="u", signal="memory.available", message="m"
                ),
                event(2, "kubelet.worker", "Pod/d/p", uid="u", phase="terminating"),
            )
        )
    )
    assert [(each.text, each.values.get("resourceName", "")) for each in found] == [
        ("Eviction manager: must evict pod(s) to reclaim", "memory"),
        ("Eviction manager: pod is evicted successfully", ""),
        ("Pod is being evicted by the kubelet, begin teardown", ""),
    ]
    assert found[-1].values["updateType"] == "kill"


def test_without_nodes_the_scheduler_says_so():
    message = "no nodes available to schedule pods"
    failed = event(1, "scheduler.failed", "Pod/d/p", message=message, reason="Unschedulable")
    (found,) = all_of(Made((failed,)))
    assert found.text == "Unable to schedule pod; no nodes are registered to the cluster; waiting"


def test_of_one_process_there_is_all_that_it_says_and_nothing_else(run_log):
    def texts(actor):
        return {parsed(line).text for line in klog.lines(run_log, klog.VERBOSITY, actor)}

    assert "Successfully bound pod to node" in texts("scheduler")
    assert "HTTP" not in texts("scheduler")
    assert {"Successfully registered node", "Status for pod updated successfully"} <= texts(
        "node-1"
    )
    assert texts("node-*") == texts("node-1") | texts("node-2")
    assert texts("apiserver") == {"HTTP"}
    assert not texts("nobody")
