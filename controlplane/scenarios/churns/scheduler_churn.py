"""The default churn: one workload that aims at no race, for finding races without a hint.

A user creates, changes, deletes and recreates pods under a few names: of several sizes and priorities, some gated,
some held by a Permit plugin, failed once or kept waiting by PreBind plugins, some with finalizers, selectors or a
node of their own. Another user binds pods past the scheduler,
lets them finish, and shrinks them. Nodes are labelled, tainted, cordoned, lost, registered again,
and join with a taint.
Processes crash and connections break, if the option says so. The scheduler may have been started with
feature gates that older or younger releases had. What happens next is a choice each time, a refusal
or a broken connection is shrugged off, and what is there at the end stays there.

Which of all that a run is about is drawn at its start (swarm testing: many small mixtures find more
than one that has everything).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from controlplane.api.times import SECOND
from controlplane.scenarios.authoring.nemesis import compacted, refused
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone, with_plugins
from controlplane.scenarios.churns.parts import DRAWN, USERS, drew, in_turn
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Invariant, Scenario
from controlplane.scenarios.invariants.contexts import EVERY_CONTEXT_ENDS
from controlplane.scenarios.invariants.identity import writes_keep_to_their_object
from controlplane.scenarios.invariants.scheduling import (
    BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED,
    CHOSEN_BY_USERS,
    EVERY_WAITING_POD_IS_QUEUED,
    NO_BOUND_POD_IS_QUEUED,
    NOTHING_IS_PROMISED_TWICE,
    QUEUED_OBJECTS_ARE_THE_LATEST,
    ROOM_IS_USED,
    THE_SCHEDULER_LIVES,
)
from controlplane.scenarios.invariants.scheduling_picture import (
    LAWS,
    NO_ROOM_IS_OVERLOOKED,
    picture_holds,
)
from controlplane.scenarios.invariants.scheduling_queue import ALL, queue_holds
from controlplane.scenarios.invariants.scheduling_state import (
    BACKOFF_FITS_FAILURES,
    CACHE_HOLDS_WHAT_IS_BOUND,
    NO_BACKOFF_IS_SERVED_TWICE,
    NOMINATIONS_NAME_NODES,
)
from controlplane.scenarios.invariants.scheduling_steps import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
PODS = ("a", "b", "c")
SIZES = ("2", "500m", "1500m", "2", "64")
"""CPU requests: the first fills an empty node, the last fits none."""
SOON = (0, 4, 12, 40)
"""Steps after which a fault occurs: not only between two actions of the user."""
PRIORITIES = (0, 10, 100)
GATE = "example.com/gate"
FINALIZER = "example.com/wait"
PAUSES = (0, 0, 1, 7, 20, 340)
"""Virtual seconds between two operations; the last is longer than the flush of the unschedulable pool takes."""
REST_S = (20, 720)
"""Virtual seconds at the end; the second is longer than two flushes."""

PRIORITIES_ARE, GATES, HOLDS, REFUSALS = "priorities", "gates", "holds", "refusals"
PROVISIONS, FINALIZERS, SELECTORS = "provisions", "finalizers", "selectors"
PLACED, BINDERS, FINISHING = "placed pods", "other binders", "pods that finish"
TAINTS, LOSSES, ONE_NODE = "taints", "node losses", "one node"
PATIENCE, FAULTS_ARE, FLAGS = "patience", "faults", "other feature gates"
KINDS = (GATES, HOLDS, REFUSALS, PROVISIONS, FINALIZERS, SELECTORS, PLACED)
FEATURES = (
    *(PRIORITIES_ARE, *KINDS, BINDERS, FINISHING),
    *(TAINTS, LOSSES, ONE_NODE, PATIENCE, FAULTS_ARE, FLAGS),
)
CALM = (PRIORITIES_ARE, TAINTS, LOSSES, ONE_NODE)
"""Topics of the calm run from which plans are made."""
SETS_OF_FLAGS: tuple[dict[str, bool], ...] = (
    {"SchedulerQueueingHints": False, "SchedulerPopFromBackoffQ": False},
    {"SchedulerAsyncPreemption": False},
    {"SchedulerPopFromBackoffQ": False, "OpportunisticBatching": False},
    {"NominatedNodeNameForExpectation": False},
    {"SchedulerAsyncAPICalls": True},
)
"""Feature gates of the scheduler that differ from our release's, as 1.27 to 1.34 had them and as may be chosen."""
OUTAGES_S = (0.5, 45)
FAIR_AFTER, STEP_LIMIT = 4_000, 60_000
"""Steps; far more than a run of this length needs. What takes more under a fair schedule goes round in circles.

(Two pods that are held wake each other every few seconds; in a patient run that takes tens of thousands.)
"""
OPENED = "everything was opened in the end"

