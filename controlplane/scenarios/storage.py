"""Storage under exploration: claims, snapshots and group snapshots over an emulated driver.

What the races of the catalogue and `controlplane explore storage` share: a world without pods, claims that are
bound when the user begins, the user's words, and what must hold in the end.
"""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.scenario import Invariant

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.storage.store import Store
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.run import Run
    from controlplane.scenarios.setting import Setting
    from controlplane.scenarios.user import User

Tree = dict[str, Any]
DRIVER: Final = "hostpath.csi.k8s.io"
NAMESPACE: Final = "default"
SIZE: Final = 104_857_600
CONTROLLER: Final = "snapshot-controller"
SIDECAR: Final = "csi-snapshotter"
PROVISIONER: Final = "csi-provisioner"
SNAPSHOTS: Final = "/registry/snapshot.storage.k8s.io/volumesnapshots/"
CONTENTS: Final = "/registry/snapshot.storage.k8s.io/volumesnapshotcontents/"
GROUPS: Final = "/registry/groupsnapshot.storage.k8s.io/volumegroupsnapshots/"
GROUP_CONTENTS: Final = "/registry/groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents/"
CLAIMS: Final = "/registry/persistentvolumeclaims/"
VOLUMES: Final = "/registry/persistentvolumes/"
WATCHED: Final = (SNAPSHOTS, CONTENTS, GROUPS, GROUP_CONTENTS, CLAIMS)
VOLUME_CONTROLLERS: Final = (
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)


def definitions() -> list[Tree]:
    """The definitions of snapshots and group snapshots, as external-snapshotter ships them."""
    packed = files("controlplane.scenarios").joinpath("snapshot_definitions.json.gz").read_bytes()
    found: list[Tree] = json.loads(gzip.decompress(packed))
    return found


@lru_cache(maxsize=1)
def _defined() -> Store:
    """The store that each world begins with a fork of."""
    from controlplane.api.request import Request
    from controlplane.apiserver.requests.server import ApiServer
    from controlplane.apiserver.storage.store import Store
    from controlplane.cluster import EPOCH_NS

    store = Store()
    uids = (f"bbbbbbbb-0000-4000-8000-{number:012}" for number in range(1 << 30))
    server = ApiServer(store, uid=lambda: next(uids), suffix=str)
    server.bootstrap(EPOCH_NS)
    kind = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    for tree in definitions():
        response = server.handle(Request("create", *kind, body=tree), EPOCH_NS)
        assert response.ok, response.message
    server.settle(EPOCH_NS)
    return store


def store() -> Store:
    """A store of its own in which the definitions are served."""
    return _defined().fork()


def volume(number: int) -> str:
    """The handle of a volume."""
    return f"vol-{number}"


def world(
    *, volumes: int = 2, faults: tuple[Any, ...] = (), moods: bool = False, **options: Any
) -> Callable[[Setting], ClusterConfig]:
    """API server, volume controllers and one driver with its sidecars; `options` are the driver's."""

    def build(_setting: Setting) -> ClusterConfig:
        from controlplane.cluster import ClusterConfig
        from controlplane.controllers.csi.hostpath import DriverOptions, HostpathDriver, Volume
        from controlplane.controllers.loops.storage import CsiDriver, Storage

        behaviour = DriverOptions(name=DRIVER, aborts_duplicates=True, **options)
        disk = HostpathDriver(behaviour)
        for number in range(volumes):
            disk.volumes[volume(number)] = Volume(volume(number), volume(number), SIZE)
        driver = CsiDriver(behaviour, disk, faults, moods)
        return ClusterConfig(
            kubelets=False,
            heartbeats=False,
            enabled_controllers=VOLUME_CONTROLLERS,
            store=store(),
            storage=Storage([driver]),
        )

    return build


# ---------------------------------------------------------------------- words of the user


