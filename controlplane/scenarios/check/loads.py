"""The load of a workload that an autoscaler scales: usually, at least and at most, from the autoscaler's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from controlplane.scenarios.check.subject import cpu_request

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.scenarios.check.subject import Subject, Workload

__all__ = ["Loads", "each_bears", "loads_of", "milli"]

SHORT: Final = 0.4
"""By how many pods' load a level stays below what its number of pods bears: rounding up gives that number."""


@frozen
class Loads:
    """Levels of load in thousandths of a CPU, of all pods together."""

    usual: int
    """As many pods as the manifest wants are needed."""
    least: int
    """As many pods as `minReplicas` says are needed."""
    most: int
    """As many pods as `maxReplicas` says are needed."""


def loads_of(subject: Subject, tree: Tree) -> Loads | None:
    """The levels of load of a workload; None if no autoscaler goes by its CPU."""
    metadata = tree.get("metadata") or {}
    key = f"{tree.get('kind')}/{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    workload = subject.workload(key)
    scaler = subject.scaler_of(key)
    bears = 0.0 if workload is None else each_bears(subject, workload)
    if scaler is None or workload is None or not bears:
        return None
    wanted = min(max(workload.replicas or scaler.least, scaler.least), scaler.most)
    levels = (wanted, scaler.least, scaler.most)
    usual, least, most = (round((number - SHORT) * bears) for number in levels)
    return Loads(usual, least, most)


def each_bears(subject: Subject, workload: Workload) -> float:
    """The load of each pod at the target of its autoscaler, in thousandths of a CPU; 0 without a target for CPU."""
    scaler = subject.scaler_of(workload.key)
    if scaler is None or scaler.cpu is None:
        return 0.0
    return cpu_request(workload.pod_spec) * scaler.cpu / 100


def milli(amount: int) -> str:
    """Thousandths of a CPU as a quantity."""
    return f"{amount}m"
