"""Mirror pods: created, and deleted, so that the API server shows the static pods of this node.

Points: those of the requests. What fails is tried again by the pod's next sync. Upstream: tryReconcileMirrorPods
(pkg/kubelet/kubelet.go), pkg/kubelet/pod/mirror_client.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken
from controlplane.client.errors import ApiError, is_already_exists, is_conflict, is_not_found
from controlplane.client.loops.clientset import PODS, Client
from controlplane.kubelet.pod.static_pods import is_mirror_of, mirror_of

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.kubelet.loops.shared import Shared

BOUND_TO_UID = "79148"


class Mirrors:
    """The mirror client of one kubelet."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def _client(self, ctx: Context) -> Client:
        return Client(ctx, self._shared.server)

    def wrong(self, pod: Pod) -> bool:
        """Return whether the API server, as far as is known, does not show this version of a static pod."""
        return _wrong(pod, self._shared.pods.mirror(pod))

    async def reconcile(self, ctx: Context, pod: Pod, mirror: Pod | None) -> bool:
        """Delete a mirror that is to go or shows another version, and create one if there is none.

        `mirror` is what the pod's worker was handed with its update: it may be older than what is known by now.
        False if the API server refused.

        Fix gate 79148 (issue 79147, 1.16). Before, the mirror was deleted by its name alone: a sync that still
        saw the old one deleted the new one that the sync before had made.
        """
        deleted = False
        if mirror is not None and _wrong(pod, mirror):
            uid = mirror.uid if self._shared.fixes.fixed(BOUND_TO_UID) else ""
            deleted = await self.delete(ctx, mirror, uid)
        if mirror is None or deleted:
            return await self._create(ctx, pod)
        return True

    async def delete(self, ctx: Context, mirror: Pod, uid: str = "") -> bool:
        """Delete a mirror at once, only this very one if there is a uid; whether that was done."""
        namespace, name = mirror.namespace, mirror.name
        try:
            await self._client(ctx).delete(PODS, namespace, name, uid=uid, grace_period_seconds=0)
        except ApiError as error:
            if not (is_not_found(error) or is_conflict(error)):
                self._shared.error(f"failed deleting a mirror pod {mirror.key}: {error}", mirror)
            return False
        except LinkBroken:
            return False
        return True

    async def _create(self, ctx: Context, pod: Pod) -> bool:
        node = self._shared.node
        if node.metadata.deletion_timestamp is not None:
            return True
        try:
            await self._client(ctx).create(PODS, mirror_of(pod, node))
        except ApiError as error:
            if not is_already_exists(error):
                self._shared.error(f"failed creating a mirror pod for {pod.key}: {error}", pod)
                return False
        except LinkBroken:
            return True
        return True


def _wrong(pod: Pod, mirror: Pod | None) -> bool:
    if mirror is None or mirror.metadata.deletion_timestamp is not None:
        return True
    return not is_mirror_of(mirror, pod)
