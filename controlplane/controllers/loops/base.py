"""What the loops of the workload controllers share: a queue, an event recorder, and claiming what they own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.labels import from_label_selector
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.loops.clientset import DEPLOYMENTS, REPLICA_SETS, Client, Resource
from controlplane.client.loops.event_recorder import EventRecorder
from controlplane.controllers.effects import Retry
from controlplane.controllers.loops.worker import Workers
from controlplane.controllers.ownership import (
    Decision,
    adopt_patch,
    claim,
    release_patch,
)

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.apps import Deployment, ReplicaSet
    from controlplane.api.generic import V
    from controlplane.api.view import View
    from controlplane.client.loops.connection import RestConfig

_OWNERS: dict[str, Resource[Any]] = {"Deployment": DEPLOYMENTS, "ReplicaSet": REPLICA_SETS}
INVALID = 422


class Controller:
    """One controller's memory. `sync` reconciles one key."""

    def __init__(
        self,
        ctx: Context,
        name: str,
        epoch_ns: int,
        server: RestConfig,
        *,
        max_retries: int | None = None,
    ) -> None:
        self._ctx = ctx
        self._epoch = epoch_ns
        self._server = server
        self._recorder = EventRecorder(ctx, f"{name}-controller", epoch_ns, server=server)
        self.workers = Workers(ctx, name, self.sync, max_retries=max_retries)

    async def sync(self, ctx: Context, key: str) -> None:
        """Reconcile one key."""
        raise NotImplementedError

    def _now(self) -> int:
        return self._epoch + self._ctx.now

    async def _claim(
        self,
        client: Client,
        resource: Resource[V],
        owner: Deployment | ReplicaSet,
        candidates: list[V],
    ) -> list[V]:
        """The candidates that belong to `owner`, after adopting and releasing.

        Every candidate is tried; the first thing that failed is raised at the end.
        """
        selector = from_label_selector(owner.spec.selector)
        mine: list[V] = []
        failed: Exception | None = None
        refused: ApiError | Retry | None = None
        checked = False
        for found, decision in claim(owner, candidates, lambda each: selector.matches(each.labels)):
            try:
                if decision is Decision.RELEASE:
                    await self._release(client, resource, owner, found)
                    continue
                if decision is Decision.ADOPT:
                    if not checked:
                        checked = True
                        refused = await self._refusal(client, owner)
                    if refused is not None:
                        raise refused
                    patch = adopt_patch(owner, found.uid)
                    await client.patch(resource, found.namespace, found.name, patch)
            except (ApiError, Retry) as error:
                gone = isinstance(error, ApiError) and is_not_found(error)
                failed = failed or (None if gone else error)
            else:
                mine.append(found)
        if failed is not None:
            raise failed
        return mine

    async def _release(self, client: Client, resource: Resource, owner: View, found: View) -> None:
        """Take the owner reference away; what is gone, or another by now, needs no release."""
        patch = release_patch(owner, found.uid)
        try:
            await client.patch(resource, found.namespace, found.name, patch)
        except ApiError as error:
            if not is_not_found(error) and error.code != INVALID:
                raise

    async def _refusal(self, client: Client, owner: View) -> ApiError | Retry | None:
        """A live look at the owner before anything is adopted: same uid, not being deleted."""
        try:
            fresh = (await client.get(_OWNERS[owner.kind], owner.namespace, owner.name)).view
        except ApiError as error:
            return error
        if fresh.uid != owner.uid:
            return Retry(
                f"original {owner.kind} {owner.key} is gone: got uid {fresh.uid}, wanted {owner.uid}"
            )
        if fresh.metadata.deletion_timestamp is not None:
            return Retry(f"{owner.key} has just been deleted")
        return None
