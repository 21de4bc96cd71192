"""Worlds of Kueue: an API server and Kueue alone, its queues, its workloads, and what jobs do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.request import MERGE_PATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.client.resources import Resource
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
VERSION: Final = "kueue.x-k8s.io/v1beta2"
WORKLOADS: Final = "/registry/kueue.x-k8s.io/workloads/"


# -- worlds ------------------------------------------------------------------------------------------


def kueue_alone(setting: Setting) -> ClusterConfig:
    """The API server and Kueue, whose kinds are there from the start; settings `fair_sharing` and `replicas` count."""
    return _kueue(setting, {})


def two_kueues(setting: Setting) -> ClusterConfig:
    """The same with two replicas of Kueue, one of which leads."""
    return _kueue(setting, {}, replicas=2)


def kueue_with(**gates: bool) -> Callable[[Setting], ClusterConfig]:
    """The same with other feature gates of Kueue."""
    return lambda setting: _kueue(setting, gates)


def _kueue(setting: Setting, gates: Mapping[str, bool], replicas: int = 1) -> ClusterConfig:
    from dataclasses import replace

    from controlplane.cluster import ClusterConfig
    from controlplane.kueue.api.installation import installation
    from controlplane.kueue.config import load
    from controlplane.kueue.gates import Gates
    from controlplane.kueue.preemption.fair_sharing import BOTH
    from controlplane.kueue.process.controller import kueue_of

    strategies = BOTH if setting.options.get("fair_sharing") else None
    # Nothing runs here, so no pods become ready.
    settings = replace(load(None), strategies=strategies, pods_ready=None)
    if gates:
        settings = replace(settings, gates=Gates({**settings.gates.changes(), **gates}))
    replicas = setting.options.get("replicas", replicas)
    kinds = installation(settings, webhooks=False)
    return ClusterConfig(
        nodes=[], kubelets=False, controllers=False, scheduler_watches=(),
        own_controllers=(kueue_of(settings, replicas=replicas),),
        installed=kinds, track_fields=True,
    )  # fmt: skip


# -- objects -----------------------------------------------------------------------------------------


def _object(kind: str, name: str, spec: Tree | None = None, namespace: str = "") -> Tree:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": VERSION,
        "kind": kind,
        "metadata": metadata,
        **({} if spec is None else {"spec": spec}),
    }


def flavor(name: str) -> Tree:
    """A ResourceFlavor of any nodes."""
    return _object("ResourceFlavor", name)


def cohort(name: str, parent: str) -> Tree:
    """A Cohort below another."""
    return _object("Cohort", name, {"parentName": parent})


def cluster_queue(
    name: str, flavors: Mapping[str, Tree | int], cohort: str = "", **spec: Any
) -> Tree:
    """A ClusterQueue of CPUs.

    Args:
        name: Its name.
        flavors: The CPUs by flavor: a number, or the fields of the quota.
        cohort: Its cohort, if any.
        spec: Further fields.
    """
    quotas = []
    for each, given in flavors.items():
        quota = given if isinstance(given, dict) else {"nominalQuota": str(given)}
        quotas.append({"name": each, "resources": [{"name": "cpu", **quota}]})
    filled: Tree = {
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
        **({"cohortName": cohort} if cohort else {}),
        **spec,
    }
    return _object("ClusterQueue", name, filled)


def local_queue(name: str, namespace: str = "default") -> Tree:
    """A LocalQueue in front of the ClusterQueue of its name."""
    return _object("LocalQueue", name, {"clusterQueue": name}, namespace)


def workload(
    name: str, queue: str, cpu: int | str, priority: int = 0, namespace: str = "default"
) -> Tree:
    """A Workload of one pod."""
    container = {"name": "c", "image": "work", "resources": {"requests": {"cpu": str(cpu)}}}
    pods = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {
        "queueName": queue,
        "priority": priority,
        "podSets": [{"name": "main", "count": 1, "template": pods}],
    }
    return _object("Workload", name, spec, namespace)


# -- users -------------------------------------------------------------------------------------------


def kind_of(kind: str) -> Resource[Any]:
    """The resource of one of Kueue's kinds."""
    from controlplane.kueue.process.kinds import KINDS

    return KINDS[kind]


