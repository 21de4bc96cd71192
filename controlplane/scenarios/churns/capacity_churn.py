"""A churn of pods under ElasticQuotas: namespaces borrow from each other, and take back, while nodes close and open.

Users create and delete pods of two namespaces, with two priorities, and close and open nodes. At times the scheduler
crashes and starts again, if the option says so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone, with_community_plugin
from controlplane.scenarios.churns.parts import (
    USERS,
    close_or_open_node,
    crash,
    crashes,
    operations,
    pause,
)
from controlplane.scenarios.engine.scenario import Scenario, Sometimes
from controlplane.scenarios.invariants.scheduler_plugins import QUOTAS_ARE_NEVER_OVERDRAWN
from controlplane.scenarios.invariants.scheduling import (
    EVERY_WAITING_POD_IS_QUEUED,
    NO_BOUND_POD_IS_QUEUED,
    THE_SCHEDULER_LIVES,
)

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
BOUNDS: Final = {"red": (2, 3), "green": (2, 4)}
"""By namespace, the CPUs that it is guaranteed and those that it can use at most."""
PODS: Final = 4
PAUSES: Final = (0, 0, 1, 7)
REST_S: Final = 40

OPERATIONS = operations(14)
CRASHES = crashes("the scheduler")


def build(setting: Setting) -> ClusterConfig:
    """The scheduler with CapacityScheduling, the controller of its quotas, and nodes."""
    return scheduler_alone(**with_community_plugin("CapacityScheduling", "postFilter"))(setting)


def _quota(namespace: str) -> Tree:
    least, most = BOUNDS[namespace]
    memory = {"memory": "8Gi"}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": namespace, "namespace": namespace},
        "spec": {"min": {"cpu": least, **memory}, "max": {"cpu": most, **memory}},
    }


def _resource() -> Any:
    from controlplane.scheduler.community.capacity_scheduling import ELASTIC_QUOTA

    return ELASTIC_QUOTA.resource


async def churn(user: User) -> None:
    """Create the quotas, then let several tasks do their share."""
    for name in BOUNDS:
        tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await user.create(tree)
        await user.client.create(_resource(), _quota(name))
    await user.sleep(1)
    await user.divide(_share, user.options["operations"], user.options["users"])
    await user.sleep(REST_S)


async def _share(user: User, count: int) -> None:
    todo = [_some_pod, _some_pod, _some_pod, close_or_open_node]
    if user.options["crashes"]:
        todo.append(partial(crash, process="scheduler", named="the scheduler"))
    for _ in range(count):
        await todo[user.choose(len(todo), "what")](user)
        await pause(user, PAUSES)


async def _some_pod(user: User) -> None:
    """Create a pod of a namespace, or delete the one of its name."""
    namespace = tuple(BOUNDS)[user.choose(len(BOUNDS), "which namespace")]
    name = f"pod-{user.choose(PODS, 'which pod')}"
    there = {(obj.namespace, obj.name) for obj in user.run.objects("/registry/pods/")}
    if (namespace, name) in there:
        await user.attempt(user.delete("Pod", name, namespace, grace_period_seconds=0))
        return
    tree = pod(name, "1", priority=(0, 10)[user.choose(2, "priority")])
    tree["metadata"]["namespace"] = namespace
    await user.attempt(user.create(tree))


def _borrowed(run: Run) -> bool:
    """Return whether a namespace uses more than it is guaranteed."""
    for name, (least, _) in BOUNDS.items():
        pods = [obj for obj in run.objects("/registry/pods/") if obj.namespace == name]
        if sum(bool(obj.view.spec.node_name) for obj in pods) > least:  # type: ignore[attr-defined]
            return True
    return False


def _waits(run: Run) -> bool:
    return any("nodeName" not in obj.tree["spec"] for obj in run.objects("/registry/pods/"))


SCENARIO = Scenario(
    "capacity-churn",
    title="namespaces lend each other what their ElasticQuotas guarantee; none is overdrawn",
    workload=churn,
    build=build,
    invariants=(
        THE_SCHEDULER_LIVES,
        QUOTAS_ARE_NEVER_OVERDRAWN,
        NO_BOUND_POD_IS_QUEUED,
        EVERY_WAITING_POD_IS_QUEUED,
    ),
    sometimes=(
        Sometimes("a namespace borrows", _borrowed),
        Sometimes("a pod waits", _waits),
    ),
    options=(OPERATIONS, USERS, CRASHES),
    defaults={"nodes": 2, "node_cpu": "3"},
    step_limit=120_000,
)
