"""The actor of processes' news: it ends emulated containers whose processes have exited, and keeps their output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.container_output import Line

if TYPE_CHECKING:
    from actors import Context
    from controlplane.cluster import Cluster

__all__ = ["RUNTIME", "Outputs", "exited", "run", "wrote"]

RUNTIME: Final = "container-runtime"
"""Its name."""
Outputs = dict[tuple[str, str], list[Line]]
"""The lines of processes, by pod uid and container id; the last one may be unfinished."""


def exited(node: str, uid: str, container: str, code: int) -> dict[str, Any]:
    """Return the news, for `RUNTIME`, that the process of a pod's container has exited."""
    return {"node": node, "pod": uid, "container": container, "code": code}


def wrote(uid: str, container_id: str, text: bytes) -> dict[str, Any]:
    """Return the news, for `RUNTIME`, that the process of a pod's container has written something."""
    return {"pod": uid, "id": container_id, "text": text}


async def run(ctx: Context, cluster: Cluster, epoch_ns: int, outputs: Outputs) -> None:
    """End the containers that are told of, and have their kubelets look; keep what processes write."""
    outputs.clear()
    while True:
        told: dict[str, Any] = (await ctx.recv(idle=True)).payload.value
        if "text" in told:
            lines = outputs.setdefault((told["pod"], told["id"]), [Line(epoch_ns + ctx.now, "")])
            first, *more = told["text"].decode("utf-8", "replace").split("\n")
            lines[-1] = Line(lines[-1].at, lines[-1].text + first)
            lines += [Line(epoch_ns + ctx.now, each) for each in more]
            continue
        host = cluster.machines.get(told["node"])
        sandbox = None if host is None else host.sandboxes.get(told["pod"])
        found = None if sandbox is None else sandbox.containers.get(told["container"])
        if host is None or found is None:
            continue
        found.end(epoch_ns + ctx.now, told["code"])
        if host.look_at is not None:
            host.look_at(told["pod"])