OPERATIONS = Option(
    "operations", type=int, low=1, default=14, help="How many things the user does."
)
FAULTS = Option(
    "faults",
    type=bool,
    default=True,
    help="Whether processes crash, connections break, and messages are held up or lost.",
)
RESYNC = Option(
    "resync",
    type=float,
    low=0,
    default=0,
    metavar="SECONDS",
    help="How often informers tell of everything again; 0: never, as the scheduler's do since they are shared.",
)


def build(setting: Setting) -> ClusterConfig:
    """The scheduler with plugins that hold, refuse and delay pods that ask for it."""
    from controlplane.scenarios.authoring.scheduler_plugins import (
        Hold,
        ProvisionLabelled,
        RefuseLabelled,
    )

    more = dict(with_plugins(Hold, RefuseLabelled, ProvisionLabelled))
    if setting["resync"]:
        from controlplane.client.features import ClientFeatures

        more["client"] = ClientFeatures(resync_ns=round(setting["resync"] * SECOND))
    return scheduler_alone(**more)(setting)


async def churn(user: User) -> None:
    """Draws what this run is about, then several tasks do their share."""
    drawn = [each for each in FEATURES if user.choose(2, f"with {each}") != (each in CALM)]
    if FAULTS_ARE in drawn and not user.options["faults"]:
        drawn.remove(FAULTS_ARE)
    user.notes[DRAWN] = drawn
    if FLAGS in drawn:
        flags = SETS_OF_FLAGS[user.choose(len(SETS_OF_FLAGS), "which flags")]
        user.restart_scheduler(**flags)
    await user.sleep(user.choose(2, "when nodes are there"))
    if ONE_NODE in drawn:
        for node in range(2, user.options["nodes"] + 1):
            await user.attempt(user.delete("Node", f"node-{node}"))
    await user.divide(_share, user.options["operations"], user.options["users"])
    await _end(user)


def _is_about(user: User, *features: str) -> bool:
    drawn = user.notes[DRAWN]
    return any(each in drawn for each in features)


async def _share(user: User, count: int) -> None:
    for _ in range(count):
        await _something(user)
        pauses = PAUSES if _is_about(user, PATIENCE) else PAUSES[:-1]
        pause = pauses[in_turn(user, len(pauses), "pause")]
        if pause:
            await user.sleep(pause)


async def _something(user: User) -> None:
    name = PODS[in_turn(user, len(PODS), "which pod")]
    if name not in [each.name for each in _pods_there(user)]:
        await user.attempt(user.create(_pod(user, name)))
        if _is_about(user, BINDERS) and in_turn(user, 3, "another client binds it") == 1:
            for _ in range(SOON[in_turn(user, len(SOON), "how soon")]):
                await user.point()
            await _bind(user, name)
        return
    todo = [_delete, _delete, _touch, _node]
    if _is_about(user, FAULTS_ARE):
        todo += [_fault, _fault]
    if _is_about(user, BINDERS):
        todo += [_bind, _bind]
    if _is_about(user, FINISHING):
        todo.append(_finish)
    await todo[in_turn(user, len(todo), "what")](user, name)


def _pod(user: User, name: str) -> Tree:
    """A pod of a kind that is a choice among those that this run is about."""
    tree = pod(name, SIZES[in_turn(user, len(SIZES), "what size")])
    if _is_about(user, PRIORITIES_ARE):
        tree["spec"]["priority"] = PRIORITIES[in_turn(user, len(PRIORITIES), "what priority")]
    kinds = ["plain", *(each for each in KINDS if _is_about(user, each))]
    kind = kinds[in_turn(user, len(kinds), "what kind")]
    if kind == GATES:
        tree["spec"]["schedulingGates"] = [{"name": GATE}]
    elif kind == HOLDS:
        tree["metadata"]["labels"] = {"hold": "yes"}
    elif kind == REFUSALS:
        tree["metadata"]["labels"] = {"refuse": "once"}
    elif kind == PROVISIONS:
        tree["metadata"]["labels"] = {"provision": "soon"}
    elif kind == FINALIZERS:
        tree["metadata"]["finalizers"] = [FINALIZER]
    elif kind == SELECTORS:
        tree["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-1"}
    elif kind == PLACED:
        tree["spec"]["nodeName"] = _chosen(user, "node-1")
    return tree


def _chosen(user: User, node: str) -> str:
    """Note that users put pods there themselves, whether or not there is room."""
    user.notes.setdefault(CHOSEN_BY_USERS, {})[node] = True
    return node


def _pods_there(user: User) -> list[Any]:
    """The pods that exist: users look past every cache."""
    return user.run.objects("/registry/pods/")


def _some_node(user: User) -> str:
    return f"node-{1 + in_turn(user, max(1, user.options['nodes']), 'which node')}"


