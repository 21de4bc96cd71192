"""Kueue: requests of workloads, their adjustment, validation and scheduling hash."""

from __future__ import annotations

from typing import Any

from controlplane.api.quantity import parse
from controlplane.kueue.gates import Gates
from controlplane.kueue.workload.adjust import adjusted
from controlplane.kueue.workload.admissibility import inadmissible
from controlplane.kueue.workload.info import PodSetResources, new_info
from controlplane.kueue.workload.requests import RequestOptions
from tests.golden.runner import difference


def answer(case: Any) -> Any:
    world = case["world"]
    gates = Gates(case.get("gates"))
    namespace = case["workload"]["metadata"]["namespace"]
    ranges = sorted(
        (
            each
            for each in world.get("limitRanges", ())
            if each["metadata"].get("namespace") == namespace
        ),
        key=lambda each: each["metadata"]["name"],
    )
    classes = {each["metadata"]["name"]: each for each in world.get("runtimeClasses", ())}
    workload = adjusted(case["workload"], ranges, classes)
    info = new_info(workload, gates, RequestOptions.from_config(case))
    found: dict[str, Any] = {
        "adjusted": [shown_pod(each["template"]["spec"]) for each in workload["spec"]["podSets"]],
        "canBePartiallyAdmitted": info.can_be_partially_admitted(),
        "hash": info.hash,
        "totalRequests": [
            shown_pod_set(each, case["scaleTo"], scaled=True) for each in info.total_requests
        ],
    }
    if total := info.sum_of_requests():
        found["sum"] = total
    if usage := info.quota_usage[0]:
        found["usage"] = {str(pair): amount for pair, amount in usage.items()}
    spaces = {each["metadata"]["name"]: each for each in world.get("namespaces", ())}
    failed = inadmissible(workload, spaces.get(namespace), None, ranges)
    if failed is not None:
        found["validation"] = {"prefix": failed.prefix, "errors": sorted(failed.errors)}
    return found


def compare(want: Any, got: Any) -> str | None:
    """Differences, but for what printed inputs do not tell: absent requests and limits from empty ones.

    The hash tells them apart, so it is not compared where the recorded pod has empty requests.
    """
    if any(empty_requests(each) for each in want["adjusted"]):
        got = {**got, "hash": want["hash"]}
    return difference(without_empty(want), without_empty(got), "want")


def empty_requests(pod: Any) -> bool:
    containers = [*pod.get("containers", ()), *pod.get("initContainers", ())]
    return any(each.get("requests") == {} for each in containers)


def without_empty(found: Any) -> Any:
    return {**found, "adjusted": [pruned(each) for each in found["adjusted"]]}


def pruned(tree: Any) -> Any:
    if isinstance(tree, list):
        return [pruned(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    return {name: pruned(each) for name, each in tree.items() if each != {}}


def shown_pod_set(pod_set: PodSetResources, scale_to: int, *, scaled: bool) -> Any:
    shown: dict[str, Any] = {
        "name": pod_set.name,
        "count": pod_set.count,
        "requests": dict(pod_set.requests),
    }
    if pod_set.flavors and scaled:
        shown["flavors"] = dict(pod_set.flavors)
    if scaled and pod_set.count:
        shown["singlePod"] = pod_set.single_pod()
        other = pod_set.scaled_to(scale_to)
        shown["scaled"] = {"count": other.count, "requests": other.requests}
    return shown


def shown_pod(spec: Any) -> Any:
    shown: dict[str, Any] = {}
    for field in ("containers", "initContainers"):
        if spec.get(field):
            shown[field] = [
                {"name": each["name"], **shown_resources(each.get("resources") or {})}
                for each in spec[field]
            ]
    if spec.get("resources") is not None:
        shown["podResources"] = shown_resources(spec["resources"])
    if spec.get("overhead"):
        shown["overhead"] = canonical(spec["overhead"])
    return shown


def shown_resources(resources: Any) -> Any:
    return {
        kind: canonical(resources[kind])
        for kind in ("requests", "limits")
        if resources.get(kind) is not None
    }


def canonical(quantities: Any) -> Any:
    return {name: str(parse(text)) for name, text in quantities.items()}
