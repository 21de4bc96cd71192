"""The default churn for storage: snapshots, groups and restores while processes crash and the driver fails.

A user takes snapshots, restores from them and deletes them; what differs is the order of tasks, what becomes of
each call to the driver (done; refused; done, but the answer lost), and when the sidecar or the controller dies.
In the end nothing is left over, on either side. In part "consistency" a program writes to two volumes in turn
while both are snapshotted together: what is restored is one point in time. In part "pods" the program is a pod's,
which writes through what its kubelet mounted, and in part "attach" such a pod moves from one node to another. In part
"claims" claims that a pod uses are deleted and made again under their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Invariant, Scenario
from controlplane.scenarios.invariants.attachment import ATTACHED, NODES
from controlplane.scenarios.invariants.identity import writes_keep_to_their_object
from controlplane.scenarios.invariants.pod_lives import (
    FORCED,
    ended_pods_stay_ended,
    objects_outlast_their_mounts,
)
from controlplane.scenarios.invariants.storage import (
    ALWAYS,
    CLAIMS,
    CONTROLLER,
    DRIVER,
    GROUPS,
    PROVISIONER,
    SIDECAR,
    SNAPSHOTS,
    contents_stay_for_their_snapshots,
    one_call_at_a_time,
    volume,
)
from controlplane.scenarios.invariants.views import PODS
from controlplane.scenarios.invariants.volumes import CLAIMED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actors import Task
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

SIDECARS = {"attach": "csi-attacher", "claims": PROVISIONER}
"""The sidecars that die in the parts in which volumes themselves come and go."""
REST_S = 2000
"""The wait at the end: longer than two resyncs."""
PATIENCE_S = 900
MOMENTS = 2000
"""The steps that a pod is given to be bound."""
VOLUMES = 2
WRITES = 40
PAUSES_S = (5, 1, 20, 8, 8.2, 8.4, 8.6, 8.8, 9)
"""Pauses before a pod that has a volume is deleted. Kubelets report the volumes in use every ten seconds: with the
grace of one second some of these lead to an unmount just before a report, and just after it."""
RESTORED = ("restored-0", "restored-1")


async def _die(user: User) -> None:
    """Crash the process that the fault names, at a chosen moment."""
    victims = {"sidecar": SIDECAR, "controller": CONTROLLER}
    if user.options["part"] in SIDECARS:
        sidecar = SIDECARS[user.options["part"]]
        victims = {"sidecar": sidecar, "controller": "controller-manager", "leader": "node-1"}
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
    if user.choose(2, "a snapshot that names the content of another"):
        await storage.take_content_of(user, "thief", "two")
        await user.sleep(1)
        await storage.remove(user, "VolumeSnapshot", "thief")
        await user.sleep(5)
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
    await _snapshotted_while(user, user.spawn(_writer))


async def pods(user: User) -> None:
    """The program is a pod's, which begins to write once its volumes are attached and mounted."""
    await storage.claims(user, VOLUMES)
    await storage.storage_class(user)
    claims = [f"pvc-{number}" for number in range(VOLUMES)]
    notes = {"writes-to": " ".join(claims), "writes": str(WRITES), "write-seconds": "0.001"}
    await storage.pod(user, "writer", *claims, notes=notes)
    await user.wait_until(lambda run: _written(run) > 0, every_s=0.01, patience_s=PATIENCE_S)
    await _snapshotted_while(user, user.spawn(_wait_for_writes))


def _written(run: Run) -> int:
    disk = run.cluster.csi_drivers[DRIVER].driver
    assert disk is not None
    return sum(len(disk.volumes[volume(number)].writes) for number in range(VOLUMES))


async def _wait_for_writes(user: User) -> None:
    await user.wait_until(lambda run: _written(run) == WRITES, patience_s=PATIENCE_S)


async def attach(user: User) -> None:
    """A pod on one node is followed by one on another, which gets the volume when the first is gone."""
    await storage.claims(user, 1)
    notes = {"writes-to": "pvc-0", "writes": "3", "write-seconds": "1"}
    await storage.pod(user, "first", "pvc-0", node="node-1", notes=notes)
    if user.choose(3, "both at once") != 1:
        await user.wait_until(lambda run: storage.runs(run, "first"), patience_s=PATIENCE_S)
    await storage.pod(user, "second", "pvc-0", node="node-2", notes=notes)
    await _die(user)
    await user.sleep(PAUSES_S[user.choose(len(PAUSES_S), "pause")])
    await _remove_pod(user, "first")
    await _die(user)
    await user.wait_until(lambda run: storage.runs(run, "second"), patience_s=PATIENCE_S)
    ending = user.choose(4, "the second goes too")
    if ending:
        await storage.remove(user, "Pod", "second")
    if ending > 1:
        # The volume comes back while its detach is under way: nothing may mount what is about to be detached.
        await user.wait_until(
            lambda run: not _is_used(run, "node-2"), every_s=0.05, patience_s=PATIENCE_S
        )
        await user.sleep((0.1, 0, 0.05, 0.15, 0.2, 1, 5)[user.choose(7, "when it comes back")])
        await storage.pod(user, "third", "pvc-0", node="node-2", notes=notes)
        await user.wait_until(lambda run: storage.runs(run, "third"), patience_s=PATIENCE_S)


