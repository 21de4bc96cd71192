"""The actor that ends emulated containers whose processes have exited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from actors import Context
    from controlplane.cluster import Cluster

__all__ = ["RUNTIME", "exited", "run"]

RUNTIME: Final = "container-runtime"


def exited(node: str, uid: str, container: str, code: int) -> dict[str, Any]:
    """Return the news, for `RUNTIME`, that the process of a pod's container has exited."""
    return {"node": node, "pod": uid, "container": container, "code": code}


async def run(ctx: Context, cluster: Cluster, epoch_ns: int) -> None:
    """End the containers that are told of, and have their kubelets look."""
    while True:
        told: dict[str, Any] = (await ctx.recv(idle=True)).payload.value
        host = cluster.machines.get(told["node"])
        sandbox = None if host is None else host.sandboxes.get(told["pod"])
        found = None if sandbox is None else sandbox.containers.get(told["container"])
        if host is None or found is None:
            continue
        found.end(epoch_ns + ctx.now, told["code"])
        if host.look_at is not None:
            host.look_at(told["pod"])
