"""The topology updater of a node: it publishes the assignments of the kubelet as a NodeResourceTopology.

It does so at its start, when the kubelet has written a state file, and at each interval; in between the object is
behind the kubelet's managers. Points: `pod-resources.list`, that of its mailbox, and one for every request. Follows
node-feature-discovery's nfd-topology-updater.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors import LinkBroken, Timeout
from actors.log import WARNING
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.loops.clientset import Client
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.kubelet.loops.pod_resources import ask
from controlplane.scheduler.community.node_resource_topology import TOPOLOGY
from controlplane.scheduler_plugins.zones import API_VERSION, KIND, content

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.tree import Tree
    from controlplane.client.loops.connection import RestConfig
    from controlplane.kubelet.loops.host import Sockets

__all__ = ["DEFAULT_INTERVAL_NS", "actor_of", "run"]

DEFAULT_INTERVAL_NS: Final = 60_000_000_000
_FIRST_RETRY_NS: Final = 1_000_000_000
_RETRIES: Final = 8
"""Failures in a row after which a retry no longer keeps a run from settling."""


def actor_of(node: str) -> str:
    """Return the name of the actor of a node."""
    return f"topology-updater:{node}"


async def run(
    ctx: Context, node: str, sockets: Sockets, interval_ns: int, *, server: RestConfig = IN_CLUSTER
) -> None:
    """Main task."""
    written = sockets.state_watch = ctx.mailbox("state files")
    updater = _Updater(ctx, node, sockets, Client(ctx, server))
    while True:
        changed = await updater.publish()
        failures = updater.failures
        wait = interval_ns if not failures else min(_FIRST_RETRY_NS << failures - 1, interval_ns)
        idle = failures > _RETRIES if failures else not changed
        try:
            await written.recv(wait, idle=idle)
        except Timeout:
            continue
        while written.ready():
            await written.recv()


class _Updater:
    """One life of the process."""

    def __init__(self, ctx: Context, node: str, sockets: Sockets, client: Client) -> None:
        self._ctx = ctx
        self._node = node
        self._sockets = sockets
        self._client = client
        self._last: Tree | None = None
        self.failures = 0
        """The number of failures in a row."""

    async def publish(self) -> bool:
        """Bring the object up to date; False when it was."""
        try:
            told = content(await ask(self._ctx, self._sockets))
            await self._write(told)
        except (ApiError, LinkBroken, Timeout) as error:
            self.failures += 1
            data = {"message": f"{self._node}: {error}"}
            self._ctx.log("topology-updater.error", level=WARNING, data=data)
            return False
        self.failures = 0
        changed, self._last = told != self._last, told
        return changed

    async def _write(self, told: Tree) -> None:
        """Create the object or replace its content. Raises ApiError, LinkBroken."""
        client = self._client
        try:
            found = await client.get(TOPOLOGY.resource, "", self._node)
        except ApiError as error:
            if not is_not_found(error):
                raise
            tree: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
            await client.create(
                TOPOLOGY.resource, {**tree, "metadata": {"name": self._node}, **told}
            )
        else:
            await client.update(TOPOLOGY.resource, {**found.tree, **told})
