"""The usage of pods as their annotations state it: the figures of `metrics.k8s.io`, and those of autoscalers.

`emulate.controlplane/cpu-usage` ("250m") and `emulate.controlplane/memory-usage` ("100Mi") are what each
container uses while it runs, or, with `.NAME` at the end, one container. A container of which nothing is
said has no figures, and a figure that cannot be read is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from controlplane.api.object import Object
from controlplane.api.quantity import Format, Quantity, QuantityError, parse
from controlplane.api.tree import Tree

PREFIX: Final = "emulate.controlplane/"
MEASURED: Final[Mapping[str, Format]] = {"cpu": "DecimalSI", "memory": "BinarySI"}
"""The resources that `metrics.k8s.io` tells of, and how their amounts are written."""
WINDOW_S: Final = 30
"""Over how many seconds a figure was taken."""
Reading = Callable[[Tree, str, str], int | None]
"""Tells, for a pod, a container's name and a resource, the usage in thousandths; None where it is unknown."""


Stored = Callable[[str], Iterable[Tree]]
"""Returns the objects of a custom kind that a reader knows."""


class UsageSource(Protocol):
    """Tells the usage of pods in another way than by annotations, for example by ResourceUsage objects of KWOK."""

    @property
    def kinds(self) -> Mapping[str, tuple[str, str, str]]:
        """The custom kinds whose objects it goes by, with group, version and resource of each."""
        ...

    def at(self, node_of: Callable[[str], Object[Any] | None], now: int, stored: Stored) -> Reading:
        """Return the reading of pods at a time (ns since 1970).

        `node_of` returns a node by its name, `stored` the objects of one of `kinds`.
        """
        ...


def reading(
    source: UsageSource | None,
    node_of: Callable[[str], Object[Any] | None],
    now: int,
    stored: Stored,
) -> Reading:
    """Return the reading of pods at a time (ns): of the source, or of annotations where there is none."""
    return of_container if source is None else source.at(node_of, now, stored)


def annotated(pod: Tree, *names: str) -> int | None:
    """The first of these annotations that is there, in thousandths; None where there is none."""
    annotations = pod["metadata"].get("annotations") or {}
    for name in names:
        text = annotations.get(f"{PREFIX}{name}")
        if text is not None:
            try:
                return parse(text).milli_value()
            except QuantityError:
                return None
    return None


def of_container(pod: Tree, container: str, resource: str) -> int | None:
    """Return a container's usage of a resource, in thousandths; None where it is unknown."""
    return annotated(pod, f"{resource}-usage.{container}", f"{resource}-usage")


def running_containers(pod: Tree) -> list[str]:
    """The names of the containers that run, side cars first."""
    status = pod.get("status") or {}
    if status.get("phase") != "Running":
        return []
    return [
        each["name"]
        for key in ("initContainerStatuses", "containerStatuses")
        for each in status.get(key) or ()
        if (each.get("state") or {}).get("running") is not None
    ]


def of_pod(pod: Tree, read: Reading = of_container) -> dict[str, dict[str, int]]:
    """By container and resource, in thousandths: what is known of the containers that run."""
    found: dict[str, dict[str, int]] = {}
    for name in running_containers(pod):
        known = {
            resource: amount
            for resource in MEASURED
            for amount in [read(pod, name, resource)]
            if amount is not None
        }
        if known:
            found[name] = known
    return found


def of_pods(pods: Iterable[Tree], read: Reading = of_container) -> dict[str, int]:
    """By resource, in thousandths: what these pods use together."""
    total = dict.fromkeys(MEASURED, 0)
    for pod in pods:
        for used in of_pod(pod, read).values():
            for resource, amount in used.items():
                total[resource] += amount
    return total


def written(used: Mapping[str, int]) -> Tree:
    """Amounts as the API writes them."""
    return {name: str(Quantity.new_milli(used[name], MEASURED[name])) for name in used}
