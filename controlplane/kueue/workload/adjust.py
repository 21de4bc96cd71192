"""Adjust a workload's pod specifications before it is queued: overhead, limit ranges, limits.

The result is a copy that only Kueue computes with; it is never written back. Follows
`pkg/workload/resources.go` and `pkg/util/limitrange`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controlplane.api.quantity import parse
from controlplane.api.tree import Tree
from controlplane.kueue.workload.requests import merged

Summary = dict[str, dict[str, dict[str, str] | None]]
"""Limits by type of object (Container, Pod, PersistentVolumeClaim) and kind (max, min, default...)."""


def smaller(a: str, b: str) -> str:
    """The lower quantity, the first of equal ones."""
    return b if parse(str(a)).cmp(parse(str(b))) > 0 else a


def larger(a: str, b: str) -> str:
    """The higher quantity, the first of equal ones."""
    return b if parse(str(a)).cmp(parse(str(b))) < 0 else a


_RESOLVE = {
    "max": smaller,
    "min": larger,
    "default": None,
    "defaultRequest": None,
    "maxLimitRequestRatio": smaller,
}


def summarize(ranges: Iterable[Tree]) -> Summary:
    """Put limit ranges together: the strictest bounds, the defaults met first."""
    result: Summary = {}
    for each in ranges:
        for item in (each.get("spec") or {}).get("limits") or ():
            known = result.setdefault(item["type"], dict.fromkeys(_RESOLVE))
            for kind, choose in _RESOLVE.items():
                known[kind] = _merged(known[kind], item.get(kind), choose)
    return result


def adjusted(
    workload: Tree, limit_ranges: Iterable[Tree], runtime_classes: Mapping[str, Tree]
) -> Tree:
    """Return the workload with complete requests; the given tree stays as it is.

    Args:
        workload: A Workload.
        limit_ranges: The limit ranges of its namespace, by name.
        runtime_classes: All runtime classes by name. A missing one adds no overhead.
    """
    summary = summarize(limit_ranges)
    spec = workload.get("spec") or {}
    pod_sets = [
        _with_pod_spec(each, _adjusted_pod(_pod_spec(each), summary, runtime_classes))
        for each in spec.get("podSets") or ()
    ]
    return {**workload, "spec": {**spec, "podSets": pod_sets}}


def _pod_spec(pod_set: Tree) -> Tree:
    return (pod_set.get("template") or {}).get("spec") or {}


def _with_pod_spec(pod_set: Tree, spec: Tree) -> Tree:
    return {**pod_set, "template": {**(pod_set.get("template") or {}), "spec": spec}}


def _adjusted_pod(spec: Tree, summary: Summary, runtime_classes: Mapping[str, Tree]) -> Tree:
    spec = dict(spec)
    name = spec.get("runtimeClassName")
    if name is not None and not spec.get("overhead"):
        overhead = (runtime_classes.get(name) or {}).get("overhead")
        if overhead is not None:
            spec["overhead"] = overhead.get("podFixed") or {}
    return _completed_pod(spec, summary)


def limits_as_requests(spec: Tree) -> Tree:
    """A pod specification with requests for what has only limits."""
    return _completed_pod(spec, {})


def _completed_pod(spec: Tree, summary: Summary) -> Tree:
    spec = dict(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [
                {**each, "resources": _completed(each.get("resources"), summary.get("Container"))}
                for each in spec[field]
            ]
    if spec.get("resources") is not None:
        spec["resources"] = _completed(spec["resources"], summary.get("Pod"))
    return spec


def _completed(resources: Any, bounds: Mapping[str, dict[str, str] | None] | None) -> Tree:
    """Default limits and requests from the limit range, then requests from limits."""
    known = dict(resources or {})
    limits, requests = known.get("limits"), known.get("requests")
    if bounds is not None:
        limits = _merged(limits, bounds["default"])
        requests = _merged(requests, bounds["defaultRequest"])
    requests = _merged(requests, limits)
    known |= {"limits": limits, "requests": requests}
    return {name: value for name, value in known.items() if value is not None}


def _merged(
    a: dict[str, str] | None,
    b: dict[str, str] | None,
    choose: Callable[[str, str], str] | None = None,
) -> dict[str, str] | None:
    """As `merged`, but what is absent on both sides stays absent: the hash tells it from empty."""
    return None if a is None and b is None else merged(a, b, choose)
