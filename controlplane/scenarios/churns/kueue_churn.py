"""A churn of Kueue's workloads: they come, wait, run, end and go, while queues are stopped and started.

Two cluster queues share a cohort, and a third is alone. Users create and delete workloads, change priorities, end what
runs, hand quota back for what was evicted (what a job's reconciler does once the pods are gone), and stop queues.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.request import MERGE_PATCH
from controlplane.scenarios.churns.parts import crash, pause
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Scenario, Sometimes
from controlplane.scenarios.invariants.kueue import (
    AT_REST_KUEUE_KNOWS_EACH_WORKLOAD,
    QUOTA_IS_GIVEN_ONCE,
)
from controlplane.scenarios.invariants.kueue_waiting import (
    AT_REST_COUNTS_ARE_RIGHT,
    AT_REST_NOTHING_PARKED_COULD_PREEMPT,
    AT_REST_NOTHING_THAT_FITS_IS_PARKED,
    AT_REST_PREEMPTIONS_HAVE_COME,
    AT_REST_THE_PARKED_SAY_WHY,
    AT_REST_WHAT_RUNS_IS_NOT_HELD_BACK,
    FLAVORS_ARE_ASSIGNED,
    PREEMPTED_ONCE,
    WAITS_IN_ONE_PLACE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.client.resources import Resource
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
VERSION: Final = "kueue.x-k8s.io/v1beta2"
QUEUES: Final = ("red", "blue", "lone")
NAMES: Final = ("a", "b", "c", "d", "e", "f")
PRIORITIES: Final = (0, 10, 20)
PAUSES: Final = (0, 0, 1, 3)
REST_S: Final = 60
WORKLOADS: Final = "/registry/kueue.x-k8s.io/workloads/"

OPERATIONS = Option("operations", type=int, low=1, default=16, help="How many things the users do.")
USERS = Option("users", type=int, low=1, high=4, default=2, help="How many tasks do them.")
CRASHES = Option(
    "crashes", type=bool, default=False, help="Let Kueue crash and start again at times."
)
FAIR = Option("fair-sharing", type=bool, default=False, help="Let Kueue share fairly.")
LIMITS = Option(
    "limits",
    type=bool,
    default=False,
    help="Put the two queues into cohorts of their own below the common one, with limits of borrowing and lending.",
)


def build(setting: Setting) -> ClusterConfig:
    """The API server and Kueue, whose kinds are there from the start."""
    from dataclasses import replace

    from controlplane.cluster import ClusterConfig
    from controlplane.kueue.api.installation import installation
    from controlplane.kueue.config import load
    from controlplane.kueue.preemption.fair_sharing import BOTH
    from controlplane.kueue.process.controller import kueue_of

    strategies = BOTH if setting["fair_sharing"] else None
    # Nothing runs here, so no pods become ready.
    settings = replace(load(None), strategies=strategies, pods_ready=None)
    kinds = [each for each in installation(settings) if "Webhook" not in each[1]["kind"]]
    return ClusterConfig(
        nodes=[], kubelets=False, controllers=False, scheduler_watches=(),
        own_controllers=(kueue_of(settings),), installed=kinds, track_fields=True,
    )  # fmt: skip


def _cluster_queue(name: str, nominal: int, cohort: str, limits: Tree) -> Tree:
    resources = [{"name": "cpu", "nominalQuota": str(nominal), **limits}]
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "default", "resources": resources}],
    }
    spec: Tree = {
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
    }
    if cohort:
        spec["cohortName"] = cohort
    return {"apiVersion": VERSION, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def _local_queue(name: str) -> Tree:
    metadata = {"name": name, "namespace": "default"}
    spec = {"clusterQueue": name}
    return {"apiVersion": VERSION, "kind": "LocalQueue", "metadata": metadata, "spec": spec}


def _workload(name: str, queue: str, cpu: int, priority: int) -> Tree:
    container = {"name": "c", "image": "work", "resources": {"requests": {"cpu": str(cpu)}}}
    pods = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": VERSION,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": pods}],
        },
    }


async def churn(user: User) -> None:
    """Create the queues, then let several tasks do their share."""
    flavor = {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": "default"}}
    await _create(user, flavor)
    for name in QUEUES:
        await _create_queue(user, name)
    await user.divide(_share, user.options["operations"], user.options["users"])
    await user.sleep(1)
    for name in QUEUES:
        await _patch(user, "ClusterQueue", "", name, {"stopPolicy": "None"})
    for name in NAMES:
        if name in _there(user):
            await user.attempt(_patch(user, "Workload", "default", name, {"active": True}))
    for _ in NAMES:
        for name in NAMES:
            await _release(user, name)
        await user.sleep(3)
    await user.sleep(REST_S)


async def _create_queue(user: User, name: str) -> None:
    """Create a queue with its local queue; with limits red borrows one CPU at most, and blue lends one."""
    cohort, limits = "" if name == "lone" else "team", {}
    if cohort and user.options["limits"]:
        cohort = f"{cohort}-{name}"
        spec = {"parentName": "team"}
        tree = {"apiVersion": VERSION, "kind": "Cohort", "metadata": {"name": cohort}, "spec": spec}
        await _create(user, tree)
        limits = {"borrowingLimit": "1"} if name == "red" else {"lendingLimit": "1"}
    await _create(user, _cluster_queue(name, 2, cohort, limits))
    await _create(user, _local_queue(name))


def _kind(kind: str) -> Resource[Any]:
    from controlplane.kueue.process.kinds import KINDS

    return KINDS[kind]


def _now(user: User) -> int:
    return user.run.cluster.config.epoch_ns + user.run.world.now


async def _create(user: User, tree: Tree) -> None:
    await user.client.create(_kind(tree["kind"]), tree)


async def _patch(user: User, kind: str, namespace: str, name: str, spec: Tree) -> None:
    await user.client.patch(_kind(kind), namespace, name, {"spec": spec}, kind=MERGE_PATCH)


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
        todo.append(partial(crash, process="kueue", named="Kueue"))
    for _ in range(count):
        await todo[user.choose(len(todo), "what")](user)
        await pause(user, PAUSES)


def _there(user: User) -> dict[str, Tree]:
    """Workloads as they are: users look past every cache."""
    return {obj.name: obj.tree for obj in user.run.objects(WORKLOADS)}


def _chosen(user: User) -> str:
    return NAMES[user.choose(len(NAMES), "which workload")]


async def _some_workload(user: User) -> None:
    """Create a workload, or delete the one of that name."""
    name = _chosen(user)
    if name in _there(user):
        await user.attempt(user.client.delete(_kind("Workload"), "default", name))
        return
    queue = QUEUES[user.choose(len(QUEUES), "which queue")]
    cpu = 1 + user.choose(3, "more CPUs than one")
    priority = PRIORITIES[user.choose(len(PRIORITIES), "which priority")]
    await user.attempt(_create(user, _workload(name, queue, cpu, priority)))


async def _some_end(user: User) -> None:
    """End a workload that runs."""
    from controlplane.kueue.workload import status
    from controlplane.kueue.workload.status_evict import finish

    tree = _there(user).get(_chosen(user))
    if tree is not None and status.is_admitted(tree):
        copy = status.working_copy(tree)
        finish(copy, "Succeeded", "Job finished successfully", _now(user))
        await _apply(user, copy)


async def _some_release(user: User) -> None:
    await _release(user, _chosen(user))


async def _release(user: User, name: str) -> None:
    """Hand back the quota of a workload that was evicted."""
    from controlplane.kueue.gates import Gates
    from controlplane.kueue.workload import status

    tree = _there(user).get(name)
    if tree is None or not status.is_evicted(tree) or not status.has_quota_reservation(tree):
        return
    evicted = status.find(tree, status.EVICTED) or {}
    reason, text, now = evicted["reason"], evicted.get("message", ""), _now(user)
    copy = status.working_copy(tree)
    status.set_requeued(copy, reason, text, now, status=reason in ("Preempted", "NodeFailures"))
    status.unset_quota_reservation(copy, "PendingEvaluation", text, now, Gates())
    await _apply(user, copy)


async def _apply(user: User, workload: Tree) -> None:
    from controlplane.kueue.controllers.effects import ApplyStatus
    from controlplane.kueue.names import ADMISSION_MANAGER
    from controlplane.kueue.process.carrying import call_of
    from controlplane.kueue.workload.status_patch import admission_patch

    call = call_of(ApplyStatus("Workload", admission_patch(workload), ADMISSION_MANAGER))
    assert call is not None
    await user.attempt(user.client.send(call))


async def _some_priority(user: User) -> None:
    name = _chosen(user)
    if name in _there(user):
        priority = PRIORITIES[user.choose(len(PRIORITIES), "which priority")]
        await user.attempt(_patch(user, "Workload", "default", name, {"priority": priority}))


async def _some_move(user: User) -> None:
    """Let a workload wait in another queue; one that holds quota stays."""
    name = _chosen(user)
    if name in _there(user):
        queue = QUEUES[user.choose(len(QUEUES), "which queue")]
        await user.attempt(_patch(user, "Workload", "default", name, {"queueName": queue}))


async def _some_activity(user: User) -> None:
    """Deactivate a workload, or let it be active again."""
    name = _chosen(user)
    tree = _there(user).get(name)
    if tree is not None:
        active = not tree["spec"].get("active", True)
        await user.attempt(_patch(user, "Workload", "default", name, {"active": active}))


async def _some_label(user: User) -> None:
    """Change a workload's metadata, which means nothing to Kueue."""
    name = _chosen(user)
    if name in _there(user):
        patch = {"metadata": {"labels": {"seen": str(user.run.world.now)}}}
        call = user.client.patch(_kind("Workload"), "default", name, patch, kind=MERGE_PATCH)
        await user.attempt(call)