async def _delete(user: User, name: str) -> None:
    await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    if in_turn(user, 2, "recreate at once"):
        await user.attempt(user.create(_pod(user, name)))


async def _touch(user: User, name: str) -> None:
    """A label of the pod, one that a plugin heeds, its gates or its finalizers."""
    touched = {"touched": str(user.ctx.serial())}
    patches: list[Tree] = [
        {"metadata": {"labels": touched}},
        {"metadata": {"labels": {"hold": None, **touched}}},
        {"metadata": {"finalizers": None}},
        {"spec": {"schedulingGates": None}},
    ]
    if _is_about(user, HOLDS):
        patches.append({"metadata": {"labels": {"hold": "yes", **touched}}})
    await user.attempt(user.patch("Pod", name, patches[in_turn(user, len(patches), "touch what")]))


async def _bind(user: User, name: str) -> None:
    """Bind the pod as a second scheduler would."""
    target = {"apiVersion": "v1", "kind": "Node", "name": _chosen(user, _some_node(user))}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await user.attempt(user.client.bind("default", name, binding))


async def _finish(user: User, name: str) -> None:
    """The pod has run to its end, if it has a node."""
    there = {each.name: each.view.spec.node_name for each in _pods_there(user)}
    if there.get(name):
        patch = {"status": {"phase": "Succeeded"}}
        await user.attempt(user.patch("Pod", name, patch, subresource="status"))


async def _node(user: User, _name: str) -> None:
    """Something about a node changes; or it is lost, and perhaps registered again."""
    node = _some_node(user)
    serial = str(user.ctx.serial())
    taint = {"key": "example.com/t", "value": serial}
    patches: list[Tree] = [
        {"metadata": {"labels": {"touched": serial}}},
        {"spec": {"taints": [{**taint, "effect": "PreferNoSchedule"}]}},
    ]
    if _is_about(user, TAINTS):
        patches += [
            {"spec": {"taints": [{**taint, "effect": "NoSchedule"}]}},
            {"spec": {"taints": None}},
            {"spec": {"unschedulable": True}},
            {"spec": {"unschedulable": None}},
        ]
    losses = [_lose, _lose_and_register] if _is_about(user, LOSSES) else []
    if losses and _is_about(user, TAINTS):
        losses.append(_register_tainted)
    what = in_turn(user, len(patches) + len(losses), "what about it")
    if what < len(patches):
        await user.attempt(user.patch("Node", node, patches[what]))
    else:
        await losses[what - len(patches)](user, node)


async def _lose(user: User, node: str) -> None:
    await user.attempt(user.delete("Node", node))


async def _lose_and_register(user: User, node: str) -> None:
    await user.attempt(user.recreate("Node", node))


async def _register_tainted(user: User, node: str) -> None:
    """A node joins, or one that was lost does so again, as most do: not ready for pods yet."""
    from controlplane.cluster import node_tree

    await _lose(user, node)
    tree = node_tree(node, cpu=user.options["node_cpu"])
    tree["spec"] = {"taints": [{"key": "example.com/t", "value": "new", "effect": "NoSchedule"}]}
    await user.attempt(user.create(tree))


async def _fault(user: User, _name: str) -> None:
    """The faults between the scheduler and the API server."""
    ctx = user.ctx
    faults = (_break, _outage, _outage, _restart, _lose_answer, _lose_request, _refuse)
    await faults[ctx.choose("fault", len(faults), "what fails")](user)


async def _soon(user: User, fails: Callable[[], None]) -> None:
    """Let something fail now, or in the midst of what the others do next."""
    steps = SOON[user.ctx.choose("fault", len(SOON), "how soon")]
    if steps:
        user.ctx.faults.at_step(user.ctx.step + steps, fails)
    else:
        fails()


async def _break(user: User) -> None:
    await _soon(user, lambda: user.break_link("scheduler", "apiserver"))


async def _outage(user: User) -> None:
    """They are cut off from each other for a while; meanwhile the server may restart, or forget its history."""
    lasts = OUTAGES_S[user.ctx.choose("fault", len(OUTAGES_S), "how long")]
    meanwhile = user.ctx.choose("fault", 3, "what else")

    def begin() -> None:
        user.cut("apiserver", "scheduler")
        user.ctx.faults.at_time(user.ctx.now + round(lasts * SECOND), end)

    def end() -> None:
        if meanwhile == 1:
            _restart_now(user)
        elif meanwhile == 2:
            compacted().does(user)
            user.break_link("scheduler", "apiserver")
        user.heal("apiserver", "scheduler")

    await _soon(user, begin)


def _restart_now(user: User) -> None:
    user.crash("apiserver")
    user.restart("apiserver")


async def _restart(user: User) -> None:
    await _soon(user, lambda: _restart_now(user))


async def _lose_answer(user: User) -> None:
    await _soon(user, lambda: user.lose("apiserver", "scheduler"))


