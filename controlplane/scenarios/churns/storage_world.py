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

from controlplane.api.request import MERGE_PATCH
from controlplane.scenarios.invariants.storage import (
    BLOCKED,
    CLAIMS,
    CONTROLLER,
    DRIVER,
    GROUP_CONTENTS,
    GROUPS,
    NAMESPACE,
    SIDECAR,
    SIZE,
    SNAPSHOTS,
    volume,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.api.object import Object
    from controlplane.apiserver.storage.store import Store
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
CONTROLLER_LEASE: Final = "snapshot-controller-leader"
SIDECAR_LEASE: Final = "external-snapshotter-leader"
CUT_S: Final = 40
"""Longer than a lease, and than another process needs to acquire it."""
GROUP_API: Final = "groupsnapshot.storage.k8s.io"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
VOLUME_CONTROLLERS: Final = (
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)


CONVERSION: Final[Tree] = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {
            "service": {
                "name": "snapshot-conversion-webhook-service",
                "namespace": "default",
                "path": "/convert",
            }
        },
        "conversionReviewVersions": ["v1"],
    },
}
"""As the definition of contents of groups has it in 8.4 and 8.5."""
NODE_CONTROLLERS: Final = ("node-lifecycle-controller",)
"""Without it nodes would stay as tainted as they come."""


def definitions(version: str = "v1") -> list[Tree]:
    """The definitions of snapshots and group snapshots, as external-snapshotter ships them.

    Those of groups as in the releases whose processes speak `version` of their API: up to 8.3 that is
    v1beta1, and nothing else is served; 8.4 and 8.5 serve and store v1beta2 beside it, and contents are
    converted between the two by a webhook; from 8.6 on v1 is served too, without one.
    """
    packed = (
        files("controlplane.scenarios.churns").joinpath("snapshot_definitions.json.gz").read_bytes()
    )
    found: list[Tree] = json.loads(gzip.decompress(packed))
    return [_as_served(each, version) for each in found]


def _as_served(definition: Tree, version: str) -> Tree:
    spec = definition["spec"]
    if version == "v1" or spec["group"] != GROUP_API:
        return definition
    served = ("v1beta1",) if version == "v1beta1" else ("v1beta1", "v1beta2")
    versions = [
        {**each, "storage": each["name"] == version}
        for each in spec["versions"]
        if each["name"] in served
    ]
    if version == "v1beta1":
        versions = [{k: v for k, v in each.items() if k != "deprecated"} for each in versions]
    served_as = {**spec, "versions": versions}
    if version == "v1beta2" and spec["names"]["kind"] == "VolumeGroupSnapshotContent":
        served_as["conversion"] = CONVERSION
    return {**definition, "spec": served_as}


def group_version(release: str) -> str:
    """The version of the API of groups that a release's processes were built with."""
    from controlplane.controllers.storage.releases import group_version as of_release

    return of_release(release)


def group_api(run: Run) -> str:
    """The API version in which the run's release speaks of groups."""
    return f"{GROUP_API}/{group_version(run.setting.release)}"


@lru_cache(maxsize=3)
def _defined(version: str) -> Store:
    """The store that each world begins with a fork of."""
    from controlplane.api.request import Request
    from controlplane.apiserver.requests.server import ApiServer
    from controlplane.apiserver.storage.store import Store
    from controlplane.cluster_config import EPOCH_NS

    store = Store()
    uids = (f"bbbbbbbb-0000-4000-8000-{number:012}" for number in range(1 << 30))
    server = ApiServer(store, uid=lambda: next(uids), suffix=str)
    server.bootstrap(EPOCH_NS)
    kind = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    for tree in definitions(version):
        response = server.handle(Request("create", *kind, body=tree), EPOCH_NS)
        assert response.ok, response.message
    server.settle(EPOCH_NS)
    return store


def store(version: str = "v1") -> Store:
    """A store of its own in which the definitions are served."""
    return _defined(version).fork()


