"""Parts that several churns share: pauses, nodes that close and open, processes that crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.scenarios.engine.user import User

__all__ = ["close_or_open_node", "crash", "pause", "stored"]


def stored(user: User, path: str) -> dict[str, Any]:
    """The stored objects below a path by their names: users look past every cache."""
    return {obj.name: obj for obj in user.run.objects(path)}


async def pause(user: User, lengths: Sequence[int]) -> None:
    """Sleep for one of these numbers of seconds; 0 for no pause."""
    seconds = lengths[user.choose(len(lengths), "pause")]
    if seconds:
        await user.sleep(seconds)


async def close_or_open_node(user: User) -> None:
    """Make a node unschedulable, or schedulable again; nodes are those of the option `nodes`."""
    name = f"node-{1 + user.choose(max(1, user.options['nodes']), 'which node')}"
    found = stored(user, "/registry/minions/").get(name)
    if found is not None:
        closed = bool((found.tree.get("spec") or {}).get("unschedulable"))
        await user.attempt(user.patch("Node", name, {"spec": {"unschedulable": not closed}}))


async def crash(user: User, process: str, named: str) -> None:
    """Crash a process and start it again after up to two seconds, unless another task has crashed one."""
    if user.notes.get("down"):
        return
    user.notes["down"] = True
    user.crash(process)
    await user.sleep(user.choose(3, f"how long {named} is away"))
    user.restart(process)
    user.notes["down"] = False