async def _lose_request(user: User) -> None:
    await _soon(user, lambda: user.lose("scheduler", "apiserver"))


async def _refuse(user: User) -> None:
    code = (409, 500)[user.ctx.choose("fault", 2, "how it is refused")]
    await _soon(user, lambda: refused("scheduler", "apiserver", code).does(user))


async def _end(user: User) -> None:
    """Time passes; before that, perhaps, gates, taints, cordons and finalizers go: what can run gets its node."""
    if user.choose(2, "leave it all as it is"):
        for name, labels in [(each.name, each.view.labels) for each in _pods_there(user)]:
            if labels.get("hold"):  # two that are held for ever wake each other for ever
                await user.attempt(
                    user.patch("Pod", name, {"metadata": {"labels": {"hold": None}}})
                )
    else:
        for node in range(1, user.options["nodes"] + 1):
            open_again = {"spec": {"taints": None, "unschedulable": None}}
            await user.attempt(user.patch("Node", f"node-{node}", open_again))
        for name in PODS:
            patch: Tree = {
                "metadata": {
                    "finalizers": None,
                    "labels": {"hold": None, "refuse": None, "provision": None},
                }
            }
            await user.attempt(user.patch("Pod", name, patch))
            await user.attempt(user.patch("Pod", name, {"spec": {"schedulingGates": None}}))
            if user.choose(2, "delete in the end"):
                await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
        user.notes[OPENED] = True
    await user.sleep(REST_S[_is_about(user, PATIENCE)])


def _room_is_used(run: Run) -> str | None:
    """For runs that end with no gate closed: capacity reserved for a pod that cannot use it is not free.

    Sometimes only the flush of the unschedulable pool helps, and only patient runs wait for that: when a
    pod was rejected by the Permit plugin, which registers no event; and when another client binds an assumed pod to
    another node, for which upstream sends no event.
    """
    drawn = run.notes[DRAWN]
    if not run.notes.get(OPENED):
        return None
    if PATIENCE not in drawn and (HOLDS in drawn or BINDERS in drawn):
        return None
    return ROOM_IS_USED.check(run)


def _nominations_name_nodes(run: Run) -> str | None:
    """Of patient runs: a pod that was nominated to a node that is gone has been tried again since.

    Where there is no node at all, upstream leaves nominations alone.
    """
    if PATIENCE not in run.notes[DRAWN] or not run.objects("/registry/minions/"):
        return None
    return NOMINATIONS_NAME_NODES.check(run)


def _of_the_scheduler_alone(law: Invariant) -> Invariant:
    """The law of runs in which no other client binds pods: by such a binding upstream's scheduler wakes no pod."""

    def check(run: Run) -> str | None:
        drawn = run.notes.get(DRAWN, ())
        # The room of a pod that was held is offered once its failure is written: upstream, too, that may take long.
        if BINDERS in drawn or (HOLDS in drawn and run.world.faults.injected):
            return None
        return law.check(run)

    # A scheduler that sleeps takes no step.
    return evolve(law, check=check, after=(*law.after, "user") if law.after else ())


def invariants(without: tuple[str, ...] = ()) -> tuple[Invariant, ...]:
    """The invariants of the churn, except those of these names; the queue's are named I1 to I7."""
    found = (
        THE_SCHEDULER_LIVES,
        *queue_holds([name for name in ALL if name not in without]),
        *(each for law in LAWS for each in picture_holds(law)),
        *(_of_the_scheduler_alone(each) for each in picture_holds(NO_ROOM_IS_OVERLOOKED)),
        *STEPS,
        BACKOFF_FITS_FAILURES,
        NO_BACKOFF_IS_SERVED_TWICE,
        NO_BOUND_POD_IS_QUEUED,
        QUEUED_OBJECTS_ARE_THE_LATEST,
        EVERY_WAITING_POD_IS_QUEUED,
        CACHE_HOLDS_WHAT_IS_BOUND,
        BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED,
        Invariant(ROOM_IS_USED.name, _room_is_used),
        Invariant(NOMINATIONS_NAME_NODES.name, _nominations_name_nodes),
        NOTHING_IS_PROMISED_TWICE,
        EVERY_CONTEXT_ENDS,
        writes_keep_to_their_object(),
    )
    return tuple(each for each in found if each.name not in without)


SCENARIO = Scenario(
    "churn",
    title="pods, nodes and connections come and go; the scheduler and its queue are looked at",
    workload=churn,
    build=build,
    invariants=invariants(),
    sometimes=tuple(drew(feature) for feature in FEATURES),
    options=(OPERATIONS, USERS, FAULTS, RESYNC),
    defaults={"node_cpu": "2", "fair_after": FAIR_AFTER},
    step_limit=STEP_LIMIT,
)
