"""A volume as its attacher needs it, and whether a pod still wants its volumes.

Upstream: pkg/controller/volume/attachdetach/util/util.go and pkg/volume/util/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.api.csi import unique_name

if TYPE_CHECKING:
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.pod import Pod
    from controlplane.api.storage import PersistentVolume
    from controlplane.api.tree import Tree

_SHARED_MODES: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})


@frozen
class Spec:
    """A volume of a CSI driver. `shared`: it may be attached to several nodes at once."""

    name: str
    driver: str
    handle: str
    shared: bool

    @property
    def unique(self) -> str:
        """The volume's name for nodes and controllers."""
        return unique_name(self.driver, self.handle)


def spec_of(volume: PersistentVolume) -> Spec | None:
    """None of a volume that no CSI driver serves."""
    source: Tree = volume.tree["spec"].get("csi") or {}
    if not source:
        return None
    modes = volume.tree["spec"].get("accessModes") or ()
    shared = not modes or any(each in _SHARED_MODES for each in modes)
    return Spec(volume.name, source["driver"], source["volumeHandle"], shared)


def volume_name(claim: PersistentVolumeClaim) -> str:
    """The volume that a claim is bound to; "" if it is not."""
    if (claim.tree.get("status") or {}).get("phase") != "Bound":
        return ""
    name: str = claim.tree["spec"].get("volumeName") or ""
    return name


def is_claimed_by(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume is bound to this very claim."""
    reference = volume.tree["spec"].get("claimRef") or {}
    return reference.get("uid") == claim.uid


def is_terminated(pod: Pod) -> bool:
    """Return whether nothing of a pod runs, nor will. Upstream: IsPodTerminated."""
    status: dict[str, Any] = pod.tree.get("status") or {}
    if status.get("phase") in ("Failed", "Succeeded"):
        return True
    if pod.metadata.deletion_timestamp is None:
        return False
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    return all("terminated" in each or "waiting" in each for each in states)
