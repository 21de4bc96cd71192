"""A churn of Kueue's workloads: they come, wait, run, end and go, while queues are stopped and started.

Two cluster queues share a cohort, and a third is alone. Users create and delete workloads, change priorities, end what
runs, hand quota back for what was evicted (what a job's reconciler does once the pods are gone), and stop queues.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from controlplane.scenarios.authoring.kueue_worlds import (
    WORKLOADS,
    change,
    cluster_queue,
    cohort,
    create,
    delete,
    finish,
    flavor,
    kueue_alone,
    local_queue,
    patch,
    release,
    workload,
    workloads_now,
)
from controlplane.scenarios.churns.parts import USERS, crash, crashes, cut_off, operations, pause
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Scenario, Sometimes
from controlplane.scenarios.invariants.kueue import (
    AT_REST_KUEUE_KNOWS_EACH_WORKLOAD,
    QUOTA_IS_GIVEN_ONCE,
)
from controlplane.scenarios.invariants.kueue_waiting import (
    ADMITTED_IN_ONE_QUEUE,
    AT_REST_COUNTS_ARE_RIGHT,
    AT_REST_NOTHING_PARKED_COULD_PREEMPT,
    AT_REST_NOTHING_THAT_FITS_IS_PARKED,
    AT_REST_NOTHING_WAITS_FOR_A_STOP_THAT_IS_OVER,
    AT_REST_PREEMPTIONS_HAVE_COME,
    AT_REST_THE_PARKED_SAY_WHY,
    FLAVORS_ARE_ASSIGNED,
    PREEMPTED_ONCE,
    WAITS_IN_ONE_PLACE,
    WHAT_RUNS_IS_NOT_HELD_BACK,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.user import User

QUEUES: Final = ("red", "blue", "lone")
NAMES: Final = ("a", "b", "c", "d", "e", "f")
PRIORITIES: Final = (0, 10, 20)
PAUSES: Final = (0, 0, 1, 3)
REST_S: Final = 60

OPERATIONS = operations(16)
CRASHES = crashes("Kueue")
ALONE: Final = partial(crash, process="kueue", named="Kueue")
REPLICAS = Option(
    "replicas",
    type=int,
    default=1,
    low=1,
    high=3,
    help="Replicas of Kueue; --crashes cuts them off, too.",
)
CUT_S: Final = 20
"""Longer than a lease: another replica leads when the network is back."""
FAIR = Option("fair-sharing", type=bool, default=False, help="Let Kueue share fairly.")
LIMITS = Option(
    "limits",
    type=bool,
    default=False,
    help="Put the two queues into cohorts of their own below the common one, with limits of borrowing and lending.",
)


async def churn(user: User) -> None:
    """Create the queues, then let several tasks do their share."""
    await create(user, flavor("default"))
    for name in QUEUES:
        await _create_queue(user, name)
    await user.divide(_share, user.options["operations"], user.options["users"])
    await user.sleep(1)
    for name in QUEUES:
        await patch(user, "ClusterQueue", "", name, {"spec": {"stopPolicy": "None"}})
    for name in NAMES:
        if name in workloads_now(user):
            await user.attempt(change(user, name, active=True))
    for _ in NAMES:
        for name in NAMES:
            await release(user, name)
        await user.sleep(3)
    await user.sleep(REST_S)


async def _create_queue(user: User, name: str) -> None:
    """Create a queue with its local queue; with limits red borrows one CPU at most, and blue lends one."""
    above, quota = "" if name == "lone" else "team", {"nominalQuota": "2"}
    if above and user.options["limits"]:
        above = f"team-{name}"
        await create(user, cohort(above, "team"))
        quota |= {"borrowingLimit": "1"} if name == "red" else {"lendingLimit": "1"}
    await create(user, cluster_queue(name, {"default": quota}, above), local_queue(name))


async def _share(user: User, count: int) -> None:
    todo = [
        *[_some_workload] * 5,
        _some_end,
        _some_release,
        _some_priority,
        _some_stop,
        _some_move,
        _some_activity,
        _some_label,
    ]
    if user.options["crashes"]:
        todo.append(crash_or_cut if user.options["replicas"] > 1 else ALONE)
    for _ in range(count):
        await todo[user.choose(len(todo), "what")](user)
        await pause(user, PAUSES)


async def crash_or_cut(user: User) -> None:
    """Crash a replica, or cut it off for longer than its lease lasts: the leader, or one that follows."""
    from controlplane.cluster_config import numbered

    replica = numbered("kueue", user.options["replicas"])[
        user.choose(user.options["replicas"], "which replica")
    ]
    if user.choose(2, "cut off, not crashed"):
        cut_off(user, replica, CUT_S)
    else:
        await crash(user, replica, "Kueue")


def _chosen(user: User) -> str:
    return NAMES[user.choose(len(NAMES), "which workload")]


async def _some_workload(user: User) -> None:
    """Create a workload, or delete the one of that name."""
    name = _chosen(user)
    if name in workloads_now(user):
        await user.attempt(delete(user, "Workload", name, "default"))
        return
    queue = QUEUES[user.choose(len(QUEUES), "which queue")]
    cpu = 1 + user.choose(3, "more CPUs than one")
    priority = PRIORITIES[user.choose(len(PRIORITIES), "which priority")]
    await user.attempt(create(user, workload(name, queue, cpu, priority)))


async def _some_end(user: User) -> None:
    await finish(user, _chosen(user))


async def _some_release(user: User) -> None:
    await release(user, _chosen(user))


async def _some_priority(user: User) -> None:
    name = _chosen(user)
    if name in workloads_now(user):
        priority = PRIORITIES[user.choose(len(PRIORITIES), "which priority")]
        await user.attempt(change(user, name, priority=priority))


async def _some_move(user: User) -> None:
    """Let a workload wait in another queue; one that holds quota stays."""
    name = _chosen(user)
    if name in workloads_now(user):
        queue = QUEUES[user.choose(len(QUEUES), "which queue")]
        await user.attempt(change(user, name, queueName=queue))


async def _some_activity(user: User) -> None:
    """Deactivate a workload, or let it be active again."""
    name = _chosen(user)
    tree = workloads_now(user).get(name)
    if tree is not None:
        active = not tree["spec"].get("active", True)
        await user.attempt(change(user, name, active=active))


async def _some_label(user: User) -> None:
    """Change a workload's metadata, which means nothing to Kueue."""
    name = _chosen(user)
    if name in workloads_now(user):
        labels = {"metadata": {"labels": {"seen": str(user.run.world.now)}}}
        await user.attempt(patch(user, "Workload", "default", name, labels))


