"""A churn of pods with CPUs of their own on nodes with two NUMA zones, which the scheduler sees through reports.

Users create, delete and recreate such pods under a few names. Nodes report their zones when something was assigned, and
every few seconds; NodeResourceTopologyMatch places pods by these reports, with its cache or (an option) without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import nodes_with_managers, with_community_plugin
from controlplane.scenarios.churns.parts import USERS, operations, pause
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Invariant, Scenario, Sometimes
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

NAMES: Final = ("a", "b", "c", "d")
PAUSES: Final = (0, 1, 4, 9)
REST_S: Final = 40
INTERVAL_NS: Final = 5_000_000_000
REFUSED: Final = "TopologyAffinityError"

OPERATIONS = operations(10)
CACHE = Option(
    "resync", type=int, low=0, default=3, help="Seconds between passes over the cache; 0: no cache."
)


def build(setting: Setting) -> ClusterConfig:
    """The scheduler with the plugin, and nodes with two zones of two CPUs each, and one CPU for the system."""
    from attrs import evolve

    nodes = nodes_with_managers(
        "sockets=2 cores=3 memory=8Gi",
        memoryManagerPolicy="Static",
        reservedMemory=[{"numaNode": 0, "limits": {"memory": "100Mi"}}],
        topologyManagerPolicy="single-numa-node",
    )(setting)
    plugin = with_community_plugin(
        "NodeResourceTopologyMatch", "", cacheResyncPeriodSeconds=setting["resync"]
    )
    return evolve(nodes, topology_updates_ns=INTERVAL_NS, scheduler_watches=(), **plugin)


async def churn(user: User) -> None:
    """Several tasks do their share."""
    await user.sleep(3)
    await user.divide(_share, user.options["operations"], user.options["users"])
    await user.sleep(REST_S)


async def _share(user: User, count: int) -> None:
    for _ in range(count):
        name = NAMES[user.choose(len(NAMES), "which pod")]
        there = {obj.name for obj in user.run.objects("/registry/pods/")}
        if name in there:
            await user.attempt(user.delete("Pod", name))
        else:
            cpus = str(1 + user.choose(3, "how many CPUs"))
            tree = pod(name, cpus)
            resources = tree["spec"]["containers"][0]["resources"]
            resources["limits"] = dict(resources["requests"])
            await user.attempt(user.create(tree))
        await pause(user, PAUSES)


def _pods(run: Run) -> list[Any]:
    return [obj.view for obj in run.objects("/registry/pods/")]


def _refused(run: Run) -> str | None:
    """Name a pod that its kubelet refused for its NUMA zones."""
    for each in _pods(run):
        if each.status.reason == REFUSED:
            return f"{each.spec.node_name} refused {each.name}: {each.status.message}"
    return None


def _revision(run: Run) -> object:
    return [each.status.reason for each in _pods(run)]


NOTHING_IS_PLACED_THAT_THE_KUBELET_REFUSES = Invariant(
    "no pod is placed where the topology manager refuses it",
    _refused,
    ("apiserver",),
    looks_at=_revision,
)

SCENARIO = Scenario(
    "numa-churn",
    title="pods with CPUs of their own come and go; the scheduler places them by reports of NUMA zones",
    workload=churn,
    build=build,
    invariants=(
        THE_SCHEDULER_LIVES,
        NOTHING_IS_PLACED_THAT_THE_KUBELET_REFUSES,
        NO_BOUND_POD_IS_QUEUED,
        EVERY_WAITING_POD_IS_QUEUED,
    ),
    sometimes=(
        Sometimes("a pod runs", lambda run: any(p.status.phase == "Running" for p in _pods(run))),
        Sometimes("a pod waits", lambda run: any(not p.spec.node_name for p in _pods(run))),
    ),
    options=(OPERATIONS, USERS, CACHE),
    defaults={"nodes": 2, "node_cpu": "5"},
    step_limit=120_000,
)
