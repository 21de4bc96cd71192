"""The status manager's one sender: it tells the API server what the kubelet says of its pods.

Point: `kubelet.status-manager` (before a pass). A pass is woken by changes, and every ten seconds there is
a full one, left out while it would find nothing. What fails is tried again by the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors import LinkBroken
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.loops.clientset import PODS, Client
from controlplane.kubelet.pod import status_manager
from controlplane.kubelet.pod.status import status_patch

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.tree import Tree
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.pod.status_manager import Versioned

    class Workers(Protocol):
        """The pod workers of the node."""

        def may_run(self, uid: str) -> bool:
            """Return whether containers of the pod with this uid may still run."""

        def agreed(self, uid: str, told: Tree, shown: Tree) -> None:
            """The API server shows the reported status of the pod with this uid, in a tree of its own."""


BOUND_TO_UID = "86320"
TOLD_WHEN_STOPPED = "108366"


async def run(ctx: Context, shared: Shared, workers: Workers) -> None:
    """Send for ever."""
    client = Client(ctx, shared.server)
    statuses = shared.statuses
    full_pass_at: int | None = None
    tried: dict[str, int] = {}
    failed = False
    while True:
        unsent = statuses.unsent()
        fresh = [each for each in unsent if tried.get(each.uid) != each.version]
        due = full_pass_at is not None and full_pass_at <= ctx.now
        if not fresh and not due:
            if full_pass_at is None and (shared.full_pass_due or failed):
                full_pass_at = shared.next_tick(status_manager.SYNC_PERIOD_S)
            wait = None if full_pass_at is None else full_pass_at - ctx.now
            await shared.to_send.wait(wait, idle=wait is None, point="kubelet.status-manager")
            continue
        if due:
            full_pass_at = None
            shared.full_pass_due = False
            failed = False
            fresh = statuses.to_send(shared.pods.shown())
        tried = {each.uid: each.version for each in (*unsent, *fresh)}
        for each in fresh:
            if not await _tell(shared, client, each, workers) and each.uid in shared.pods:
                failed = True


async def _tell(shared: Shared, client: Client, told: Versioned, workers: Workers) -> bool:
    """Read the pod by its name, write what differs, and delete it if it may go. Whether that is done with.

    Upstream: syncPod. Fix gate 86320: the patch carries the uid, so that a pod recreated between the two is
    not written to. Before, it got the status of the old one, and counted as reported.

    Fix gate 108366 (1.24, and 1.22 and 1.23): that a pod has ended is not said while its worker does not know
    yet that nothing of it runs. Before, the scheduler gave its room away while the kubelet still counted it.
    """
    statuses, pods = shared.statuses, shared.pods
    if pods.awaits_mirror(told.uid):
        return True  # sent once there is one
    try:
        found = await client.get(PODS, told.namespace, told.name)
        if pods.translated(found.uid) != told.uid:
            # The status of a mirror not seen yet is sent later: its arrival makes the pod sync.
            if not pods.has_static(told.uid):
                statuses.forget(told.uid)
            return True
        before = found.tree.get("status") or {}
        held = shared.fixes.fixed(TOLD_WHEN_STOPPED) and workers.may_run(told.uid)
        change = status_patch(before, status_manager.merged(before, told.status, held=held))
        if change:
            patch: Tree = {"status": change}
            if shared.fixes.fixed(BOUND_TO_UID):
                patch["metadata"] = {"uid": found.uid}
            found = await client.patch(PODS, told.namespace, told.name, patch, subresource="status")
        statuses.sent(told, pods.translated(found.uid))
        shown = found.tree.get("status") or {}
        if statuses.agreed(told, shown):
            workers.agreed(told.uid, told.status, shown)
        if status_manager.can_be_deleted(found.view, told):
            await client.delete(
                PODS, told.namespace, told.name, uid=told.uid, grace_period_seconds=0
            )
            statuses.forget(told.uid)
    except ApiError as error:
        if is_not_found(error):
            return True
        shared.error(f"failed to update status for pod {told.namespace}/{told.name}: {error}")
        return False
    except LinkBroken:
        return False
    return True