async def _some_stop(user: User) -> None:
    policies = ("None", "Hold", "HoldAndDrain")
    name = QUEUES[user.choose(len(QUEUES), "which queue")]
    policy = policies[user.choose(len(policies), "which policy")]
    await user.attempt(patch(user, "ClusterQueue", "", name, {"spec": {"stopPolicy": policy}}))


def _ever(kind: str, *states: str) -> Callable[[Run], bool]:
    def reached(run: Run) -> bool:
        return any(
            each["type"] == kind and each["status"] in states
            for obj in run.objects(WORKLOADS)
            for each in (obj.tree.get("status") or {}).get("conditions") or ()
        )

    return reached


SCENARIO = Scenario(
    "kueue-churn",
    title="workloads come and go; quota is given once and nothing is lost",
    workload=churn,
    build=kueue_alone,
    invariants=(
        QUOTA_IS_GIVEN_ONCE,
        WAITS_IN_ONE_PLACE,
        PREEMPTED_ONCE,
        FLAVORS_ARE_ASSIGNED,
        ADMITTED_IN_ONE_QUEUE,
        WHAT_RUNS_IS_NOT_HELD_BACK,
        AT_REST_KUEUE_KNOWS_EACH_WORKLOAD,
        AT_REST_NOTHING_THAT_FITS_IS_PARKED,
        AT_REST_NOTHING_PARKED_COULD_PREEMPT,
        AT_REST_NOTHING_WAITS_FOR_A_STOP_THAT_IS_OVER,
        AT_REST_PREEMPTIONS_HAVE_COME,
        AT_REST_THE_PARKED_SAY_WHY,
        AT_REST_COUNTS_ARE_RIGHT,
    ),
    sometimes=(
        Sometimes("a workload is admitted", _ever("Admitted", "True")),
        Sometimes("a workload waits", _ever("QuotaReserved", "False")),
        Sometimes("a workload was preempted", _ever("Preempted", "True", "False")),
    ),
    options=(OPERATIONS, USERS, CRASHES, REPLICAS, FAIR, LIMITS),
)