def world(
    *,
    volumes: int = 2,
    faults: tuple[Any, ...] = (),
    moods: bool = False,
    copies: int = 1,
    nodes: int = 0,
    client_rate: tuple[int, int] | None = None,
    **options: Any,
) -> Callable[[Setting], ClusterConfig]:
    """API server, volume controllers and one driver with its sidecars; `options` are the driver's.

    Of snapshot controller and snapshotter there are `copies`. With `nodes` there are kubelets, to whose
    nodes volumes have to be attached. `client_rate` limits the requests of each process (`Storage`).
    """

    def build(setting: Setting) -> ClusterConfig:
        from controlplane.cluster import ClusterConfig, node_tree
        from controlplane.controllers.loops.storage import CsiDriver, Storage
        from controlplane.controllers.storage.csi.hostpath import (
            DriverOptions,
            HostpathDriver,
            Volume,
        )

        attaches = nodes > 0
        behaviour = DriverOptions(name=DRIVER, aborts_duplicates=True, attaches=attaches, **options)
        disk = HostpathDriver(behaviour)
        for number in range(volumes):
            disk.volumes[volume(number)] = Volume(volume(number), volume(number), SIZE)
        driver = CsiDriver(behaviour, disk, faults, moods, attach_required=attaches)
        return ClusterConfig(
            nodes=[node_tree(f"node-{number}") for number in range(1, nodes + 1)],
            kubelets=attaches,
            heartbeats=False,
            enabled_controllers=(*VOLUME_CONTROLLERS, *(NODE_CONTROLLERS if attaches else ())),
            store=store(group_version(setting.release)),
            storage=Storage([driver], controllers=copies, sidecars=copies, client_rate=client_rate),
        )

    return build


# ---------------------------------------------------------------------- words of the user


async def claims(user: User, count: int = 2) -> None:
    """Create classes, and `count` claims named pvc-0, ..., bound to volumes of the driver."""
    for kind, policy in (("", "Delete"), ("", "Retain"), ("Group", "Delete"), ("Group", "Retain")):
        await make(
            user,
            {
                "apiVersion": group_api(user.run) if kind else "snapshot.storage.k8s.io/v1",
                "kind": f"Volume{kind}SnapshotClass",
                "metadata": {"name": policy.lower()},
                "driver": DRIVER,
                "deletionPolicy": policy,
            },
        )
    spec = BY_HAND
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
        await claim_by_hand(user, number)
    await user.wait_until(lambda run: bound(run) >= count, every_s=0.1)


async def claim_by_hand(user: User, number: int, *, from_backup: bool = False) -> None:
    """A claim that asks for the volume of its number; from a backup it has the annotations of a bound one."""
    metadata: Tree = {"name": f"pvc-{number}", "namespace": NAMESPACE, "labels": {"group": "one"}}
    if from_backup:
        metadata["annotations"] = {BIND_COMPLETED: "yes"}
    asked = {"requests": {"storage": "100Mi"}}
    spec = {**BY_HAND, "volumeName": f"pv-{number}", "resources": asked}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    await make(user, {**kind, "metadata": metadata, "spec": spec})


def bound(run: Run) -> int:
    """The number of bound claims."""
    return sum(each.tree["status"].get("phase") == "Bound" for each in run.objects(CLAIMS))


async def make(user: User, tree: Tree) -> None:
    """Create an object of any kind."""
    resource = _resource(tree["apiVersion"], tree["kind"])
    await user.client.create(resource, tree, tree["metadata"].get("namespace", ""))


async def remove(user: User, kind: str, name: str) -> None:
    """Delete an object; what is gone already is gone."""
    api = "snapshot.storage.k8s.io/v1" if "Snapshot" in kind else "v1"
    api = group_api(user.run) if "Group" in kind else api
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


async def take_content_of(user: User, name: str, other: str) -> None:
    """Ask for a snapshot of the content that another snapshot is bound to, if it is."""
    bound_to = [
        (each.tree.get("status") or {}).get("boundVolumeSnapshotContentName")
        for each in user.run.objects(SNAPSHOTS)
        if each.name == other
    ]
    if any(bound_to):
        await make(
            user,
            {
                "apiVersion": "snapshot.storage.k8s.io/v1",
                "kind": "VolumeSnapshot",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"source": {"volumeSnapshotContentName": bound_to[0]}},
            },
        )


async def take_group(user: User, name: str, policy: str = "delete") -> None:
    """Ask for a snapshot of all claims together."""
    selector = {"matchLabels": {"group": "one"}}
    await make(
        user,
        {
            "apiVersion": group_api(user.run),
            "kind": "VolumeGroupSnapshot",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"source": {"selector": selector}, "volumeGroupSnapshotClassName": policy},
        },
    )


async def import_group(user: User, name: str, source: str) -> None:
    """Ask for a group made of what the storage has of another one."""
    [group] = [each for each in user.run.objects(GROUPS) if each.name == source]
    [content] = [
        each
        for each in user.run.objects(GROUP_CONTENTS)
        if each.name == f"groupsnapcontent-{group.uid}"
    ]
    status = content.tree["status"]
    handles = [each["snapshotHandle"] for each in status["volumeSnapshotInfoList"]]
    api = group_api(user.run)
    await make(
        user,
        {
            "apiVersion": api,
            "kind": "VolumeGroupSnapshotContent",
            "metadata": {"name": f"{name}-content"},
            "spec": {
                "deletionPolicy": "Retain",
                "driver": DRIVER,
                "source": {
                    "groupSnapshotHandles": {
                        "volumeGroupSnapshotHandle": status["volumeGroupSnapshotHandle"],
                        "volumeSnapshotHandles": handles,
                    }
                },
                "volumeGroupSnapshotRef": {"name": name, "namespace": NAMESPACE},
            },
        },
    )
    await make(
        user,
        {
            "apiVersion": api,
            "kind": "VolumeGroupSnapshot",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"source": {"volumeGroupSnapshotContentName": f"{name}-content"}},
        },
    )


