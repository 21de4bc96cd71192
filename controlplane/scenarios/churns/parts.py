"""Parts that several churns share: options, pauses, nodes that close and open, processes that crash or are cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Sometimes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.scenarios.engine.user import User

__all__ = [
    "DRAWN",
    "USERS",
    "close_or_open_node",
    "crash",
    "crashes",
    "cut_off",
    "drew",
    "in_turn",
    "operations",
    "pause",
    "stored",
]

DRAWN: Final = "what the churn is about"
"""Note: the features of this run, which it has drawn at its start."""
USERS: Final = Option("users", type=int, low=1, high=4, default=2, help="How many tasks do them.")


def operations(default: int) -> Option:
    """Return the option `operations` with this default."""
    return Option(
        "operations", type=int, low=1, default=default, help="How many things the users do."
    )


def crashes(named: str) -> Option:
    """Return the option `crashes` for a process that is called so."""
    text = f"Let {named} crash and start again at times."
    return Option("crashes", type=bool, default=False, help=text)


def drew(feature: str) -> Sometimes:
    """Return the goal that some run of a search has this feature."""
    return Sometimes(f"a run is about {feature}", lambda run: feature in run.notes.get(DRAWN, ()))


def stored(user: User, path: str) -> dict[str, Any]:
    """The stored objects below a path by their names: users look past every cache."""
    return {obj.name: obj for obj in user.run.objects(path)}


def in_turn(user: User, count: int, label: str) -> int:
    """One of so many: by default each in turn, so that the calm run, from which plans are made, does some of all."""
    turns: dict[str, int] = user.notes.setdefault("choices that were made in turn", {})
    turn = turns[label] = turns.get(label, -1) + 1
    return (turn + user.choose(count, label)) % count


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


def cut_off(user: User, process: str, seconds: float) -> None:
    """Cut a process and the API server off from each other for so long."""
    user.cut("apiserver", process)
    end = user.ctx.now + round(seconds * SECOND)
    user.ctx.faults.at_time(end, lambda: user.heal("apiserver", process))
