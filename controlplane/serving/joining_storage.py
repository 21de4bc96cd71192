"""Emulated CSI drivers for CSIDriver objects that clients create while a cluster is served.

The task stands for the installer of a driver, and is no component of Kubernetes. It watches CSIDrivers and
definitions; what they ask for beyond what runs is started: the driver, its sidecars, the snapshot controller. The
kubelets and the controller manager start again then, with the driver's plugin and the controllers that go with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from attrs import evolve

from actors.log import WARNING
from controlplane.client.loops.informer import Informer, handler
from controlplane.client.resources import CSI_DRIVERS, CUSTOM_RESOURCE_DEFINITIONS
from controlplane.cluster_config import CONTROLLER_MANAGER
from controlplane.controllers.loops import storage
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context, World
    from controlplane.api.tree import Tree
    from controlplane.client.loops.connection import RestConfig
    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.common.controller import Controller
    from controlplane.controllers.loops.storage import Storage

    class ServedCluster(Protocol):
        """A served cluster, as far as its storage side is concerned."""

        config: ClusterConfig
        world: World
        csi_drivers: dict[str, Any]

        def add_process(self, process: Any, client_rate: Any) -> list[str]:
            """Declare a process of the storage side; the actors to start."""

        def names_of(self, process: Any) -> list[str]:
            """Return the actors of a process."""

        def storage_runs(self, wanted: Storage) -> None:
            """Note which storage side runs from now on."""

        def kubelets(self) -> Sequence[str]:
            """Return the names of the kubelets."""


INSTALLER: Final = "storage-installer"

__all__ = ["INSTALLER", "Installed", "run"]


def storage_of(trees: Sequence[Tree]) -> Storage | None:
    """The emulated drivers that CSIDrivers and definitions of a served cluster ask for. Raises UsageError."""
    from controlplane.scenarios import manifest_run
    from controlplane.scenarios.inputs.reading import CREATE, Submission

    def submission(tree: Tree) -> Submission:
        def error(place: str, message: str) -> UsageError:
            return UsageError(f"{tree['kind']} {tree['metadata']['name']}: {place}: {message}")

        return Submission(0, CREATE, tree, error)

    return manifest_run.storage_of([submission(each) for each in trees])


class Installed:
    """The storage processes of a served cluster, and the start of those that are missing."""

    def __init__(self, cluster: ServedCluster) -> None:
        self._cluster = cluster
        self._kinds: dict[str, type[Controller]] = {}
        given = cluster.config.storage
        self._order = [] if given is None else [each.options.name for each in given.drivers]
        for process in [] if given is None else storage.processes_of(given, cluster.config.release):
            self._kinds[process.kind.name] = process.kind

    def install(self, trees: Sequence[Tree]) -> list[str]:
        """Declare what these CSIDrivers and definitions ask for and what does not run yet.

        Returns:
            The actors to start, or to start again, in order.

        Raises:
            UsageError: an annotation of a CSIDriver is wrong.
        """
        cluster = self._cluster
        wanted = storage_of(trees)
        if wanted is None:
            return []
        by_name = {each.options.name: each for each in wanted.drivers}
        added = [each for name, each in by_name.items() if name not in cluster.csi_drivers]
        known = [by_name[name] for name in self._order if name in by_name]
        wanted = evolve(wanted, drivers=[*known, *added])
        started = [each.options.name for each in added]
        self._order += started
        epoch = cluster.config.epoch_ns
        probes = storage.add_drivers(cluster.world, epoch, evolve(wanted, drivers=added))
        cluster.csi_drivers.update(probes)
        for process in storage.processes_of(wanted, cluster.config.release):
            kind: Any = process.kind
            there: Any = self._kinds.get(kind.name)
            if there is None:
                self._kinds[kind.name] = kind
                started += cluster.add_process(process, wanted.client_rate)
            elif there.flags != kind.flags:  # the definitions of groups came later
                there.flags = kind.flags
                started += cluster.names_of(process)
        if not started:
            return []
        cluster.storage_runs(wanted)
        restarted = [*cluster.kubelets()] if added else []
        return [*started, CONTROLLER_MANAGER, *restarted]


async def run(ctx: Context, installed: Installed, server: RestConfig) -> None:
    """Main task: install what CSIDrivers and definitions ask for."""
    changed = ctx.condition()
    fresh = [False]

    def news(*_: Any) -> None:
        fresh[0] = True
        changed.notify_all()

    informers: list[Informer[Any]] = []
    for resource in (CSI_DRIVERS, CUSTOM_RESOURCE_DEFINITIONS):
        informer: Informer[Any] = Informer(ctx, resource, server=server, immediate=True)
        informer.add_handler(handler(news, news, news))
        informer.start()
        informers.append(informer)
    for informer in informers:
        await informer.wait_synced()
    while True:
        if not fresh[0]:
            await changed.wait(idle=True, point="installer.wait")
        fresh[0] = False
        trees = [each.tree for informer in informers for each in _sorted(informer)]
        try:
            names = installed.install(trees)
        except UsageError as error:
            ctx.log("storage.refused", level=WARNING, data={"message": str(error)})
            continue
        for name in names:
            ctx.faults.crash(name)
            ctx.faults.restart(name)
            ctx.log("storage.started", data={"process": name})


def _sorted(informer: Informer[Any]) -> list[Any]:
    return sorted(informer.store, key=lambda each: each.name)
