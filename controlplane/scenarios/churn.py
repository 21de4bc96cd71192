"""The default churn: one workload that aims at nothing, for finding races blind.

Somebody creates, changes, deletes and recreates pods under a few names: of several sizes and
priorities, some gated, some held by a Permit plugin or failed once by a PreBind plugin, some with
finalizers, selectors or a node of their own. Nodes are labelled, tainted, cordoned, resized, lost and
registered again. Processes crash and connections break, if the option says so. What happens next is
a choice each time, a refusal or a broken connection is shrugged off, and what is there at the end
stays there.

Which of all that a run is about is drawn at its start (swarm testing: many small mixtures find more
than one that has everything). A run has no finalizers when it has faults: while the scheduler hears
nothing, the repair that is proposed for 142294 preempts a victim that cannot go over and over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.invariants.contexts import EVERY_CONTEXT_ENDS
from controlplane.scenarios.invariants.scheduling import (
    CHOSEN_BY_USERS,
    EVERY_WAITING_POD_IS_QUEUED,
    NO_BOUND_POD_IS_QUEUED,
    NOTHING_IS_PROMISED_TWICE,
    QUEUED_OBJECTS_ARE_THE_LATEST,
    ROOM_IS_USED,
    THE_SCHEDULER_LIVES,
)
from controlplane.scenarios.invariants.scheduling_queue import queue_holds
from controlplane.scenarios.option import Option
from controlplane.scenarios.scenario import Scenario
from controlplane.scenarios.workloads import pod
from controlplane.scenarios.worlds import scheduler_alone, with_plugins

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.setting import Setting
    from controlplane.scenarios.user import User

Tree = dict[str, Any]
PODS = ("a", "b", "c")
SIZES = ("500m", "64", "1500m", "2")
"""CPU requests: two fit any node, one fits none, one fits an empty node."""
PRIORITIES = (0, 10, 100)
GATE = "example.com/gate"
FINALIZER = "example.com/wait"
PAUSES = (0, 0, 1, 7, 20, 310)
"""Virtual seconds between two operations; the last is longer than the flush of the unschedulable pool."""

PRIORITIES_ARE, GATES, HOLDS, REFUSALS = "priorities", "gates", "holds", "refusals"
FINALIZERS, SELECTORS, PLACED = "finalizers", "selectors", "placed pods"
TAINTS, LOSSES, PATIENCE, FAULTS_ARE = "taints", "node losses", "patience", "faults"
KINDS = (GATES, HOLDS, REFUSALS, FINALIZERS, SELECTORS, PLACED)
FEATURES = (PRIORITIES_ARE, *KINDS, TAINTS, LOSSES, PATIENCE, FAULTS_ARE)
DRAWN = "what the churn is about"

OPERATIONS = Option(
    "operations", type=int, low=1, default=14, help="How many things the user does."
)
USERS = Option("users", type=int, low=1, high=4, default=2, help="How many tasks do them.")
FAULTS = Option(
    "faults",
    type=bool,
    default=True,
    help="Whether processes crash, connections break, and messages are held up.",
)


def build(setting: Setting) -> ClusterConfig:
    """The scheduler with plugins that hold and refuse pods that ask for it."""
    from controlplane.scenarios.plugins import Hold, RefuseLabelled

    return scheduler_alone(**with_plugins(Hold, RefuseLabelled))(setting)


async def churn(user: User) -> None:
    """Draws what this run is about, then several tasks do their share."""
    drawn = [each for each in FEATURES if user.choose(2, f"with {each}")]
    if FAULTS_ARE in drawn and not user.options["faults"]:
        drawn.remove(FAULTS_ARE)
    if FAULTS_ARE in drawn and FINALIZERS in drawn:
        drawn.remove(FINALIZERS)  # see the top
    user.notes[DRAWN] = drawn
    await user.sleep(user.choose(2, "when nodes are there"))
    count, tasks = user.options["operations"], user.options["users"]
    made = [user.spawn(_share, count // tasks) for _ in range(tasks - 1)]
    await _share(user, count - count // tasks * (tasks - 1))
    for task in made:
        await user.join(task)
    await _let_go(user)


async def _share(user: User, count: int) -> None:
    for _ in range(count):
        await _something(user)
        pauses = PAUSES if PATIENCE in user.notes[DRAWN] else PAUSES[:-1]
        pause = pauses[user.choose(len(pauses), "pause")]
        if pause:
            await user.sleep(pause)


async def _something(user: User) -> None:
    name = PODS[user.choose(len(PODS), "which pod")]
    if not await user.attempt(user.get("Pod", name)):
        await user.attempt(user.create(_pod(user, name)))
        return
    todo = [_delete, _delete, _touch, _node]
    if FAULTS_ARE in user.notes[DRAWN]:
        todo.append(_fault)
    await todo[user.choose(len(todo), "what")](user, name)


def _pod(user: User, name: str) -> Tree:
    """A pod of a kind that is a choice among those that this run is about."""
    tree = pod(name, SIZES[user.choose(len(SIZES), "what size")])
    if PRIORITIES_ARE in user.notes[DRAWN]:
        tree["spec"]["priority"] = PRIORITIES[user.choose(len(PRIORITIES), "what priority")]
    kinds = ["plain", *(each for each in KINDS if each in user.notes[DRAWN])]
    kind = kinds[user.choose(len(kinds), "what kind")]
    if kind == GATES:
        tree["spec"]["schedulingGates"] = [{"name": GATE}]
    elif kind == HOLDS:
        tree["metadata"]["labels"] = {"hold": "yes"}
    elif kind == REFUSALS:
        tree["metadata"]["labels"] = {"refuse": "once"}
    elif kind == FINALIZERS:
        tree["metadata"]["finalizers"] = [FINALIZER]
    elif kind == SELECTORS:
        tree["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-1"}
    elif kind == PLACED:
        tree["spec"]["nodeName"] = "node-1"
        user.notes[CHOSEN_BY_USERS] = {"node-1": True}
    return tree


async def _delete(user: User, name: str) -> None:
    await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    if user.choose(2, "recreate at once"):
        await user.attempt(user.create(_pod(user, name)))


async def _touch(user: User, name: str) -> None:
    """A label of the pod, one that a plugin heeds, its gates or its finalizers."""
    touched = {"touched": str(user.ctx.serial())}
    patches: tuple[Tree, ...] = (
        {"metadata": {"labels": touched}},
        {"metadata": {"labels": {"hold": None, **touched}}},
        {"metadata": {"finalizers": None}},
        {"spec": {"schedulingGates": None}},
    )
    await user.attempt(user.patch("Pod", name, patches[user.choose(len(patches), "touch what")]))


async def _node(user: User, _name: str) -> None:
    """Something about a node changes; or it is lost, and registered again."""
    node = f"node-{1 + user.choose(max(1, user.options['nodes']), 'which node')}"
    serial = str(user.ctx.serial())
    taint = {"key": "example.com/t", "value": serial}
    patches: list[Tree] = [
        {"metadata": {"labels": {"touched": serial}}},
        {"spec": {"taints": [{**taint, "effect": "PreferNoSchedule"}]}},
    ]
    if TAINTS in user.notes[DRAWN]:
        patches += [
            {"spec": {"taints": [{**taint, "effect": "NoSchedule"}]}},
            {"spec": {"taints": None}},
            {"spec": {"unschedulable": True}},
            {"spec": {"unschedulable": None}},
        ]
    what = user.choose(len(patches) + (LOSSES in user.notes[DRAWN]), "what about it")
    if what < len(patches):
        await user.attempt(user.patch("Node", node, patches[what]))
    else:
        await user.attempt(user.recreate("Node", node))


async def _fault(user: User, _name: str) -> None:
    """The scheduler's connections break, or it hears nothing for a while, or the API server restarts."""
    what = user.ctx.choose("fault", 3, "what fails")
    if what == 0:
        user.break_link("scheduler", "apiserver")
    elif what == 1:
        user.cut("apiserver", "scheduler")
        await user.sleep((0.5, 45)[user.ctx.choose("fault", 2, "how long")])
        user.heal("apiserver", "scheduler")
    else:
        user.crash("apiserver")
        user.restart("apiserver")


