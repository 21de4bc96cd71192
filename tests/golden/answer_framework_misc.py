"""Small rules of the scheduling framework: search size, backoff, node order, events, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.fit_error import Diagnosis, fit_error_message
from controlplane.scheduler.framework.interface import Code, NodeToStatus, Status
from controlplane.scheduler.framework.node_search import num_feasible_nodes_to_find
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.plugins.importance import more_important
from controlplane.scheduler.queue.backoff_queue import NO_BACKOFF, BackoffQueue, backoff_duration
from controlplane.scheduler.queue.event_diff import node_update_events, pod_update_events
from controlplane.scheduler.queue.metrics import QueueMetrics
from controlplane.scheduler.state.cache import Cache
from controlplane.scheduler.state.pod_info import PodInfo
from controlplane.scheduler.state.snapshot import Snapshot
from tests.golden.runner import UNANSWERED

Json = Any
MS = 1_000_000
SECOND = 1_000_000_000

CODES = {
    "Success": Code.SUCCESS,
    "Error": Code.ERROR,
    "Unschedulable": Code.UNSCHEDULABLE,
    "UnschedulableAndUnresolvable": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    "Wait": Code.WAIT,
    "Skip": Code.SKIP,
    "Pending": Code.PENDING,
}


def _num_feasible(case: Json) -> Json:
    percentage = case["percentageOfNodesToScore"]
    percentage = case.get("profilePercentageOfNodesToScore", percentage)
    return {"n": num_feasible_nodes_to_find(percentage, case["numAllNodes"])}


def _backoff_duration(case: Json) -> Json:
    initial = case["podInitialBackoffSeconds"] * SECOND
    longest = case["podMaxBackoffSeconds"] * SECOND
    return {"ms": [backoff_duration(count, initial, longest) // MS for count in case["counts"]]}


def _backoff(case: Json) -> Json:
    queue = BackoffQueue(lambda _a, _b: False, QueueMetrics())
    info = QueuedPodInfo(
        PodInfo(Pod.from_tree({"metadata": {"name": "p"}})),
        timestamp=case["timestampMs"] * MS,
        unschedulable_count=case["unschedulableCount"],
        consecutive_errors_count=case["consecutiveErrors"],
    )
    ends = queue.expiration(info)
    return {
        "expirationMs": None if ends == NO_BACKOFF else ends // MS,
        "backingOff": queue.is_backing_off(info, case["nowMs"] * MS),
    }


def _node_order(case: Json) -> Json:
    cache, snapshot = Cache(), Snapshot()
    nodes: dict[str, Node] = {}
    out = []
    for op in case["ops"]:
        if op["op"] == "addPod":
            cache.add_pod(Pod.from_tree(op["pod"]))
        elif op["op"] == "remove":
            cache.remove_node(nodes.pop(op["name"]))
        else:
            node = Node.from_tree(op["node"])
            if op["op"] == "add":
                cache.add_node(node)
            else:
                cache.update_node(nodes[node.name], node)
            nodes[node.name] = node
        cache.update_snapshot(snapshot)
        seen: Json = {"order": [info.name for info in snapshot.node_info_list]}
        anti = [info.name for info in snapshot.have_pods_with_required_anti_affinity]
        out.append(seen | ({"havePodsWithRequiredAntiAffinity": anti} if anti else {}))
    return {"snapshots": out}


def _event(event: ev.ClusterEvent) -> Json:
    action = ev.action_name(event.action)
    return {"resource": event.resource, "action": action, "label": event.label}


def _node_events(case: Json) -> Json:
    old, new = Node.from_tree(case["old"]), Node.from_tree(case["new"])
    return {"events": [_event(event) for event in node_update_events(new, old)]}


def _pod_events(case: Json) -> Json:
    old, new = Pod.from_tree(case["old"]), Pod.from_tree(case["new"])
    return {"events": [_event(event) for event in pod_update_events(new, old)]}


def cluster_event(case: Json) -> ev.ClusterEvent:
    """An event as the cases write it."""
    label = case.get("customLabel") or case.get("hint") or ""
    return ev.ClusterEvent(case["resource"], ev.ACTIONS[case["action"]], label)


def _match(case: Json) -> Json:
    registered, incoming = cluster_event(case["registered"]), cluster_event(case["incoming"])
    return {
        "match": registered.matches(incoming),
        "incomingIsWildcard": incoming.is_wildcard,
        "incomingLabel": incoming.label,
    }


def _fit_error(case: Json) -> Json:
    statuses = {
        node: Status(CODES[status["code"]], tuple(status.get("reasons", ())))
        for node, status in case["nodeStatus"].items()
    }
    diagnosis = Diagnosis(
        NodeToStatus(statuses),
        pre_filter_msg=case.get("preFilterMsg", ""),
        post_filter_msg=case.get("postFilterMsg", ""),
    )
    return {"message": fit_error_message(case["numAllNodes"], diagnosis)}


def _more_important(case: Json) -> Json:
    a, b = Pod.from_tree(case["a"]), Pod.from_tree(case["b"])
    return {"aBeforeB": more_important(a, b, 0), "bBeforeA": more_important(b, a, 0)}


_KINDS: dict[str, Callable[[Json], Json]] = {
    "numFeasibleNodesToFind": _num_feasible,
    "backoffDuration": _backoff_duration,
    "backoff": _backoff,
    "nodeOrder": _node_order,
    "nodeUpdateEvents": _node_events,
    "podUpdateEvents": _pod_events,
    "matchClusterEvents": _match,
    "fitError": _fit_error,
    "moreImportantPod": _more_important,
}


def answer(case_in: Json) -> Json:
    """Our value for `want`."""
    rule = _KINDS.get(case_in["kind"])
    return UNANSWERED if rule is None else rule(case_in)
