"""Hazards that are open upstream, provoked on purpose: one part per hazard, each for a search to find.

None of these has a fix to be turned off; most were derived by reading the controllers. Each part says which
invariant breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Invariant, Scenario
from controlplane.scenarios.invariants.storage import (
    ALWAYS,
    CONTROLLER,
    DRIVER,
    GROUP_CONTENTS,
    GROUPS,
    PROVISIONER,
    group_calls_back_off,
    groups_get_ready,
    snapshots_get_ready,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

MOMENTS: Final = 40


async def _some_steps_later(user: User, moments: int = MOMENTS) -> None:
    for _ in range(user.choose(moments, "moment")):
        await user.point("user.wait")


async def lost_mark(user: User) -> None:
    """A snapshot is deleted in the instant in which the sidecar marks its content, and the driver is slow.

    Controller and sidecar each write all annotations, from what they know: the mark is lost, and the
    content let go when the call has timed out. Breaks I3.
    """
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    await user.ctx.ask(DRIVER, Fault("CreateSnapshot", count=1, delay_ns=70 * SECOND))
    await storage.take(user, "daily")
    await _some_steps_later(user)
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(1000)


async def circle(user: User) -> None:
    """A claim is to be restored from a snapshot that is just being deleted (external-snapshotter 747).

    The snapshot stays because a claim waits for it, and the claim waits because the snapshot is being
    deleted. Breaks I6.
    """
    await storage.claims(user, 1)
    await storage.storage_class(user)
    await storage.take(user, "daily")
    await user.wait_until(lambda run: storage.ready(run) == 1, patience_s=60)
    await user.sleep(2)
    await storage.remove(user, "VolumeSnapshot", "daily")
    await storage.restore(user, "restored", "daily")
    await user.sleep(2000)


async def early_deletion(user: User) -> None:
    """Delete a group before it has its finalizer, and its content, which stays, by hand later.

    No controller marks that content any more. Breaks I6.
    """
    await storage.claims(user, 2)
    await storage.take_group(user, "daily")
    await _some_steps_later(user)
    await storage.remove(user, "VolumeGroupSnapshot", "daily")
    await user.sleep(60)
    for obj in user.run.objects(GROUP_CONTENTS):
        await storage.remove(user, "VolumeGroupSnapshotContent", obj.name)
    await user.sleep(1000)


async def lost_answer(user: User) -> None:
    """Drop an event that the server sends to the controller, at a chosen moment.

    If that was the creation of a content, the controller takes "exists already" for success and keeps what
    it meant to create, which has no version: every change of it counts as old. Some snapshot never
    becomes ready.
    """
    await storage.claims(user, 1)
    user.delay(CONTROLLER, "apiserver", 0.01)
    await storage.take(user, "daily")
    await user.sleep(0.01 * user.choose(16, "moment"))
    user.lose("apiserver", CONTROLLER, 1 + user.choose(4, "how many"))
    await user.sleep(3600)


async def shared_finalizer(user: User) -> None:
    """Two claims are restored from one snapshot; the first to be done takes the provisioner's finalizer off.

    The other claim is deleted, and the snapshot: nothing keeps that until the driver has answered. Breaks
    I1.
    """
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    await storage.storage_class(user)
    await storage.take(user, "daily", policy="retain")
    await user.wait_until(lambda run: storage.ready(run) == 1, patience_s=60)
    await user.ctx.ask(DRIVER, Fault("CreateVolume", count=1, delay_ns=5 * SECOND))
    await storage.restore(user, "first", "daily")
    await user.sleep(1)
    late = Fault("CreateVolume", count=6, code="DeadlineExceeded", message="late", when="after")
    await user.ctx.ask(DRIVER, late)
    await storage.restore(user, "second", "daily")
    await user.sleep((2, 1, 3)[user.choose(3, "pause")])
    await storage.remove(user, "PersistentVolumeClaim", "second")
    await user.wait_until(lambda run: storage.bound(run) == 2, every_s=0.1, patience_s=60)
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(1000)


async def partial_group(user: User) -> None:
    """One of a group's volumes is gone from the storage.

    The driver has cut the others before it fails, and leaves what it cut behind, anew with each try. Breaks
    I1.
    """
    await storage.claims(user, 2)
    disk = user.cluster.csi_drivers[DRIVER].driver
    assert disk is not None
    del disk.volumes["vol-1"]
    await storage.take_group(user, "daily")
    await user.sleep(1)
    await storage.remove(user, "VolumeGroupSnapshot", "daily")
    await user.sleep(5)


async def lost_provision(user: User) -> None:
    """Delete a claim while its volume is created, and crash the provisioner (external-provisioner 486).

    It knew of the volume in its memory alone; when the driver is done no component asks for it. Breaks I1.
    """
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.storage_class(user)
    await user.ctx.ask(DRIVER, Fault("CreateVolume", count=1, delay_ns=5 * SECOND))
    await storage.restore(user, "data", "")
    await user.sleep((2, 1, 3)[user.choose(3, "pause")])
    await storage.remove(user, "PersistentVolumeClaim", "data")
    user.crash(PROVISIONER)
    user.restart(PROVISIONER)
    await user.sleep(1000)


async def poll(user: User) -> None:
    """A driver goes on working on a group after it has cut it, and says so.

    The sidecar's own marks wake it, so it asks again at once. Breaks I8, as it does for groups.
    """
    await storage.claims(user, 2)
    await storage.take_group(user, "daily")
    await user.wait_until(lambda run: storage.ready(run, GROUPS) == 1, patience_s=60)


PARTS: Final[dict[str, Callable[[User], Coroutine[Any, Any, None]]]] = {
    "lost-mark": lost_mark,
    "circle": circle,
    "early-deletion": early_deletion,
    "lost-answer": lost_answer,
    "shared-finalizer": shared_finalizer,
    "partial-group": partial_group,
    "lost-provision": lost_provision,
    "poll": poll,
}
PART = Option("part", choices=tuple(PARTS), default="lost-mark", help="Which hazard.")


async def hazard(user: User) -> None:
    """Run the chosen part; afterwards no process repairs its result."""
    await PARTS[user.options["part"]](user)
    storage.end(user)


def build(setting: Setting) -> ClusterConfig:
    """Storage alone; in part "poll" a driver that is slow to be ready."""
    upload = SECOND // 2 if setting[PART.key] == "poll" else 0
    return storage.world(volumes=2, upload_ns=upload)(setting)


def invariants(setting: Setting) -> tuple[Invariant, ...]:
    """The invariants."""
    if setting[PART.key] == "lost-answer":
        return (snapshots_get_ready(), *ALWAYS)
    if setting[PART.key] == "poll":
        return (group_calls_back_off(), groups_get_ready(), *ALWAYS)
    return ALWAYS


SCENARIO = Scenario(
    "storage-hazards",
    workload=hazard,
    build=build,
    invariants=invariants,
    options=(PART,),
)
