"""The default churn for storage: snapshots, groups and restores while processes die and the driver fails.

A user takes snapshots, restores from them and deletes them; what differs is who goes first, what becomes of
each call to the driver (done; refused; done, but the answer lost), and when the sidecar or the controller dies.
In the end nothing is left over, on either side. In part "consistency" a program writes to two volumes in turn
while both are snapshotted together: what is restored is one point in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios import storage
from controlplane.scenarios.invariants.storage import (
    ALWAYS,
    CONTROLLER,
    DRIVER,
    GROUPS,
    SIDECAR,
    SNAPSHOTS,
    volume,
)
from controlplane.scenarios.option import Option
from controlplane.scenarios.scenario import Invariant, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.run import Run
    from controlplane.scenarios.setting import Setting
    from controlplane.scenarios.user import User

REST_S = 2000
"""How long is waited at the end: longer than two resyncs."""
PATIENCE_S = 900
VOLUMES = 2
WRITES = 40
RESTORED = ("restored-0", "restored-1")


async def _die(user: User) -> None:
    """Whoever the fault names dies at some moment."""
    victims = {"sidecar": SIDECAR, "controller": CONTROLLER}
    victim = victims.get(user.options["fault"])
    if victim is not None:
        await storage.die_amid(user, victim)
    elif user.options["fault"] == "leader":
        await storage.change_leader(user)


async def create(user: User) -> None:
    """One snapshot is deleted soon after it was asked for, another once it is ready."""
    await storage.claims(user, VOLUMES)
    await storage.take(user, "one")
    await storage.take(user, "two", "pvc-1", ("delete", "retain")[user.choose(2, "policy")])
    await _die(user)
    await user.sleep((5, 2, 30)[user.choose(3, "pause")])
    await storage.remove(user, "VolumeSnapshot", "one")
    await user.wait_until(_all_ready, patience_s=PATIENCE_S)
    await storage.remove(user, "VolumeSnapshot", "two")


def _all_ready(run: Run) -> bool:
    living = [each for each in run.objects(SNAPSHOTS) if not _goes(each)]
    return all((each.tree.get("status") or {}).get("readyToUse") for each in living)


def _goes(obj: Any) -> bool:
    return bool(obj.metadata.get("deletionTimestamp"))


async def group(user: User) -> None:
    """A group is taken, one of its members is asked to go, and then the group."""
    await storage.claims(user, VOLUMES)
    await storage.take_group(user, "daily")
    await _die(user)
    await user.wait_until(lambda run: storage.ready(run, GROUPS) == 1, patience_s=PATIENCE_S)
    await user.sleep(5)
    if user.choose(2, "a member first"):
        for each in user.run.objects(SNAPSHOTS)[:1]:
            await storage.remove(user, "VolumeSnapshot", each.name)
    await storage.remove(user, "VolumeGroupSnapshot", "daily")


async def restore(user: User) -> None:
    """A claim is restored from a snapshot, which is deleted once the claim is bound, or while it is not."""
    await storage.claims(user, 1)
    await storage.storage_class(user)
    await storage.take(user, "one")
    await user.wait_until(lambda run: storage.ready(run) == 1, patience_s=PATIENCE_S)
    await user.sleep(2)
    await storage.restore(user, RESTORED[0], "one")
    await _die(user)
    await user.wait_until(lambda run: storage.bound(run) == 2, patience_s=PATIENCE_S)
    await storage.remove(user, "VolumeSnapshot", "one")


async def consistency(user: User) -> None:
    """A program writes to both volumes in turn, and waits for each write; meanwhile a group is taken."""
    await storage.claims(user, VOLUMES)
    await storage.storage_class(user)
    writer = user.spawn(_writer)
    await user.sleep(0.002 * user.choose(10, "when"))
    if user.options["cut"] == "series":
        for number in range(VOLUMES):
            await storage.take(user, f"daily-{number}", f"pvc-{number}")
    else:
        await storage.take_group(user, "daily")
        await user.wait_until(lambda run: storage.ready(run, GROUPS) == 1, patience_s=PATIENCE_S)
    await user.join(writer)
    await user.wait_until(_all_ready, patience_s=PATIENCE_S)
    for name, each in zip(RESTORED, user.run.objects(SNAPSHOTS), strict=False):
        await storage.restore(user, name, each.name)
    await user.wait_until(lambda run: storage.bound(run) == 2 * VOLUMES, patience_s=PATIENCE_S)


async def _writer(user: User) -> None:
    from controlplane.api.csi import Write

    for number in range(WRITES):
        await user.ctx.ask(DRIVER, Write(volume(number % VOLUMES), number))
        await user.sleep(0.001)


PARTS: dict[str, Callable[[User], Coroutine[Any, Any, None]]] = {
    "create": create,
    "group": group,
    "restore": restore,
    "consistency": consistency,
}
PART = Option("part", choices=tuple(PARTS), default="create", help="What the user does.")
FAULT = Option(
    "fault",
    choices=("none", "driver", "sidecar", "controller", "leader"),
    default="driver",
    help="Who fails: calls to the driver, a process that dies, or of two of a kind the one that leads.",
)
CUT = Option(
    "cut",
    choices=("atomic", "sequential", "series"),
    default="atomic",
    help=(
        "How volumes are cut: a group at once, one after the other as hostpath does, or each by a "
        "snapshot of its own."
    ),
)


async def churn(user: User) -> None:
    """The chosen part; then all comes to rest."""
    await PARTS[user.options["part"]](user)
    await user.sleep(REST_S)
    storage.end(user)


def build(setting: Setting) -> ClusterConfig:
    """Storage alone."""
    atomic = setting[CUT.key] == "atomic"
    moods = setting[FAULT.key] == "driver"
    copies = 2 if setting[FAULT.key] == "leader" else 1
    return storage.world(volumes=VOLUMES, moods=moods, copies=copies, atomic_groups=atomic)(setting)


def invariants(_setting: Setting) -> tuple[Invariant, ...]:
    """What must hold."""
    return (*ALWAYS,)


SCENARIO = Scenario(
    "storage-churn",
    workload=churn,
    build=build,
    invariants=invariants,
    options=(PART, FAULT, CUT),
)