async def _some_stop(user: User) -> None:
    policies = ("None", "Hold", "HoldAndDrain")
    name = QUEUES[user.choose(len(QUEUES), "which queue")]
    policy = policies[user.choose(len(policies), "which policy")]
    await user.attempt(_patch(user, "ClusterQueue", "", name, {"stopPolicy": policy}))


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
    build=build,
    invariants=(
        QUOTA_IS_GIVEN_ONCE,
        WAITS_IN_ONE_PLACE,
        PREEMPTED_ONCE,
        FLAVORS_ARE_ASSIGNED,
        AT_REST_KUEUE_KNOWS_EACH_WORKLOAD,
        AT_REST_NOTHING_THAT_FITS_IS_PARKED,
        AT_REST_NOTHING_PARKED_COULD_PREEMPT,
        AT_REST_PREEMPTIONS_HAVE_COME,
        AT_REST_THE_PARKED_SAY_WHY,
        AT_REST_WHAT_RUNS_IS_NOT_HELD_BACK,
        AT_REST_COUNTS_ARE_RIGHT,
    ),
    sometimes=(
        Sometimes("a workload is admitted", _ever("Admitted", "True")),
        Sometimes("a workload waits", _ever("QuotaReserved", "False")),
        Sometimes("a workload was preempted", _ever("Preempted", "True", "False")),
    ),
    options=(OPERATIONS, USERS, CRASHES, FAIR, LIMITS),
)