async def claims(user: User, count: int = 2) -> None:
    """Classes, and so many claims called pvc-0, ..., bound to volumes of the driver."""
    for kind, policy in (("", "Delete"), ("", "Retain"), ("Group", "Delete"), ("Group", "Retain")):
        domain = "groupsnapshot" if kind else "snapshot"
        await make(
            user,
            {
                "apiVersion": f"{domain}.storage.k8s.io/v1",
                "kind": f"Volume{kind}SnapshotClass",
                "metadata": {"name": policy.lower()},
                "driver": DRIVER,
                "deletionPolicy": policy,
            },
        )
    spec: Tree = {"accessModes": ["ReadWriteOnce"], "storageClassName": "made-by-hand"}
    for number in range(count):
        claim = {"name": f"pvc-{number}", "namespace": NAMESPACE}
        await make(
            user,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"pv-{number}"},
                "spec": {
                    **spec,
                    "capacity": {"storage": "100Mi"},
                    "claimRef": claim,
                    "persistentVolumeReclaimPolicy": "Retain",
                    "csi": {"driver": DRIVER, "volumeHandle": volume(number)},
                },
            },
        )
        await make(
            user,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {**claim, "labels": {"group": "one"}},
                "spec": {
                    **spec,
                    "volumeName": f"pv-{number}",
                    "resources": {"requests": {"storage": "100Mi"}},
                },
            },
        )
    await user.wait_until(lambda run: bound(run) >= count, every_s=0.1)


def bound(run: Run) -> int:
    """How many claims are bound."""
    return sum(each.tree["status"].get("phase") == "Bound" for each in run.objects(CLAIMS))


async def make(user: User, tree: Tree) -> None:
    """Create an object of any kind."""
    resource = _resource(tree["apiVersion"], tree["kind"])
    await user.client.create(resource, tree, tree["metadata"].get("namespace", ""))


async def remove(user: User, kind: str, name: str) -> None:
    """Delete an object; what is gone already is gone."""
    domain = "groupsnapshot" if "Group" in kind else "snapshot"
    api = f"{domain}.storage.k8s.io/v1" if "Snapshot" in kind else "v1"
    namespace = "" if kind.endswith(("Content", "Volume")) else NAMESPACE
    await user.attempt(user.client.delete(_resource(api, kind), namespace, name))


def _resource(api: str, kind: str) -> Any:
    from controlplane.client.resources import Resource

    group, _, version = api.rpartition("/")
    plural = kind.lower() + ("es" if kind.endswith("s") else "s")
    return Resource(group, version, plural)


async def take(user: User, name: str, claim: str = "pvc-0", policy: str = "delete") -> None:
    """Ask for a snapshot of a claim."""
    await make(
        user,
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "source": {"persistentVolumeClaimName": claim},
                "volumeSnapshotClassName": policy,
            },
        },
    )


async def take_group(user: User, name: str, policy: str = "delete") -> None:
    """Ask for a snapshot of all claims together."""
    selector = {"matchLabels": {"group": "one"}}
    await make(
        user,
        {
            "apiVersion": "groupsnapshot.storage.k8s.io/v1",
            "kind": "VolumeGroupSnapshot",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"source": {"selector": selector}, "volumeGroupSnapshotClassName": policy},
        },
    )


async def restore(user: User, name: str, snapshot: str) -> None:
    """Ask for a claim made from a snapshot."""
    await make(
        user,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "restored",
                "resources": {"requests": {"storage": "100Mi"}},
                "dataSource": {
                    "apiGroup": "snapshot.storage.k8s.io",
                    "kind": "VolumeSnapshot",
                    "name": snapshot,
                },
            },
        },
    )


async def storage_class(user: User) -> None:
    """The class of restored claims."""
    await make(
        user,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "restored"},
            "provisioner": DRIVER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        },
    )


def ready(run: Run, prefix: str = SNAPSHOTS) -> int:
    """How many snapshots (or groups) are ready."""
    return sum(bool(each.tree.get("status", {}).get("readyToUse")) for each in run.objects(prefix))


async def die_amid(user: User, process: str, *, moments: int = 60) -> None:
    """A process dies, and is started again, some steps from now: how many is a choice.

    So is after how many of the driver's calls, each of which takes a hundredth of a second.
    """
    await user.sleep(0.01 * user.choose(3, "calls"))
    for _ in range(user.choose(moments, f"{process} dies")):
        await user.point("user.wait")
    user.crash(process)
    user.restart(process)


def end(user: User) -> None:
    """Nobody is there any more: what is not done by now counts as never done."""
    for name in (CONTROLLER, SIDECAR, PROVISIONER, DRIVER, "controller-manager"):
        user.crash(name)


# ---------------------------------------------------------------------- what must hold


