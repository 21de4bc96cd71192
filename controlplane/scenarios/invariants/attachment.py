"""Invariants of attached volumes: I15 and I16 of docs/interleavings-storage.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.storage import DRIVER

if TYPE_CHECKING:
    from controlplane.scenarios.engine.run import Run

ATTACHMENTS: Final = "/registry/volumeattachments/"
PODS: Final = "/registry/pods/"


def mounted_where_attached() -> Invariant:
    """I15: no volume is detached from a node that has it mounted (unless the detach is forced)."""

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        if not disk.options.attaches:
            return None
        for volume, places in disk.published.items():
            for node, _ in places:
                if node not in disk.attached.get(volume, ()):
                    return f"{volume} is mounted on {node}, but not attached there"
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


ATTACHED: Final = (mounted_where_attached(), nothing_stays_attached())
"""I15 and I16: what must hold besides where pods have volumes."""
