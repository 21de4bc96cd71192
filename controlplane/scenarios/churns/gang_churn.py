"""A churn of gangs: groups and their pods come and go, in any order, while nodes grow and shrink.

Users create gangs (the group first, last, or amid its pods), delete them as a whole, and create and delete single pods
that take room. At times a node is closed. Gangs come without priorities: nothing evicts a single pod of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.churns.parts import USERS, close_or_open_node, operations, pause, stored
from controlplane.scenarios.engine.scenario import Scenario, Sometimes
from controlplane.scenarios.invariants.pod_groups import (
    A_GANG_IS_BOUND_WHOLLY_OR_NOT_AT_ALL,
    AT_REST_MEMBERS_ARE_KNOWN,
)
from controlplane.scenarios.invariants.scheduling import (
    EVERY_WAITING_POD_IS_QUEUED,
    NO_BOUND_POD_IS_QUEUED,
    THE_SCHEDULER_LIVES,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
GROUPS = ("a", "b", "c")
SINGLES = ("x", "y", "z")
PAUSES = (0, 0, 1, 7)
REST_S = 30
LEAST = 2
GATES = {"GenericWorkload": True, "GangScheduling": True}

OPERATIONS = operations(12)


def build(setting: Setting) -> ClusterConfig:
    """The scheduler and nodes, with gangs."""
    return scheduler_alone(scheduler_features=GATES)(setting)


def _group(name: str) -> Tree:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": LEAST}}},
    }


async def churn(user: User) -> None:
    """Several tasks do their share."""
    await user.divide(_share, user.options["operations"], user.options["users"])
    await user.sleep(REST_S)


async def _share(user: User, count: int) -> None:
    for _ in range(count):
        todo = (_some_gang, _some_gang, _some_single, close_or_open_node)
        await todo[user.choose(len(todo), "what")](user)
        await pause(user, PAUSES)


async def _some_gang(user: User) -> None:
    """Create a gang of two or three pods, its group before the pod of a drawn number; or delete all of one."""
    name = GROUPS[user.choose(len(GROUPS), "which gang")]
    mine = [each for each in stored(user, "/registry/pods/") if each.startswith(f"{name}-")]
    if mine or name in stored(user, "/registry/podgroups/"):
        for each in mine:
            await user.attempt(user.delete("Pod", each, grace_period_seconds=0))
        await user.attempt(user.delete("PodGroup", name))
        return
    size = LEAST + user.choose(2, "one more than it needs")
    when = user.choose(size + 1, "when the group comes")
    for number in range(size + 1):
        if number == when:
            await user.attempt(user.create(_group(name)))
        if number < size:
            member = {"schedulingGroup": {"podGroupName": name}}
            await user.attempt(user.create(pod(f"{name}-{number}", "1", **member)))


async def _some_single(user: User) -> None:
    name = SINGLES[user.choose(len(SINGLES), "which single pod")]
    if name in stored(user, "/registry/pods/"):
        await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    else:
        await user.attempt(user.create(pod(name, "1")))


def _ever(*, bound: bool) -> Callable[[Run], bool]:
    """Ask for members that are bound, or wait."""

    def reached(run: Run) -> bool:
        specs = [obj.tree["spec"] for obj in run.objects("/registry/pods/")]
        return any("schedulingGroup" in each and ("nodeName" in each) is bound for each in specs)

    return reached


SCENARIO = Scenario(
    "gang-churn",
    title="gangs come and go; each is bound as a whole or not at all",
    workload=churn,
    build=build,
    invariants=(
        THE_SCHEDULER_LIVES,
        A_GANG_IS_BOUND_WHOLLY_OR_NOT_AT_ALL,
        AT_REST_MEMBERS_ARE_KNOWN,
        NO_BOUND_POD_IS_QUEUED,
        EVERY_WAITING_POD_IS_QUEUED,
    ),
    sometimes=(
        Sometimes("a gang runs", _ever(bound=True)),
        Sometimes("a gang waits", _ever(bound=False)),
    ),
    options=(OPERATIONS, USERS),
    defaults={"nodes": 2, "node_cpu": "2"},
    step_limit=60_000,
)
