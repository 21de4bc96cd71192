"""Invariants of attached volumes: I15, I16, I21 to I23 and I25 of docs/interleavings-storage.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.csi import unique_name
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.storage import DRIVER
from controlplane.scenarios.invariants.views import PODS, note, stored

if TYPE_CHECKING:
    from controlplane.scenarios.engine.run import Run

VOLUMES: Final = "/registry/persistentvolumes/"
ATTACHMENTS: Final = "/registry/volumeattachments/"
NODES: Final = "/registry/minions/"


def mounted_where_attached() -> Invariant:
    """I15: no volume is detached from a node that has it staged or published (unless the detach is forced)."""

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        if not disk.options.attaches:
            return None
        for volume, places in disk.published.items():
            for node, _ in places:
                if node not in disk.attached.get(volume, ()):
                    return f"{volume} is mounted on {node}, but not attached there"
        for volume, nodes in disk.staged.items():
            for node in nodes:
                if node not in disk.attached.get(volume, ()):
                    return f"{volume} is staged on {node}, but not attached there"
        return None

    return Invariant("volumes are attached where they are mounted", check, after=(DRIVER,))


def nothing_stays_attached() -> Invariant:
    """I16: in the end what no pod wants is neither mounted nor attached, and what pods want is."""

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        for pod in run.objects(PODS):
            if (pod.tree.get("status") or {}).get("phase") != "Running":
                return f"pod {pod.key} does not run"
        nodes = {pod.tree["spec"].get("nodeName") for pod in run.objects(PODS)}
        for volume, held in disk.attached.items():
            for node in held:
                if node not in nodes:
                    return f"{volume} is still attached to {node}"
        for attachment in run.objects(ATTACHMENTS):
            if attachment.tree["spec"]["nodeName"] not in nodes:
                return f"VolumeAttachment {attachment.name} is left"
        return None

    return Invariant("nothing stays attached", check)


def attached_where_reported(after: str) -> Invariant:
    """I21: each volume that a node's status shows as attached has a VolumeAttachment that is attached and stays.

    A kubelet mounts what the status shows, so a volume is shown after it was attached, and is shown no more before
    its detach begins. Upstream: pkg/controller/volume/attachdetach/reconciler (`reconcile`: "Update Node Status to
    indicate volume is no longer safe to mount") and pkg/volume/csi/csi_attacher.go.
    """

    def check(run: Run) -> str | None:
        attached = {
            (
                str(each.tree["spec"]["source"].get("persistentVolumeName")),
                str(each.tree["spec"]["nodeName"]),
            ): (
                bool((each.tree.get("status") or {}).get("attached")),
                bool(each.metadata.get("deletionTimestamp")),
            )
            for each in run.objects(ATTACHMENTS)
        }
        names = {
            unique_name(csi["driver"], csi["volumeHandle"]): volume.name
            for volume in run.objects(VOLUMES)
            if (csi := volume.tree["spec"].get("csi"))
        }
        for node in run.objects(NODES):
            for each in (node.tree.get("status") or {}).get("volumesAttached") or ():
                volume = names.get(each["name"])
                if volume is None:
                    continue  # deleted since
                is_attached, goes = attached.get((volume, node.name), (False, False))
                if not is_attached or goes:
                    problem = "is being detached" if goes else "is not attached there"
                    return f"{node.name} shows {volume} as attached, and it {problem}"
        return None

    return Invariant(
        "a node shows what is attached",
        check,
        (after,),
        looks_at=stored(ATTACHMENTS, NODES, VOLUMES),
    )


def attachments_outlast_what_is_attached(after: str) -> Invariant:
    """I23: a VolumeAttachment goes after its volume was detached, and says "attached" only while it is attached.

    Upstream: kubernetes-csi/external-attacher pkg/controller/csi_handler.go, which puts its finalizer on before it
    calls ControllerPublishVolume and takes it off after ControllerUnpublishVolume.
    """

    def check(run: Run) -> str | None:
        known: dict[str, tuple[str, str, str]] = note(run, "attachments")
        disk = run.cluster.csi_drivers[DRIVER].driver
        if disk is None or not disk.options.attaches:
            return None
        handles = {
            volume.name: csi["volumeHandle"]
            for volume in run.objects(VOLUMES)
            if (csi := volume.tree["spec"].get("csi"))
        }
        found = {each.uid: each for each in run.objects(ATTACHMENTS)}
        for uid, each in found.items():
            spec = each.tree["spec"]
            handle = handles.get(str(spec["source"].get("persistentVolumeName")), "")
            known.setdefault(uid, (each.name, handle, spec["nodeName"]))
            is_attached = known[uid][2] in disk.attached.get(known[uid][1], ())
            says = (each.tree.get("status") or {}).get("attached")
            if says and not is_attached and not each.metadata.get("deletionTimestamp"):
                return f"{each.name} says that {handle} is attached, and it is not"
        names = {each.name for each in found.values()}
        for uid in [uid for uid in known if uid not in found]:
            name, handle, node = known.pop(uid)
            if name not in names and node in disk.attached.get(handle, ()):
                return f"{name} is gone, and {handle} is attached to {node}"
        return None

    return Invariant(
        "an attachment outlasts what is attached", check, (after,), looks_at=stored(ATTACHMENTS)
    )


def containers_keep_their_volumes() -> Invariant:
    """I22: no volume is unpublished from a pod that is stored while containers of the pod run on the node.

    Upstream: pkg/kubelet/volumemanager/reconciler (`unmountVolumes`) goes by the desired pods, after a restart once
    all sources have reported; a pod whose object went by force while the kubelet was down is none of them.
    """

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        known: dict[tuple[str, str, str], None] = run.notes.setdefault("mounts of pods", {})
        mounted = {
            (volume, node, target): None
            for volume, places in disk.published.items()
            for node, target in places
        }
        lost = [each for each in known if each not in mounted]
        stored = {pod.uid for pod in run.objects(PODS)} if lost else set()
        for volume, node, target in lost:
            host = run.cluster.machines.get(node)
            for uid, sandbox in host.sandboxes.items() if host is not None else ():
                if uid in target and uid in stored and any(sandbox.running()):
                    return f"{volume} is no longer mounted for pod {uid}, whose containers run on {node}"
        known.clear()
        known.update(mounted)
        return None

    return Invariant("running containers keep their volumes", check, after=(DRIVER,))


def deleted_when_detached() -> Invariant:
    """I25: no volume is deleted from the storage while it is attached to a node, or mounted there.

    Upstream: `Delete` of kubernetes-csi/external-provisioner looks for VolumeAttachments of the volume.
    """

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        for held in (disk.attached, disk.published):
            for volume, places in held.items():
                if places and volume not in disk.volumes:
                    return f"{volume} is deleted, and a node has it"
        return None

    return Invariant("a volume is deleted when it is detached", check, after=(DRIVER,))


ATTACHED: Final = (
    mounted_where_attached(),
    nothing_stays_attached(),
    attached_where_reported("apiserver"),
    attachments_outlast_what_is_attached("apiserver"),
    containers_keep_their_volumes(),
    deleted_when_detached(),
)
"""Further invariants of parts in which pods have volumes."""