def now(user: User) -> int:
    """The present time, nanoseconds since the Unix epoch."""
    return user.run.cluster.config.epoch_ns + user.run.world.now


def leader(user: User) -> str:
    """The replica of Kueue that leads, by the Lease; empty while none does."""
    for obj in user.run.objects("/registry/leases/"):
        if obj.namespace == "kueue-system":
            holder: str = obj.tree["spec"].get("holderIdentity") or ""
            return holder.rpartition("_")[0]
    return ""


async def create(user: User, *all_trees: Tree) -> None:
    """Create objects, one after the other."""
    for tree in all_trees:
        await user.client.create(kind_of(tree["kind"]), tree)


async def queues(user: User, **cpus: int) -> None:
    """Create a flavor, and a ClusterQueue with a LocalQueue for each name, with these CPUs; then wait for a second."""
    await create(user, flavor("default"))
    for name, count in cpus.items():
        await create(user, cluster_queue(name, {"default": count}), local_queue(name))
    await user.sleep(1)


async def patch(user: User, kind: str, namespace: str, name: str, changes: Tree) -> None:
    """Merge changes into an object."""
    await user.client.patch(kind_of(kind), namespace, name, changes, kind=MERGE_PATCH)


async def change(user: User, name: str, **spec: Any) -> None:
    """Change fields of a Workload's spec."""
    await patch(user, "Workload", "default", name, {"spec": spec})


async def delete(user: User, kind: str, name: str, namespace: str = "") -> None:
    """Delete an object."""
    await user.client.delete(kind_of(kind), namespace, name)


def workloads_now(user: User) -> dict[str, Tree]:
    """Workloads by name as they are: users look past every cache."""
    return {obj.name: obj.tree for obj in user.run.objects(WORKLOADS)}


async def finish(user: User, name: str, *, pending: bool = False) -> None:
    """End a workload that runs, or one that is pending."""
    from controlplane.kueue.workload import status
    from controlplane.kueue.workload.status_evict import finish as set_finished

    tree = workloads_now(user).get(name)
    if tree is not None and status.is_admitted(tree) is not pending:
        copy = status.working_copy(tree)
        set_finished(copy, "Succeeded", "Job finished successfully", now(user))
        await _apply(user, copy)


async def release(user: User, name: str) -> None:
    """Hand back the quota of a workload that was evicted, as a job's reconciler does once the pods are gone."""
    from controlplane.kueue.gates import Gates
    from controlplane.kueue.workload import status

    tree = workloads_now(user).get(name)
    if tree is None or not status.is_evicted(tree) or not status.has_quota_reservation(tree):
        return
    evicted = status.find(tree, status.EVICTED) or {}
    reason, text, at = evicted["reason"], evicted.get("message", ""), now(user)
    copy = status.working_copy(tree)
    status.set_requeued(copy, reason, text, at, status=reason in ("Preempted", "NodeFailures"))
    status.unset_quota_reservation(copy, "PendingEvaluation", text, at, Gates())
    await _apply(user, copy)


async def _apply(user: User, tree: Tree) -> None:
    from controlplane.kueue.controllers.effects import ApplyStatus
    from controlplane.kueue.names import ADMISSION_MANAGER
    from controlplane.kueue.process.carrying import call_of
    from controlplane.kueue.workload.status_patch import admission_patch

    call = call_of(ApplyStatus("Workload", admission_patch(tree), ADMISSION_MANAGER))
    assert call is not None
    await user.attempt(user.client.send(call))


async def release_all(user: User, times: int = 4, seconds: float = 3) -> None:
    """Hand back the quota of all evicted workloads, again and again."""
    for _ in range(times):
        await user.sleep(seconds)
        for name in workloads_now(user):
            await release(user, name)


def side_by_side(*parts: Callable[[User], Any]) -> Callable[[User], Any]:
    """Several users' doings side by side, as one."""

    async def together(user: User) -> None:
        tasks = [user.spawn(part) for part in parts]
        for task in tasks:
            await user.join(task)

    return together
