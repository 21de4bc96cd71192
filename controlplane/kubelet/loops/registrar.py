"""Creates the Nodes of machines on which no kubelet is emulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken
from controlplane.api.times import SECOND
from controlplane.client.errors import ApiError, is_already_exists
from controlplane.client.loops.clientset import NODES, Client

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors import Context
    from controlplane.api.tree import Tree
    from controlplane.client.loops.connection import RestConfig

__all__ = ["run"]


async def run(ctx: Context, nodes: Iterable[Tree], server: RestConfig) -> None:
    """Create the nodes in place of absent kubelets; retry without end, as a kubelet does."""
    client = Client(ctx, server)
    for tree in nodes:
        while True:
            try:
                await client.create(NODES, tree)
            except LinkBroken:
                await ctx.sleep(SECOND)
            except ApiError as error:
                if not is_already_exists(error):
                    raise
                break
            else:
                break
