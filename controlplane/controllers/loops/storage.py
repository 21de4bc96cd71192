"""The storage side of a cluster: emulated CSI drivers with their sidecars, and the snapshot controller.

A process each, as upstream deploys them: `snapshot-controller` once, and per driver the driver itself (an
actor of the driver's name), `csi-snapshotter`, `csi-provisioner` and, where volumes are attached, `csi-attacher`
(with the driver's name behind them from the second driver on). Of the controller and of the snapshotters there
may be several copies, of which one leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import field, frozen

from controlplane.api.times import SECOND
from controlplane.client.election import ElectionConfig
from controlplane.controllers.loops import csi_driver
from controlplane.controllers.loops.csi_driver import DriverProbe
from controlplane.controllers.storage.attachdetach.controller import AttachDetachController
from controlplane.controllers.storage.csi.hostpath import DriverOptions
from controlplane.controllers.storage.csi_attacher import AttacherFlags, CsiAttacher
from controlplane.controllers.storage.csi_snapshotter.controller import CsiSnapshotter
from controlplane.controllers.storage.csi_snapshotter.shared import SidecarFlags
from controlplane.controllers.storage.releases import group_version
from controlplane.controllers.storage.snapshot.controller import SnapshotController
from controlplane.controllers.storage.snapshot.shared import Flags
from controlplane.controllers.storage.volume.csi_provisioner import CsiProvisioner, ProvisionerFlags
from controlplane.gates import LATEST, minor_of

if TYPE_CHECKING:
    from actors import World
    from controlplane.controllers.common.controller import Controller
    from controlplane.controllers.storage.csi.faults import Fault
    from controlplane.controllers.storage.csi.hostpath import HostpathDriver

CONTROLLER_LEASE = "snapshot-controller-leader"
SIDECAR_LEASE = "external-snapshotter-leader"
ATTACHER = AttachDetachController.name
"""It runs where something has to be attached: elsewhere there is nothing for it to find."""
PROVISIONER = "-external-provisioner"
"""The emulated provisioner of volumes without content stays out where drivers are emulated."""


@frozen
class CsiDriver:
    """An emulated driver: how it behaves, what it begins with, and what goes wrong.

    With `moods` a search explores what becomes of each call (`controllers.loops.csi_driver`). `groups` is
    the feature gate CSIVolumeGroupSnapshot of its snapshotter. `attach_required` is what its CSIDriver object
    says: if nodes need VolumeAttachments, there is an attacher.
    """

    options: DriverOptions = field(factory=DriverOptions)
    initial: HostpathDriver | None = None
    faults: Sequence[Fault] = ()
    moods: bool = False
    groups: bool = True
    attach_required: bool = False


@frozen
class Storage:
    """The storage side. `snapshots` and `groups` say whether their definitions are served at all.

    `controller_groups` is the feature gate CSIVolumeGroupSnapshot of the snapshot controller; where the
    definitions are not served it is off, as it switches itself.
    `controllers` and `sidecars` are the numbers of snapshot controllers, and of snapshotters per driver;
    from two on they elect a leader. `client_rate` is how many requests a second each process may send, and after
    how many at once (upstream: 5 and 10); None is no limit.
    """

    drivers: Sequence[CsiDriver] = ()
    snapshots: bool = True
    groups: bool = True
    controller_groups: bool = True
    controllers: int = 1
    sidecars: int = 1
    client_rate: tuple[int, int] | None = None

    @property
    def attaches(self) -> bool:
        """Return whether volumes of any driver are attached to nodes before they are mounted there."""
        return any(each.attach_required for each in self.drivers)


@frozen
class Process:
    """A controller that is a process, or several equal ones that hold an election."""

    kind: type[Controller]
    count: int = 1
    election: ElectionConfig | None = None


def _election(name: str) -> ElectionConfig:
    """With the times of csi-lib-utils."""
    return ElectionConfig(
        name, lease_ns=15 * SECOND, renew_deadline_ns=10 * SECOND, retry_ns=5 * SECOND
    )


def processes_of(storage: Storage, release: str = LATEST) -> list[Process]:
    """The processes that are controllers, as the release of external-snapshotter has them that came with `release`."""
    found: list[Process] = []
    version = group_version(release)
    for number, driver in enumerate(storage.drivers):
        if driver.attach_required:
            name = driver.options.name
            suffix = f" {name}" if number else ""
            attacher = AttacherFlags(name, name, publishes=driver.options.attaches)
            found.append(Process(CsiAttacher.serving(attacher, f"csi-attacher{suffix}")))
    if not storage.snapshots:
        return found
    if storage.drivers:
        flags = {
            "flags": Flags(
                groups=storage.groups and storage.controller_groups,
                group_version=version,
                named_by_content=minor_of(release) < (1, 33),
            )
        }
        kind = type("SnapshotController", (SnapshotController,), flags)
        found.append(Process(kind, storage.controllers, _election(CONTROLLER_LEASE)))
    for number, driver in enumerate(storage.drivers):
        name = driver.options.name
        suffix = f" {name}" if number else ""
        sidecar = SidecarFlags(
            name, name, groups=storage.groups and driver.groups, group_version=version
        )
        snapshotter = CsiSnapshotter.serving(sidecar, f"csi-snapshotter{suffix}")
        lease = f"{SIDECAR_LEASE}-{name.replace('/', '-')}"
        found.append(Process(snapshotter, storage.sidecars, _election(lease)))
        provisioner = ProvisionerFlags(
            name, name, topology=driver.options.topology, attaches=driver.options.attaches
        )
        found.append(Process(CsiProvisioner.serving(provisioner, f"csi-provisioner{suffix}")))
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