def no_leak() -> Invariant:
    """I1: every snapshot and group of the storage is named by a content."""

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        named = {
            status.get("snapshotHandle") or obj.tree["spec"]["source"].get("snapshotHandle")
            for obj in run.objects(CONTENTS)
            for status in [obj.tree.get("status") or {}]
        }
        groups = {
            (obj.tree.get("status") or {}).get("volumeGroupSnapshotHandle")
            for obj in run.objects(GROUP_CONTENTS)
        }
        coming = {obj.tree["spec"]["volumeSnapshotRef"].get("uid") for obj in run.objects(CONTENTS)}
        coming |= {
            obj.tree["spec"]["volumeGroupSnapshotRef"].get("uid")
            for obj in run.objects(GROUP_CONTENTS)
        }
        for snapshot in disk.snapshots.values():
            asked = any(uid and uid in snapshot.name for uid in coming)
            if snapshot.id not in named and snapshot.group not in groups and not asked:
                return f"snapshot {snapshot.name} of {snapshot.volume} is left in the storage"
        return None

    return Invariant("no snapshot is left in the storage", check)


def nothing_stays() -> Invariant:
    """I6: what is deleted goes, in the time that the scenario gives it."""

    def check(run: Run) -> str | None:
        for prefix in WATCHED:
            for obj in run.objects(prefix):
                if obj.metadata.get("deletionTimestamp"):
                    held = ", ".join(obj.metadata.get("finalizers") or ())
                    return f"{obj.kind} {obj.key} is being deleted, and stays: {held}"
        return None

    return Invariant("what is deleted goes", check)


def bound_both_ways() -> Invariant:
    """I2: a snapshot's content refers to that snapshot, once it refers to any by uid."""

    def check(run: Run) -> str | None:
        for snapshots, contents, kind in (
            (SNAPSHOTS, CONTENTS, "VolumeSnapshot"),
            (GROUPS, GROUP_CONTENTS, "VolumeGroupSnapshot"),
        ):
            found = {obj.name: obj for obj in run.objects(contents)}
            for obj in run.objects(snapshots):
                name = (obj.tree.get("status") or {}).get(f"bound{kind}ContentName")
                content = found.get(name or "")
                if content is None:
                    continue
                reference = content.tree["spec"][f"{kind[0].lower()}{kind[1:]}Ref"]
                if reference.get("uid") and reference["uid"] != obj.uid:
                    return f"{kind} {obj.key} is bound to {name}, which is another's"
        return None

    return Invariant("snapshots and contents are bound both ways", check)


def members_are_deleted_together() -> Invariant:
    """I7: no member of a group is deleted by itself."""

    def check(run: Run) -> str | None:
        probe = run.cluster.csi_drivers[DRIVER]
        members: dict[str, None] = {}
        for call in probe.calls:
            if call.method == "CreateVolumeGroupSnapshot" and call.reply is not None:
                answer = call.reply.response.get("group_snapshot") or {}
                members.update({each["snapshot_id"]: None for each in answer.get("snapshots", ())})
            if call.method == "DeleteSnapshot" and call.fields["snapshot_id"] in members:
                return f"DeleteSnapshot was called for {call.fields['snapshot_id']}, a member"
        return None

    return Invariant("members of a group are deleted with it", check)


def one_object_a_name() -> Invariant:
    """I5: the storage has at most one snapshot, and one group, of a name."""

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        for kind in (disk.snapshots, disk.groups):
            names = [each.name for each in kind.values()]
            for name in names:
                if names.count(name) > 1 and not _failed_group(disk, name):
                    return f"the storage has {names.count(name)} objects called {name}"
        return None

    return Invariant("one storage object a name", check)


def _failed_group(disk: Any, name: str) -> bool:
    """Whether copies belong to groups that were never completed, which this driver leaves behind."""
    groups = {each.group for each in disk.snapshots.values() if each.name == name}
    return any(group and group not in disk.groups for group in groups)


def ready_groups_are_whole() -> Invariant:
    """I4: the members of a ready group exist and are bound."""

    def check(run: Run) -> str | None:
        snapshots = {obj.name: obj for obj in run.objects(SNAPSHOTS)}
        contents = {obj.name: obj for obj in run.objects(CONTENTS)}
        groups = {obj.name: obj for obj in run.objects(GROUP_CONTENTS)}
        for group in run.objects(GROUPS):
            status = group.tree.get("status") or {}
            content = groups.get(status.get("boundVolumeGroupSnapshotContentName", ""))
            if not status.get("readyToUse") or content is None:
                continue
            if group.metadata.get("deletionTimestamp"):
                continue
            for info in (content.tree.get("status") or {}).get("volumeSnapshotInfoList") or ():
                missing = _missing_member(group.uid, info, snapshots, contents)
                if missing:
                    return f"group {group.key} is ready, but {missing}"
        return None

    return Invariant("ready groups are whole", check, after=("apiserver",))


