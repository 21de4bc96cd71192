"""Volumes, claims of devices and probes for the pods of kubelet-churn, by part.

Each part has the nodes that it needs, what the user makes before the first pod, and what a pod has of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from controlplane.scenarios.churns.parts import in_turn

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
NAMESPACE: Final = "default"
DISK: Final = "disk.example.com"
VOLUMES: Final = ("data-0", "data-1")
SHARES: Final = ((), (0,), (1,), (0, 1))
"""Which of the volumes, or of the claims, a pod has."""
CARD: Final = "card.example.com"
CARDS: Final = ("card-0", "card-1")
DEVICE_API: Final = "resource.k8s.io/v1"
LIVES: Final = "emulate.controlplane/live-seconds"
READY: Final = "emulate.controlplane/ready-seconds"
LIVES_S: Final = ("", "3", "7")
READY_S: Final = ("", "4")


def with_driver(config: ClusterConfig, *, moods: bool) -> ClusterConfig:
    """The cluster with a CSI driver whose volumes need no attachment; with `moods` its calls may fail or take long."""
    from controlplane.controllers.loops.storage import CsiDriver, Storage
    from controlplane.controllers.storage.csi.hostpath import DriverOptions, HostpathDriver, Volume

    behaviour = DriverOptions(name=DISK)
    disk = HostpathDriver(behaviour)
    for name in VOLUMES:
        disk.volumes[name] = Volume(name, name, 1 << 30)
    driver = CsiDriver(behaviour, disk, moods=moods)
    return evolve(config, storage=Storage([driver], snapshots=False))


async def make_volumes(user: User) -> None:
    """The driver's object, and volumes, each with the claim that it is bound to: no controller binds them."""
    await user.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DISK},
            "spec": {"attachRequired": False},
        }
    )
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "by-hand"}
    for name in VOLUMES:
        claim = {"name": name, "namespace": NAMESPACE}
        asked = {"requests": {"storage": "1Gi"}}
        made = await user.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": claim,
                "spec": {**spec, "volumeName": name, "resources": asked},
            }
        )
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                **spec,
                "capacity": {"storage": "1Gi"},
                "claimRef": {**claim, "uid": made.uid},
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": DISK, "volumeHandle": name},
            },
        }
        await user.create(volume)
        bound = {"status": {"phase": "Bound", "accessModes": spec["accessModes"]}}
        await user.patch("PersistentVolumeClaim", name, bound, subresource="status")


def give_volumes(user: User, tree: Tree) -> None:
    """Some of the volumes."""
    names = [VOLUMES[each] for each in SHARES[in_turn(user, len(SHARES), "which volumes")]]
    tree["spec"]["volumes"] = [
        {"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names
    ]
    (one,) = tree["spec"]["containers"]
    one["volumeMounts"] = [{"name": each, "mountPath": f"/{each}"} for each in names]


def with_cards(config: ClusterConfig) -> ClusterConfig:
    """The cluster with a DRA driver on each node, which refuses nothing: see race here11, which a refusal widens."""
    notes = {"emulate.controlplane/dra-devices": f"{CARD}=3"}
    nodes = [
        {**tree, "metadata": {**tree["metadata"], "annotations": notes}}
        for tree in config.nodes or ()
    ]
    return evolve(config, nodes=tuple(nodes), devices=True)


async def make_claims(user: User) -> None:
    """A class of devices, and claims that several pods share."""
    selector = {"cel": {"expression": f'device.driver == "{CARD}"'}}
    of_class = {"apiVersion": DEVICE_API, "kind": "DeviceClass", "metadata": {"name": "card"}}
    await user.create({**of_class, "spec": {"selectors": [selector]}})
    request = {"name": "card", "exactly": {"deviceClassName": "card"}}
    for name in CARDS:
        claim = {"apiVersion": DEVICE_API, "kind": "ResourceClaim", "metadata": {"name": name}}
        await user.create({**claim, "spec": {"devices": {"requests": [request]}}})


def give_claims(user: User, tree: Tree) -> None:
    """Some of the claims: then the scheduler places the pod."""
    names = [CARDS[each] for each in SHARES[in_turn(user, len(SHARES), "which claims")]]
    if not names:
        return
    spec = tree["spec"]
    spec.pop("nodeName", None)
    spec["resourceClaims"] = [{"name": each, "resourceClaimName": each} for each in names]
    (one,) = spec["containers"]
    one["resources"]["claims"] = [{"name": each} for each in names]


def give_probes(user: User, tree: Tree) -> None:
    """Probes, and a program that is ready late or ceases to be alive."""
    notes = tree["metadata"].setdefault("annotations", {})
    (one,) = tree["spec"]["containers"]
    for key, times in ((LIVES, LIVES_S), (READY, READY_S)):
        seconds = times[in_turn(user, len(times), key)]
        if seconds:
            notes[key] = seconds
    period = 1 + in_turn(user, 2, "period")
    for number, kind in enumerate(("livenessProbe", "readinessProbe", "startupProbe")):
        if in_turn(user, 3, kind) < 2 - (number == 2):
            failures = 1 + in_turn(user, 3, "failures") if kind != "startupProbe" else 8
            one[kind] = {
                "exec": {"command": ["true"]},
                "periodSeconds": period,
                "failureThreshold": failures,
            }
