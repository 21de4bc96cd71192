"""A churn of gangs of PodGroups of scheduling.x-k8s.io: they come and go while nodes close and open.

Users create gangs (the group first, last, or amid its pods), delete them as a whole, and create and delete single pods
that take room. At times a node is closed. Nothing evicts a single pod of a gang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone, with_community_plugin
from controlplane.scenarios.churns.parts import USERS, close_or_open_node, operations, pause, stored
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Scenario, Sometimes
from controlplane.scenarios.invariants.scheduler_plugins import (
    A_GANG_RUNS_WHOLLY_OR_NOT_AT_ALL,
    GROUPS,
    members,
)
from controlplane.scenarios.invariants.scheduling import (
    EVERY_WAITING_POD_IS_QUEUED,
    NO_BOUND_POD_IS_QUEUED,
    THE_SCHEDULER_LIVES,
)
from controlplane.scheduler.community.coscheduling import LABEL, POD_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
NAMES: Final = ("a", "b", "c")
SINGLES: Final = ("x", "y", "z")
PAUSES: Final = (0, 0, 1, 7)
LEAST: Final = 2
WAIT_S: Final = 10
REST_S: Final = 60

OPERATIONS = operations(12)
BACKOFF = Option(
    "group-backoff", type=int, low=0, default=0, help="Seconds for which a group backs off."
)


def build(setting: Setting) -> ClusterConfig:
    """The scheduler with Coscheduling, the controller of its groups, and nodes."""
    plugin = with_community_plugin(
        "Coscheduling",
        "queueSort",
        permitWaitingTimeSeconds=WAIT_S,
        podGroupBackoffSeconds=setting["group_backoff"],
    )
    return scheduler_alone(**plugin)(setting)


def _group(name: str) -> Tree:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": LEAST},
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
    name = NAMES[user.choose(len(NAMES), "which gang")]
    mine = [each for each in stored(user, "/registry/pods/") if each.startswith(f"{name}-")]
    if mine or name in stored(user, GROUPS):
        for each in mine:
            await user.attempt(user.delete("Pod", each, grace_period_seconds=0))
        await user.attempt(user.client.delete(POD_GROUP.resource, "default", name))
        return
    size = LEAST + user.choose(2, "one more than it needs")
    when = user.choose(size + 1, "when the group comes")
    for number in range(size + 1):
        if number == when:
            await user.attempt(user.client.create(POD_GROUP.resource, _group(name)))
        if number < size:
            tree = pod(f"{name}-{number}", "1")
            tree["metadata"]["labels"] = {LABEL: name}
            await user.attempt(user.create(tree))


async def _some_single(user: User) -> None:
    name = SINGLES[user.choose(len(SINGLES), "which single pod")]
    if name in stored(user, "/registry/pods/"):
        await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    else:
        await user.attempt(user.create(pod(name, "1")))


def _ever(*, bound: bool) -> Callable[[Run], bool]:
    """Ask for members that are bound, or wait."""

    def reached(run: Run) -> bool:
        pods = [each for found in members(run).values() for each in found]
        return any(bool(each.view.spec.node_name) is bound for each in pods)

    return reached


SCENARIO = Scenario(
    "coscheduling-churn",
    title="gangs of PodGroups come and go; each is bound as a whole or not at all",
    workload=churn,
    build=build,
    invariants=(
        THE_SCHEDULER_LIVES,
        A_GANG_RUNS_WHOLLY_OR_NOT_AT_ALL,
        NO_BOUND_POD_IS_QUEUED,
        EVERY_WAITING_POD_IS_QUEUED,
    ),
    sometimes=(
        Sometimes("a gang runs", _ever(bound=True)),
        Sometimes("a gang waits", _ever(bound=False)),
    ),
    options=(OPERATIONS, USERS, BACKOFF),
    defaults={"nodes": 2, "node_cpu": "2"},
    step_limit=120_000,
)