def _missing_member(
    uid: str, info: Tree, snapshots: dict[str, Any], contents: dict[str, Any]
) -> str | None:
    from controlplane.controllers.snapshot.names import member_content_name, member_name

    name = member_name(uid, info["volumeHandle"])
    content = contents.get(member_content_name(uid, info["volumeHandle"]))
    if name not in snapshots or content is None:
        return f"the member of {info['volumeHandle']} is not there"
    if content.tree["spec"]["volumeSnapshotRef"].get("uid") != snapshots[name].uid:
        return f"the member of {info['volumeHandle']} is not bound"
    return None


def set_once() -> Invariant:
    """I13: when a snapshot was cut and how big it is does not change, once it is known."""
    seen: dict[tuple[str, str], Any] = {}

    def begin(_run: Run) -> None:
        seen.clear()

    def check(run: Run) -> str | None:
        for obj in run.objects(SNAPSHOTS):
            status = obj.tree.get("status") or {}
            for field in ("creationTime", "restoreSize"):
                value = status.get(field)
                known = seen.setdefault((obj.uid, field), value) if value else None
                if value and known != value:
                    return f"{field} of {obj.key} changed from {known} to {value}"
        return None

    return Invariant("times and sizes are set once", check, after=("apiserver",), begin=begin)


def kept_while_being_made() -> Invariant:
    """I3: no content goes while the driver may still be making its snapshot."""
    known: dict[str, str] = {}

    def begin(_run: Run) -> None:
        known.clear()

    def check(run: Run) -> str | None:
        living = {}
        for prefix, field in ((CONTENTS, "volumeSnapshotRef"), (GROUP_CONTENTS, _GROUP_REF)):
            for obj in run.objects(prefix):
                living[obj.name] = obj.tree["spec"][field].get("uid", "")
        gone = [(name, uid) for name, uid in known.items() if uid and name not in living]
        known.clear()
        known.update(living)
        for name, uid in gone:
            for call in run.cluster.csi_drivers[DRIVER].calls:
                made = str(call.fields.get("name", ""))
                if not call.ended and call.method.startswith("Create") and uid in made:
                    return f"{name} is gone, and {call.method} for it is under way"
        return None

    return Invariant("contents stay while they are made", check, after=("apiserver",), begin=begin)


_GROUP_REF: Final = "volumeGroupSnapshotRef"
MOST_CALLS: Final = 30
"""More calls than backoff allows for in any of these scenarios."""


def calls_back_off() -> Invariant:
    """I8: a single snapshot is not asked for, or deleted, over and over without backoff."""

    def check(run: Run) -> str | None:
        counts: dict[tuple[str, str], int] = {}
        for call in run.cluster.csi_drivers[DRIVER].calls:
            if call.method in {"CreateSnapshot", "DeleteSnapshot"}:
                about = call.fields.get("name") or call.fields.get("snapshot_id")
                key = call.method, str(about)
                counts[key] = counts.get(key, 0) + 1
                if counts[key] > MOST_CALLS:
                    return f"{call.method} was called more than {MOST_CALLS} times for {about}"
        return None

    return Invariant("calls back off", check)


def claimed_volumes_stay() -> Invariant:
    """I10: the volume of a claim that exists is not deleted from the storage."""

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        claims_by_uid = {obj.uid: obj for obj in run.objects(CLAIMS)}
        for obj in run.objects(VOLUMES):
            spec = obj.tree["spec"]
            claim = claims_by_uid.get((spec.get("claimRef") or {}).get("uid", ""))
            handle = spec["csi"]["volumeHandle"]
            if claim is not None and handle not in disk.volumes:
                return f"volume {handle} of claim {claim.key} is gone"
        return None

    return Invariant("volumes of claims stay", check)


ALWAYS: Final = (
    bound_both_ways(),
    calls_back_off(),
    claimed_volumes_stay(),
    members_are_deleted_together(),
    one_object_a_name(),
    ready_groups_are_whole(),
    set_once(),
)
"""What must hold in every scenario with storage."""