def _is_used(run: Run, node: str) -> bool:
    """Return whether a node's status shows a volume as in use."""
    return any(
        (each.tree.get("status") or {}).get("volumesInUse")
        for each in run.objects(NODES)
        if each.name == node
    )


async def _remove_pod(user: User, name: str) -> None:
    """Delete a pod; by force its object goes at once, while its containers still run."""
    if not user.choose(2, "by force"):
        await storage.remove(user, "Pod", name)
        return
    uids = [each.uid for each in user.run.objects(PODS) if each.name == name]
    user.run.notes.setdefault(FORCED, set()).update(uids)
    for uid in uids:
        await user.attempt(user.delete("Pod", name, uid=uid, grace_period_seconds=0))


async def claims(user: User) -> None:
    """Claims, one with a volume made by hand, are deleted while a pod uses them, and made again under their names."""
    await storage.claims(user, 1)
    await storage.storage_class(user)
    for name in ("data", "spare"):
        await storage.restore(user, name, "")
    await user.wait_until(lambda run: storage.bound(run) == 3, patience_s=PATIENCE_S)
    await storage.pod(user, "first", "data", "pvc-0", node="node-1")
    progress = user.choose(3, "once it runs")
    if progress == 1:
        await user.wait_until(lambda run: storage.runs(run, "first"), patience_s=PATIENCE_S)
    elif progress == 2:  # before the caches of the controllers know that the pod has a node
        await user.wait_steps_until(_has_a_node, MOMENTS)
    for name in ("data", "spare", "pvc-0"):
        await storage.remove(user, "PersistentVolumeClaim", name)
    await _die(user)
    await user.sleep((5, 1, 20)[user.choose(3, "pause")])
    await _remove_pod(user, "first")
    await user.wait_until(lambda run: not run.objects(CLAIMS), patience_s=PATIENCE_S)
    await _die(user)
    for name in ("data", "spare"):
        await storage.restore(user, name, "")
    await storage.claim_by_hand(user, 0, from_backup=bool(user.choose(2, "from a backup")))
    await storage.pod(user, "second", "data", node="node-1")
    await user.wait_until(lambda run: storage.runs(run, "second"), patience_s=PATIENCE_S)
    if user.choose(2, "the volume is given free"):
        free = {"spec": {"claimRef": None}}
        await user.attempt(user.patch("PersistentVolume", "pv-0", free))


def _has_a_node(run: Run) -> bool:
    return any(each.tree["spec"].get("nodeName") for each in run.objects(PODS))


async def _snapshotted_while(user: User, writer: Task) -> None:
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
    "pods": pods,
    "attach": attach,
    "claims": claims,
}
KUBELETS = {"pods": 1, "attach": 2, "claims": 1}
"""The nodes of the parts that have pods."""
PART = Option("part", choices=tuple(PARTS), varied=True, help="The user's actions.")
FAULT = Option(
    "fault",
    choices=("driver", "sidecar", "controller", "leader", "none"),
    varied=True,
    help=(
        "Who fails: calls to the driver, a process that dies, or of two of a kind the one that leads. In "
        "part attach (claims) sidecar is the attacher (provisioner), controller the controller manager, leader a "
        "kubelet."
    ),
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
    part = setting[PART.key]
    nodes = KUBELETS.get(part, 0)
    if part in SIDECARS:
        copies = 1
    return storage.world(
        volumes=VOLUMES, moods=moods, copies=copies, nodes=nodes, atomic_groups=atomic
    )(setting)


def invariants(setting: Setting) -> tuple[Invariant, ...]:
    """The invariants."""
    attached: tuple[Invariant, ...] = ()
    if setting[PART.key] in KUBELETS:
        lives = (
            ended_pods_stay_ended("apiserver"),
            objects_outlast_their_mounts("apiserver", DRIVER),
        )
        attached = (*ATTACHED, *lives)
    contents = contents_stay_for_their_snapshots("apiserver")
    return (
        *ALWAYS,
        one_call_at_a_time(),
        contents,
        *attached,
        *CLAIMED,
        writes_keep_to_their_object(),
    )


SCENARIO = Scenario(
    "storage-churn",
    workload=churn,
    build=build,
    invariants=invariants,
    options=(PART, FAULT, CUT),
)
