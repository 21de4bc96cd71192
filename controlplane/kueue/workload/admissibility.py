"""Checks of a workload against its namespace before it can be admitted.

Follows `ValidateAdmissibility` of `pkg/workload/resources.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from controlplane.api.labels import Selector
from controlplane.api.tree import Tree
from controlplane.api.validation import aggregate, invalid
from controlplane.kueue.amounts import greater, requests_of_texts
from controlplane.kueue.workload.adjust import Summary, larger, smaller, summarize
from controlplane.kueue.workload.requests import merged, pod_spec_requests

ABOVE_LIMITS: Final = "requests must not exceed its limits"
ABOVE_MAX: Final = "requests must not be above the limitRange max"
BELOW_MIN: Final = "requests must not be below the limitRange min"
MISMATCH: Final = "workload namespace doesn't match ClusterQueue selector"


@dataclass(frozen=True)
class Inadmissible:
    """Why a workload cannot be admitted.

    `mismatch` is True if the queue's namespace selector does not match. `prefix` and `errors` are
    the parts of a message about resources.
    """

    message: str
    mismatch: bool = False
    prefix: str = ""
    errors: tuple[str, ...] = ()


def inadmissible(
    workload: Tree,
    namespace: Tree | None,
    selector: Selector | None,
    limit_ranges: Iterable[Tree],
) -> Inadmissible | None:
    """Return why the (adjusted) workload cannot be admitted, None if nothing speaks against it.

    Args:
        workload: The Workload with adjusted pod specifications.
        namespace: Its Namespace, None if there is none.
        selector: The namespace selector of the ClusterQueue, None if it does not count.
        limit_ranges: The limit ranges of the namespace, by name.
    """
    name = workload["metadata"].get("namespace", "")
    if namespace is None:
        return Inadmissible(
            f'workload namespace "{name}" does not exist: namespaces "{name}" not found'
        )
    if selector is not None and not selector.matches(namespace["metadata"].get("labels") or {}):
        return Inadmissible(MISMATCH, mismatch=True)
    if errors := list(resource_errors(workload)):
        return _failed("resources validation failed", errors)
    if errors := limit_range_errors(workload, limit_ranges):
        return _failed("resources didn't satisfy LimitRange constraints", errors)
    return None


def _failed(prefix: str, errors: list[str]) -> Inadmissible:
    return Inadmissible(
        f"{prefix}: {aggregate(errors)}", prefix=prefix, errors=tuple(dict.fromkeys(errors))
    )


def _pod_specs(workload: Tree) -> Iterator[tuple[str, Tree]]:
    for at, each in enumerate(workload["spec"].get("podSets") or ()):
        yield f"spec.podSets[{at}].template.spec", (each.get("template") or {}).get("spec") or {}


def resource_errors(workload: Tree) -> Iterator[str]:
    """One text per container (or pod) whose requests exceed its limits."""
    for path, spec in _pod_specs(workload):
        parts: list[tuple[str, Any]] = [
            (f"{path}.{field}[{at}]", each.get("resources"))
            for field in ("initContainers", "containers")
            for at, each in enumerate(spec.get(field) or ())
        ]
        parts.append((f"{path}.resources", spec.get("resources")))
        for where, resources in parts:
            known = resources or {}
            names = greater(
                requests_of_texts(known.get("requests")), requests_of_texts(known.get("limits"))
            )
            if names:
                yield invalid(where, names, ABOVE_LIMITS)


def limit_range_errors(workload: Tree, limit_ranges: Iterable[Tree]) -> list[str]:
    """One text per container or pod outside the limit ranges."""
    summary = summarize(limit_ranges)
    return [
        error for path, spec in _pod_specs(workload) for error in _spec_errors(path, spec, summary)
    ]


def _spec_errors(path: str, spec: Tree, summary: Summary) -> Iterator[str]:
    bounds = summary.get("Container")
    if bounds is not None:
        for field in ("initContainers", "containers"):
            for at, each in enumerate(spec.get(field) or ()):
                known = each.get("resources") or {}
                requests, limits = known.get("requests"), known.get("limits")
                yield from _outside(
                    f"{path}.{field}[{at}]",
                    requests_of_texts(merged(requests, limits, smaller)),
                    requests_of_texts(merged(requests, limits, larger)),
                    bounds,
                )
    bounds = summary.get("Pod")
    if bounds is not None:
        total = pod_spec_requests(spec)
        yield from _outside(path, total, total, bounds)


def _outside(
    path: str, low: dict[str, int], high: dict[str, int], bounds: dict[str, dict[str, str] | None]
) -> Iterator[str]:
    if names := greater(high, requests_of_texts(bounds["max"])):
        yield invalid(path, names, ABOVE_MAX)
    if names := greater(requests_of_texts(bounds["min"]), low):
        yield invalid(path, names, BELOW_MIN)
