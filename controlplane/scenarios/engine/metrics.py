"""The metrics of all components of a cluster, gathered from outside of the actors.

Real components answer each at an address of its own; here one snapshot has them all. A kubelet's
samples get the label `node`, and where several API servers or schedulers run, theirs get `instance`.
Counters begin again with a process that starts again; a process that is down tells nothing, except
after the run, when all are: then everyone's last numbers stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.kubelet.node import metrics as kubelet
from controlplane.metrics.family import merged
from controlplane.scheduler import metrics as scheduler

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from controlplane.cluster import Cluster
    from controlplane.metrics.family import Family

__all__ = ["metrics_of"]


def metrics_of(cluster: Cluster) -> tuple[Family, ...]:
    """Every family by name, its samples by labels. Takes no step and changes nothing."""
    own = (probe.name for probes in cluster.own_managers.values() for probe in probes)
    names = (*cluster.components(), *own)
    alive = [name for name in names if cluster.world.alive(name)]
    shown = frozenset(alive or names)
    return merged(
        (
            *_apiservers(cluster, shown),
            *_schedulers(cluster, shown),
            *_managers(cluster, shown),
            *_own_controllers(cluster, shown),
            *_kubelets(cluster, shown),
        )
    )


def _apiservers(cluster: Cluster, shown: Collection[str]) -> Iterator[Family]:
    for name, activity in zip(cluster.apiservers, cluster.activities):
        if activity.families is not None and name in shown:
            yield from _of_instance(activity.families(), name, len(cluster.apiservers))


def _schedulers(cluster: Cluster, shown: Collection[str]) -> Iterator[Family]:
    for name, probe in zip(cluster.schedulers, cluster.probes):
        if probe.core is not None and probe.metrics is not None and name in shown:
            found = scheduler.families(probe.core, probe.metrics)
            yield from _of_instance(found, name, len(cluster.schedulers))


def _managers(cluster: Cluster, shown: Collection[str]) -> Iterator[Family]:
    for probe in cluster.managers:
        if probe.name in shown:
            for controller in probe.controllers:
                yield from _of_instance(controller.families(), probe.name, len(cluster.managers))


def _own_controllers(cluster: Cluster, shown: Collection[str]) -> Iterator[Family]:
    for probes in cluster.own_managers.values():
        for probe in probes:
            if probe.name in shown:
                for controller in probe.controllers:
                    yield from _of_instance(controller.families(), probe.name, len(probes))


def _kubelets(cluster: Cluster, shown: Collection[str]) -> Iterator[Family]:
    for name, host in cluster.machines.items():
        if host.metrics is not None and name in shown:
            for family in kubelet.families(host.metrics, host.sandboxes.values()):
                yield family.labelled("node", name)


def _of_instance(families: Iterable[Family], name: str, instances: int) -> Iterator[Family]:
    for family in families:
        yield family.labelled("instance", name) if instances > 1 else family
