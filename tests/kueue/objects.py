"""Small Kueue objects for tests."""

from __future__ import annotations

from typing import Any

from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.kueue.cache.cache import Cache
from controlplane.kueue.gates import Gates

START = parse_time("2025-03-01T12:00:00Z")
Quotas = dict[str, Any]
"""By `flavor/resource`: nominal, or a tuple of nominal, borrowing limit and lending limit."""


def groups(quotas: Quotas, resources: tuple[str, ...] = ("cpu",)) -> list[Any]:
    """One resource group; its flavors in the order of the quotas."""
    flavors: dict[str, list[Any]] = {}
    for text, amounts in quotas.items():
        flavor, _, resource = text.partition("/")
        values = amounts if isinstance(amounts, tuple) else (amounts,)
        names = ("nominalQuota", "borrowingLimit", "lendingLimit")
        known = {
            name: str(value)
            for name, value in zip(names, values, strict=False)
            if value is not None
        }
        flavors.setdefault(flavor, []).append({"name": resource, **known})
    return [
        {
            "coveredResources": list(resources),
            "flavors": [{"name": name, "resources": each} for name, each in flavors.items()],
        }
    ]


def cluster_queue(
    name: str, quotas: Quotas, cohort: str = "", resources: tuple[str, ...] = ("cpu",), **spec: Any
) -> Any:
    known = {"namespaceSelector": {}, "resourceGroups": groups(quotas, resources), **spec}
    if cohort:
        known["cohortName"] = cohort
    return {"metadata": {"name": name, "generation": 1}, "spec": known}


def cohort(
    name: str,
    quotas: Quotas | None = None,
    parent: str = "",
    weight: str | None = None,
    resources: tuple[str, ...] = ("cpu",),
) -> Any:
    spec: dict[str, Any] = {"resourceGroups": groups(quotas, resources)} if quotas else {}
    if parent:
        spec["parentName"] = parent
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    return {"metadata": {"name": name}, "spec": spec}


def flavor(name: str, labels: Any = None, taints: Any = None) -> Any:
    return {
        "metadata": {"name": name},
        "spec": {"nodeLabels": labels or {}, "nodeTaints": taints or []},
    }


def local_queue(name: str, queue: str, namespace: str = "default") -> Any:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": queue}}


def pod_set(name: str = "main", count: int = 1, requests: Any = None, **fields: Any) -> Any:
    container = {"name": "c", "resources": {"requests": requests or {}}}
    spec = {"containers": [container], **fields.pop("spec", {})}
    return {"name": name, "count": count, "template": {"spec": spec}, **fields}


def workload(
    name: str,
    queue: str = "user",
    requests: Any = None,
    *,
    priority: int = 0,
    age: int = 0,
    pod_sets: list[Any] | None = None,
) -> Any:
    """A pending workload, created `age` seconds before START."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": format_time(START - age * SECOND),
        },
        "spec": {
            "queueName": queue,
            "priority": priority,
            "active": True,
            "podSets": pod_sets or [pod_set(requests=requests or {"cpu": "1"})],
        },
    }


def admitted(tree: Any, queue: str, used: str = "default", ago: int = 60) -> Any:
    """The workload holding quota of one flavor in a cluster queue, since `ago` seconds."""
    since = format_time(START - ago * SECOND)
    assignments = []
    for each in tree["spec"]["podSets"]:
        requests = each["template"]["spec"]["containers"][0]["resources"]["requests"]
        assignments.append(
            {
                "name": each["name"],
                "count": each["count"],
                "flavors": dict.fromkeys(requests, used),
                "resourceUsage": {
                    name: str(int(amount) * each["count"]) for name, amount in requests.items()
                },
            }
        )
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since}
        for kind in ("QuotaReserved", "Admitted")
    ]
    status = {
        "admission": {"clusterQueue": queue, "podSetAssignments": assignments},
        "conditions": conditions,
    }
    return {**tree, "status": status}


def evicted(tree: Any, reason: str = "Preempted") -> Any:
    """The workload asked to stop."""
    new = {
        "type": "Evicted",
        "status": "True",
        "reason": reason,
        "message": "",
        "lastTransitionTime": format_time(START),
    }
    known = tree["status"]
    return {**tree, "status": {**known, "conditions": [*known["conditions"], new]}}


def cache(
    queues: list[Any],
    workloads: list[Any] = [],  # noqa: B006 - never changed
    cohorts: list[Any] = [],  # noqa: B006
    flavors: tuple[str, ...] = ("default",),
    gates: Gates | None = None,
    *,
    fair_sharing: bool = False,
) -> Cache:
    """A cache with these objects."""
    made = Cache(gates or Gates(), fair_sharing=fair_sharing)
    for name in flavors:
        made.add_or_update_flavor(flavor(name))
    for each in cohorts:
        made.add_or_update_cohort(each)
    for each in queues:
        made.add_cluster_queue(each)
    for each in workloads:
        assert made.add_or_update(each)
    return made