async def pod(
    user: User, name: str, *claims: str, node: str = "", notes: Mapping[str, str] | None = None
) -> None:
    """A pod that has these claims, as volumes of the same names; `notes` say what it does."""
    mounts = [{"name": each, "mountPath": f"/{each}"} for each in claims]
    spec: Tree = {
        "containers": [{"name": "main", "image": "app:1", "volumeMounts": mounts}],
        "volumes": [
            {"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims
        ],
        "terminationGracePeriodSeconds": 1,
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    told = {f"emulate.controlplane/{key}": value for key, value in (notes or {}).items()}
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": told}
    await make(user, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def runs(run: Run, name: str) -> bool:
    """Return whether a pod's containers run."""
    return any(
        each.name == name and (each.tree.get("status") or {}).get("phase") == "Running"
        for each in run.objects("/registry/pods/")
    )


async def force_away(user: User, content: str) -> None:
    """Delete a content regardless of its finalizers."""
    await remove(user, "VolumeSnapshotContent", content)
    resource = _resource("snapshot.storage.k8s.io/v1", "VolumeSnapshotContent")
    body = {"metadata": {"finalizers": None}}
    await user.attempt(user.client.patch(resource, "", content, body, kind=MERGE_PATCH))


async def restore(user: User, name: str, snapshot: str) -> None:
    """Ask for a claim made from a snapshot; from "" one that is empty."""
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot}
    spec: Tree = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "restored",
        "resources": {"requests": {"storage": "100Mi"}},
    }
    if snapshot:
        spec["dataSource"] = source
    await make(
        user,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        },
    )


BY_HAND: Final[Tree] = {"accessModes": ["ReadWriteOnce"], "storageClassName": "made-by-hand"}


async def claim_for(user: User, name: str) -> Object:
    """Create a claim that waits for a pre-provisioned volume; return it as stored."""
    return await user.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {**BY_HAND, "resources": {"requests": {"storage": "100Mi"}}},
        }
    )


async def volume_for(user: User, name: str, handle: str, claim: Object) -> None:
    """Create a volume for a claim, as the provisioner or a pod's scheduling would."""
    await user.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: DRIVER}},
            "spec": {
                **BY_HAND,
                "capacity": {"storage": "100Mi"},
                "claimRef": {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid},
                "persistentVolumeReclaimPolicy": "Delete",
                "csi": {"driver": DRIVER, "volumeHandle": handle},
            },
        }
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
    """The number of ready snapshots (or groups)."""
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


def leader(run: Run, process: str) -> str:
    """The leader among several equal processes."""
    lease = SIDECAR_LEASE if process == SIDECAR else CONTROLLER_LEASE
    for obj in run.objects("/registry/leases/"):
        if obj.name.startswith(lease):
            holder: str = obj.tree["spec"].get("holderIdentity") or process
            return holder.rpartition("_")[0] or process
    return process


async def change_leader(user: User, *, moments: int = 60) -> None:
    """Crash the leader some steps from now, or partition it for longer than its lease.

    A leader that was partitioned ends itself; what it had sent arrives when its successor is at work.
    """
    process = (CONTROLLER, SIDECAR)[user.choose(2, "who")]
    await user.sleep(0.01 * user.choose(3, "calls"))
    for _ in range(user.choose(moments, f"{process} falls")):
        await user.point("user.wait")
    first = leader(user.run, process)
    if user.choose(2, "how"):
        user.crash(first)
        user.restart(first)
        return
    user.cut(first, "apiserver")
    user.spawn(_heal_later, first)


async def _heal_later(user: User, process: str) -> None:
    await user.sleep(CUT_S)
    user.heal(process, "apiserver")


def end(user: User) -> None:
    """Stop all processes: work that is unfinished by now counts as never done."""
    names = user.cluster.storage_processes
    alive = [name for name in names if user.run.world.alive(name)]
    user.notes[BLOCKED] = user.run.world.blocked(*alive)
    for name in (*names, DRIVER, "controller-manager", *user.cluster.machines):
        user.crash(name)
