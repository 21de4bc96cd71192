"""A churn workload: somebody creates, deletes and recreates pods under a few names. It aims at nothing.

What happens next, to which pod and of which size is a choice each time, so a strategy decides how
rough it gets; the all-zero run creates and deletes in turn. Some pods fit no node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import NODES, PODS, Client

if TYPE_CHECKING:
    from actors import Context

Tree = dict[str, Any]
SIZES = ("500m", "64", "1500m")
"""CPU requests: one that fits any node, one that fits none, one that fits an empty node."""
NAMESPACE = "default"


def pod(name: str, cpu: str) -> Tree:
    """A pod that asks for so much CPU."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "app:1",
                    "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
                }
            ],
            "terminationGracePeriodSeconds": 0,
        },
    }


async def churn(ctx: Context, names: tuple[str, ...], operations: int) -> None:
    """Do `operations` things to pods called `names`, then delete what is left."""
    client = Client(ctx)
    exists = dict.fromkeys(names, False)
    for _ in range(operations):
        name = names[ctx.choose("workload", len(names), "which pod")]
        if not exists[name]:
            size = SIZES[ctx.choose("workload", len(SIZES), "what size")]
            exists[name] = await _try(client.create(PODS, pod(name, size)))
        elif ctx.choose("workload", 3, "delete or touch") < 2:
            await _try(client.delete(PODS, NAMESPACE, name, grace_period_seconds=0))
            exists[name] = False
        else:
            await _touch_node(ctx, client)
        if ctx.choose("workload", 4, "pause") == 3:
            await ctx.sleep(1_000_000_000 * (1 + ctx.choose("workload", 3, "how long")))
    for name in names:
        if exists[name]:
            await _try(client.delete(PODS, NAMESPACE, name, grace_period_seconds=0))


async def _touch_node(ctx: Context, client: Client) -> None:
    """Something about a node changes: queued pods may hear of it."""
    found = await client.list(NODES)
    if found.items:
        node = found.items[ctx.choose("workload", len(found.items), "which node")]
        await _try(
            client.patch(
                NODES, "", node.name, {"metadata": {"labels": {"touched": str(ctx.serial())}}}
            )
        )


async def _try(call: Any) -> bool:
    """Whether the API server did it; users shrug off a refusal."""
    try:
        await call
    except ApiError:
        return False
    return True