async def _let_go(user: User) -> None:
    """In the end gates, taints, cordons and finalizers go, and time passes: what can run gets its node."""
    for node in range(1, user.options["nodes"] + 1):
        open_again = {"spec": {"taints": None, "unschedulable": None}}
        await user.attempt(user.patch("Node", f"node-{node}", open_again))
    for name in PODS:
        patch: Tree = {"metadata": {"finalizers": None, "labels": {"hold": None, "refuse": None}}}
        await user.attempt(user.patch("Pod", name, patch))
        await user.attempt(user.patch("Pod", name, {"spec": {"schedulingGates": None}}))
        if user.choose(2, "delete in the end"):
            await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    await user.sleep(20)


SCENARIO = Scenario(
    "churn",
    title="pods, nodes and connections come and go; the scheduler and its queue are looked at",
    workload=churn,
    build=build,
    invariants=(
        *queue_holds(),
        NO_BOUND_POD_IS_QUEUED,
        QUEUED_OBJECTS_ARE_THE_LATEST,
        EVERY_WAITING_POD_IS_QUEUED,
        ROOM_IS_USED,
        NOTHING_IS_PROMISED_TWICE,
        THE_SCHEDULER_LIVES,
        EVERY_CONTEXT_ENDS,
    ),
    options=(OPERATIONS, USERS, FAULTS),
    defaults={"node_cpu": "2"},
    reads_log=True,
)
