"""Claims as the source of others: the checks before a volume is cloned, and what protects the source meanwhile.

Upstream: external-provisioner pkg/controller/controller.go (getPVCSource, setCloneFinalizer) and
clone_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.quantity import Quantity
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import CLAIMS, VOLUMES
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.snapshot.objects import (
    finalizers_of,
    is_deleting,
    points_at,
    status_of,
    with_finalizers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.client.indexer import Indexer

FINALIZER: Final = "provisioner.storage.kubernetes.io/cloning-protection"
KIND: Final = "PersistentVolumeClaim"
_INVALID: Final = "claim in dataSource not bound or invalid"
_MODES: Final = (
    "the source PVC and destination PVCs must have the same volume mode for cloning.  Source is "
    "{}, but new PVC requested {}"
)


def source_handle(
    claim: Tree, storage_class: Tree, claims: Indexer[PersistentVolumeClaim]
) -> Reconcile[str]:
    """The handle of the volume that a claim is to be a copy of; Retry says why there is none."""
    namespace, name = claim["metadata"]["namespace"], claim["spec"]["dataSource"]["name"]
    found = claims.get(f"{namespace}/{name}")
    if found is None:
        missing = f'persistentvolumeclaim "{name}" not found'
        raise Retry(
            f'error getting PVC {name} (namespace "{namespace}") from api server: {missing}'
        )
    source = found.tree
    _check_claims(claim, source, name)
    try:
        volume = (yield from calls.get(VOLUMES, "", source["spec"]["volumeName"])).tree
    except RequestFailed:
        raise Retry(_INVALID) from None
    csi = volume["spec"].get("csi") or {}
    reference = volume["spec"].get("claimRef")
    if (
        csi.get("driver") != storage_class["provisioner"]
        or not reference
        or not points_at(reference, source)
        or status_of(volume).get("phase") != "Bound"
    ):
        raise Retry(_INVALID)
    wanted = claim["spec"].get("volumeMode") or "Filesystem"
    mode = volume["spec"].get("volumeMode") or "Filesystem"
    if wanted != mode:
        raise Retry(_MODES.format(mode, wanted))
    handle: str = csi["volumeHandle"]
    return handle


def _check_claims(claim: Tree, source: Tree, name: str) -> None:
    status = status_of(source)
    if status.get("phase") != "Bound":
        phase = status.get("phase", "")
        raise Retry(
            f"the PVC DataSource {name} must have a status of Bound.  Got {{{phase} [] map[] []}}"
        )
    if is_deleting(source):
        raise Retry(f"the PVC DataSource {name} is currently being deleted")
    if source["spec"].get("storageClassName") is None:
        raise Retry(f"the source PVC ({name}) storageclass cannot be empty")
    wanted, size = (
        Quantity.parse(str(each["spec"]["resources"]["requests"]["storage"])).value()
        for each in (claim, source)
    )
    if wanted < size:
        raise Retry(
            "error, new PVC request must be greater than or equal in size to the specified PVC "
            f"data source, requested {wanted} but source is {size}"
        )
    if not source["spec"].get("volumeName"):
        raise Retry(f"volume name is empty in source PVC {name}")


def protect(claim: Tree, claims: Indexer[PersistentVolumeClaim]) -> Reconcile[None]:
    """Keep the source until the copy is made."""
    namespace, name = claim["metadata"]["namespace"], claim["spec"]["dataSource"]["name"]
    found = claims.get(f"{namespace}/{name}")
    if found is not None and FINALIZER not in finalizers_of(found.tree):
        held = [*finalizers_of(found.tree), FINALIZER]
        yield from calls.update(CLAIMS, with_finalizers(found.tree, held))


def release(claim: Tree, claims: Iterable[Object[PersistentVolumeClaim]]) -> Reconcile[None]:
    """Let a source go that is being deleted, once no claim waits to be a copy of it."""
    metadata = claim["metadata"]
    if FINALIZER not in finalizers_of(claim):
        return
    for obj in claims:
        source = obj.tree["spec"].get("dataSource") or {}
        if (
            obj.namespace == metadata["namespace"]
            and source.get("kind") == KIND
            and source.get("name") == metadata["name"]
            and status_of(obj.tree).get("phase", "Pending") == "Pending"
        ):
            raise Retry(f"PVC '{obj.name}' is in 'Pending' state, cloning in progress")
    left = [each for each in finalizers_of(claim) if each != FINALIZER]
    try:
        yield from calls.update(CLAIMS, with_finalizers(claim, left))
    except ApiError as error:
        if not is_not_found(error):
            raise
