"""A churn of workloads in a cluster that grows and shrinks with them, on a cloud that may fail.

Two node groups, one in each of two zones, have a Cluster Autoscaler. Users create, scale and delete Deployments; one
Deployment with a disruption budget stays as it is, so that drains have to keep to the budget. The cloud refuses
requests, makes no instance, makes one that never registers, and takes its time, where the search decides so. The
autoscaler may crash and begin again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.churns.parts import crash, crashes, operations, pause
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Invariant, Scenario, Sometimes
from controlplane.scenarios.invariants.autoscaler import (
    AT_REST_GROUPS_HAVE_THEIR_NODES,
    AT_REST_NO_POD_WAITS_FOR_A_NODE,
    PODS_LEAVE_BEFORE_THEIR_NODE,
    enough_stay_ready,
    the_size_settles,
)

if TYPE_CHECKING:
    from controlplane.autoscaler.cloud.file import NodeGroups
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
AUTOSCALER: Final = "cluster-autoscaler"
NAMES: Final = ("a", "b", "c")
STEADY: Final = "steady"
REPLICAS: Final = 3
LEAST: Final = 2
CPUS: Final = ("400m", "900m", "1500m")
PAUSES: Final = (0, 1, 10, 40, 50, 60)
MOST_REQUESTS: Final = 60
"""Requests to the cloud after the last change from which on the cluster counts as one that never settles."""

OPERATIONS = operations(10)
CRASHES = crashes("the autoscaler")
FAILURES = Option("cloud-failures", type=bool, default=True, help="Let the cloud fail at times.")
LOSSES = Option(
    "losses",
    type=bool,
    default=False,
    help="Let instances vanish at times; budgets do not hold then.",
)
AUTOSCALERS = Option(
    "autoscalers",
    type=int,
    low=1,
    high=3,
    default=1,
    help="Autoscalers; one of several leads.",
)
TAINT_DELAY = Option(
    "taint-delay",
    type=float,
    low=0,
    default=5.0,
    metavar="SECONDS",
    help="Flag node-delete-delay-after-taint; it was 0 before 1.26.",
)


def node_groups(setting: Setting) -> NodeGroups:
    """The groups and the flags of this world."""
    from controlplane.autoscaler.cloud.file import node_groups_of

    failures: list[Tree] = [
        {"type": "Refused", "count": 2, "explored": True},
        {"type": "CreationError", "count": 2, "explored": True},
        {"type": "NeverRegisters", "count": 1, "explored": True},
        {"type": "DeletionRefused", "count": 2, "explored": True},
    ]
    if not setting["cloud_failures"]:
        failures = []
    if setting["losses"]:
        failures.append({"type": "Lost", "after": "70s", "count": 2, "explored": True})
    groups = [
        {
            "name": name,
            "maxSize": 6,
            "size": 1,
            "provisionTime": "20s",
            "provisionJitter": "4s",
            "template": {
                "metadata": {"labels": {"topology.kubernetes.io/zone": name}},
                "status": {"capacity": {"cpu": "2", "memory": "8Gi"}},
            },
            "failures": failures,
        }
        for name in ("east", "west")
    ]
    flags = {
        "max-node-provision-time": "2m",
        "scale-down-delay-after-add": "20s",
        "scale-down-unneeded-time": "30s",
        "unremovable-node-recheck-timeout": "40s",
        "initial-node-group-backoff-duration": "30s",
        "max-node-group-backoff-duration": "20m",
        "node-delete-delay-after-taint": f"{setting['taint_delay']:g}s",
        "expander": "random",
    }
    return node_groups_of({"flags": flags, "nodeGroups": groups}, "autoscaler-churn")


def build(setting: Setting) -> ClusterConfig:
    """A whole cluster, whose nodes come from the cloud."""
    from controlplane.autoscaler.loops.adding import cloud_of
    from controlplane.autoscaler.process.controller import autoscaler_of
    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.common.selection import STANDARD

    content = node_groups(setting)
    return ClusterConfig(
        nodes=(),
        heartbeats=False,
        kubelet_events=False,
        enabled_controllers=(*STANDARD, "disruption", "podgc"),
        own_controllers=(autoscaler_of(content, replicas=setting["autoscalers"]),),
        additions=(cloud_of(content.groups),),
    )


def _deployment(name: str, replicas: int, cpu: str) -> Tree:
    labels = {"app": name}
    container = {"name": "c", "image": "work", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def _budget() -> Tree:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": STEADY, "namespace": "default"},
        "spec": {"minAvailable": LEAST, "selector": {"matchLabels": {"app": STEADY}}},
    }


async def churn(user: User) -> None:
    """Create what stays, let the users do their things, and wait until the cluster has taken them in."""
    await user.create(_budget())
    await user.create(_deployment(STEADY, REPLICAS, "300m"))
    todo = [_some_change, _some_change, _some_change, _some_removal]
    if user.options["crashes"]:
        todo.append(partial(crash, process=AUTOSCALER, named="the autoscaler"))
    for _ in range(user.options["operations"]):
        await todo[user.choose(len(todo), "what")](user)
        await pause(user, PAUSES)
    user.notes["calm"] = len(user.cluster.beside["cloud"].calls)
    await user.sleep(60)


async def _some_change(user: User) -> None:
    """Create a Deployment, or scale the one of that name."""
    name = NAMES[user.choose(len(NAMES), "which Deployment")]
    replicas = user.choose(4, "replicas")
    if await user.exists("Deployment", name, "default"):
        await user.attempt(user.scale("Deployment", name, replicas, "default"))
    else:
        cpu = CPUS[user.choose(len(CPUS), "which CPU")]
        await user.attempt(user.create(_deployment(name, replicas, cpu)))


async def _some_removal(user: User) -> None:
    name = NAMES[user.choose(len(NAMES), "which Deployment")]
    await user.attempt(user.delete("Deployment", name, "default"))


def _happened(reason: str) -> Any:
    def reached(run: Run) -> bool:
        return any(obj.tree.get("reason") == reason for obj in run.objects("/registry/events/"))

    return reached


def invariants(setting: Setting) -> tuple[Invariant, ...]:
    """Return what has to hold; a budget is kept only where evictions are all that ends pods."""
    found = (
        PODS_LEAVE_BEFORE_THEIR_NODE,
        AT_REST_GROUPS_HAVE_THEIR_NODES,
        AT_REST_NO_POD_WAITS_FOR_A_NODE,
        the_size_settles(MOST_REQUESTS),
    )
    return found if setting["losses"] else (*found, enough_stay_ready("app", STEADY, LEAST))


SCENARIO = Scenario(
    "autoscaler-churn",
    title="a cluster grows and shrinks; no pod goes with its node, no capacity is lost",
    workload=churn,
    build=build,
    invariants=invariants,
    sometimes=(
        Sometimes("the cluster grows", _happened("TriggeredScaleUp")),
        Sometimes("a node is deleted", _happened("DeletingNode")),
        Sometimes("a deletion fails", _happened("ScaleDownFailed")),
        Sometimes("the cloud fails", _happened("ScaleUpFailed")),
    ),
    options=(OPERATIONS, CRASHES, FAILURES, LOSSES, TAINT_DELAY, AUTOSCALERS),
)
