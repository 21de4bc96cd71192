"""The storage side of a cluster: emulated CSI drivers with their sidecars, and the snapshot controller.

A process each, as upstream deploys them: `snapshot-controller` once, and per driver the driver itself (an
actor of the driver's name), `csi-snapshotter` and `csi-provisioner` (with the driver's name behind them from
the second driver on).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import field, frozen

from controlplane.controllers.csi.hostpath import DriverOptions
from controlplane.controllers.csi_snapshotter.controller import CsiSnapshotter
from controlplane.controllers.csi_snapshotter.shared import SidecarFlags
from controlplane.controllers.loops import csi_driver
from controlplane.controllers.loops.csi_driver import DriverProbe
from controlplane.controllers.snapshot.controller import SnapshotController
from controlplane.controllers.snapshot.shared import Flags
from controlplane.controllers.volume.csi_provisioner import CsiProvisioner, ProvisionerFlags

if TYPE_CHECKING:
    from actors import World
    from controlplane.controllers.controller import Controller
    from controlplane.controllers.csi.faults import Fault
    from controlplane.controllers.csi.hostpath import HostpathDriver

PROVISIONER = "-external-provisioner"
"""The emulated provisioner of volumes without content stays out where drivers are emulated."""


@frozen
class CsiDriver:
    """An emulated driver: how it behaves, what it begins with, and what goes wrong.

    With `moods` a search explores what becomes of each call (`controllers.loops.csi_driver`).
    """

    options: DriverOptions = field(factory=DriverOptions)
    initial: HostpathDriver | None = None
    faults: Sequence[Fault] = ()
    moods: bool = False


@frozen
class Storage:
    """The storage side. `snapshots` and `groups` say whether their definitions are served at all."""

    drivers: Sequence[CsiDriver] = ()
    snapshots: bool = True
    groups: bool = True


def controllers_of(storage: Storage) -> list[type[Controller]]:
    """The processes that are controllers."""
    found: list[type[Controller]] = []
    if storage.drivers and storage.snapshots:
        flags = {"flags": Flags(groups=storage.groups)}
        found.append(type("SnapshotController", (SnapshotController,), flags))
    for number, driver in enumerate(storage.drivers):
        name = driver.options.name
        suffix = f" {name}" if number else ""
        if storage.snapshots:
            sidecar = SidecarFlags(name, name, groups=storage.groups)
            found.append(CsiSnapshotter.serving(sidecar, f"csi-snapshotter{suffix}"))
            provisioner = ProvisionerFlags(name, name)
            found.append(CsiProvisioner.serving(provisioner, f"csi-provisioner{suffix}"))
    return found


def add_drivers(world: World, epoch_ns: int, storage: Storage) -> dict[str, DriverProbe]:
    """Start the drivers; where each shows itself, by name."""
    probes: dict[str, DriverProbe] = {}
    for driver in storage.drivers:
        probe = probes[driver.options.name] = DriverProbe()
        world.actor(
            driver.options.name,
            csi_driver.run,
            epoch_ns,
            driver.options,
            probe,
            driver.initial,
            tuple(driver.faults),
            moods=driver.moods,
        )
    return probes
