"""The ReplicaSet controller: ranking of pods, slow start, whole syncs."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.client.errors import ConnectionLost
from controlplane.controllers.common.effects import Failure, Reconcile
from controlplane.controllers.common.pods import by_deletion_rank, compare_by_deletion_rank
from controlplane.controllers.common.slow_start import slow_start_batch
from controlplane.controllers.workloads.replicaset.controller import ReplicaSetController
from controlplane.decisions import Point
from tests.golden.controller_world import START, World, complete, outcome
from tests.golden.runner import difference


def answer(case: Any) -> Any:
    if "related" in case:
        return _rank(case)
    if "failCalls" in case:
        return _slow_start(case)
    return _sync(case)


def compare(want: Any, got: Any) -> str | None:
    if "requests" in want:
        any_order = want.pop("anyOrder", ())
        got = got(any_order)
    if "order" in want and "deleted" not in want:
        got.pop("deleted")
    return difference(want, got)


def _rank(case: Any) -> Any:
    pods = [Pod.from_tree(complete("Pod", tree)) for tree in case["pods"]]
    related: dict[str, int] = {}
    for tree in case["related"]:
        pod = Pod.from_tree(complete("Pod", tree))
        if pod.status.phase not in {"Succeeded", "Failed"} and not pod.metadata.deletion_timestamp:
            related[pod.spec.node_name] = related.get(pod.spec.node_name, 0) + 1
    ordered = by_deletion_rank(pods, related, START)
    groups: list[list[Pod]] = []
    for pod in ordered:
        if groups and compare_by_deletion_rank(groups[-1][0], pod, related, START) == 0:
            groups[-1].append(pod)
        else:
            groups.append([pod])
    return {
        "order": [sorted(pod.name for pod in group) for group in groups],
        "deleted": sorted(pod.name for pod in ordered[: case["diff"]]),
    }


def _slow_start(case: Any) -> Any:
    calls: list[int] = []

    def part(number: int) -> Reconcile[Failure | None]:
        yield Point("call")
        calls.append(number + 1)
        return ConnectionLost("scripted") if number + 1 in case["failCalls"] else None

    world = World({})
    steps = slow_start_batch("part", case["count"], part, case["initial"])
    successes, failed = world.run(steps)
    return {"calls": len(calls), "successes": successes, "failed": failed is not None}


def _sync(case: Any) -> Any:
    main = case["replicaSet"]
    world = World(
        {
            "ReplicaSet": [main, *case.get("otherReplicaSets", ())],
            "Pod": case.get("pods", ()),
        },
        case.get("failures", ()),
    )
    world.see_live("ReplicaSet", case, main)
    controller = ReplicaSetController(world, world.caches)
    world.fill()
    key = f"{main['metadata']['namespace']}/{main['metadata']['name']}"
    expected = case.get("expectations")
    if expected is not None:
        deletions = expected.get("del") or []
        if deletions:
            controller.expectations.expect_deletions(key, deletions, START)
        else:
            controller.expectations.expect_creations(key, expected.get("add", 0), START)
    error = world.attempt(controller.sync(key))

    def found(any_order: Any) -> Any:
        result = outcome(world, error, "replicaset", any_order)
        still = controller.expectations.outstanding(key)
        if still is not None:
            result["expectations"] = {"add": still[0], "del": still[1]}
        return result

    return found
