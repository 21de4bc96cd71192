"""Requests, limits and QoS class of pods."""

from __future__ import annotations

from typing import Any

from controlplane.api import pod_resources
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import Options
from controlplane.api.quantity import parse

_KNOWN = {
    "UseStatusResources": "use_status",
    "InPlacePodLevelResourcesVerticalScalingEnabled": "pod_level_status",
    "SkipPodLevelResources": "skip_pod_level",
    "SkipContainerLevelResources": "skip_containers",
    "ExcludeOverhead": "exclude_overhead",
}


def answer(case: Any) -> Any:
    """All sums of one pod."""
    given = dict(case["options"])
    missing = given.pop("NonMissingContainerRequests", None)
    options = Options(
        **{_KNOWN[name]: value for name, value in given.items()},
        non_missing=None if missing is None else {k: parse(v) for k, v in missing.items()},
    )
    pod = Pod.from_tree(case["pod"])
    sums = {
        "requests": pod_resources.pod_requests(pod, options),
        "limits": pod_resources.pod_limits(pod, options),
        "aggregate_requests": pod_resources.aggregate_requests(pod, options),
        "aggregate_limits": pod_resources.aggregate_limits(pod, options),
    }
    return {
        name: {resource: amount.canonical() for resource, amount in total.items()}
        for name, total in sums.items()
    } | {
        "qos": pod_resources.pod_qos(pod),
        "computed_qos": pod_resources.compute_qos(pod),
        "pod_level_set": pod_resources.pod_level_resources_set(pod),
        "resize_deferred": pod_resources.resize_pending(pod, "Deferred"),
        "resize_infeasible": pod_resources.resize_pending(pod, "Infeasible"),
    }
