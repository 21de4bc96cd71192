"""Races in a form that real components can be tried in: a workload, and a plan of messages at their boundary.

A catalogue entry may rest on parts that only the emulation has (a plugin, a second server whose cache lags, a process
that the workload crashes). A form here uses none: its plan holds, fails and loses messages of one component, whose
place a real program may take (`controlplane confirm`). Carried out with emulated components the plan breaks the same
invariant, with the default schedule. What each line waits for is from the trials on Kubernetes 1.36.2 that the
catalogue tells of (`Race.seen`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.errors import UsageError, unknown_name
from controlplane.races import r138036
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import config_map, pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import (
    BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED,
    THE_SCHEDULER_LIVES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

__all__ = ["FORMS", "Form", "form"]

Tree = dict[str, Any]
SUCCESSOR: Final = "uid of the object that is to stay"
PODS: Final = "/registry/pods/"
CONFIG_MAPS: Final = "/registry/configmaps/"


@frozen
class Form:
    """A race at the boundary of an emulated process, and the scenario; its option `plan` has the lines as default."""

    component: str
    scenario: Scenario


def form(name: str) -> Form:
    """Return the form of a name. Raises UsageError."""
    if name not in FORMS:
        raise UsageError(unknown_name("race that real components can be tried in", name, FORMS))
    return FORMS[name]


# -- the invariant of most forms: the successor of a pod stays --------------------------------------


def _stays(run: Run, prefix: str) -> str | None:
    uid = run.notes.get(SUCCESSOR)
    if uid is None:
        return None
    for each in run.objects(prefix):
        if each.uid == uid:
            gone = each.metadata.get("deletionTimestamp")
            return f"{each.name}, uid {uid}, is being deleted" if gone else None
    return f"the object with uid {uid} was deleted"


SUCCESSOR_STAYS: Final = Invariant(
    "a decision about a pod does not end the next pod of its name",
    lambda run: _stays(run, PODS),
    ("apiserver",),
)
ORPHAN_STAYS: Final = Invariant(
    "orphans live on", lambda run: _stays(run, CONFIG_MAPS), ("apiserver",)
)


async def _succeed(user: User, tree: Tree) -> None:
    """Delete the pod of a name, and create another one, which is to stay."""
    name = tree["metadata"]["name"]
    await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    await user.sleep(0.5)
    user.notes[SUCCESSOR] = (await user.create(tree)).uid


# -- scheduler -------------------------------------------------------------------------------------


async def _one_pod(user: User) -> None:
    """A pod is created, and fits."""
    await user.sleep(1)
    await user.create(pod("web"))
    await user.sleep(12)


async def _recreated_in_backoff(user: User) -> None:
    """A pod whose binding fails is created anew before its next attempt."""
    await user.sleep(1)
    await user.create(pod("web"))
    await user.sleep(0.6)
    await user.attempt(user.delete("Pod", "web", grace_period_seconds=0))
    await user.create(pod("web"))
    await user.sleep(12)


async def _recreated_unseen(user: User) -> None:
    """A bound pod is created anew on another node while the scheduler lists: it hears of one pod that changed."""
    await user.sleep(1)
    await user.create(pod("web", nodeName="node-1"))
    await user.sleep(2)
    await user.attempt(user.delete("Pod", "web", grace_period_seconds=0))
    await user.sleep(2)
    await user.create(pod("web", nodeName="node-2"))
    await user.sleep(8)


async def _preempted(user: User) -> None:
    """A pod is preempted; its user creates it anew, elsewhere and as important, before the scheduler deletes it."""
    classes = {"low": 0, "high": 1000}
    for name, value in classes.items():
        tree = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        await user.create({**tree, "metadata": {"name": name}})
    await user.create(pod("db", "1500m", priorityClassName="low", nodeName="node-1"))
    await user.sleep(2)
    only = {"kubernetes.io/hostname": "node-1"}
    await user.create(pod("web", "1500m", priorityClassName="high", nodeSelector=only))
    await user.sleep(4)
    await _succeed(user, pod("db", "1500m", priorityClassName="high", nodeName="node-2"))
    await user.sleep(6)


# -- controllers -----------------------------------------------------------------------------------


def _controllers(*names: str) -> Callable[[Setting], ClusterConfig]:
    def build(_setting: Setting) -> ClusterConfig:
        from controlplane.cluster import ClusterConfig

        return ClusterConfig(
            nodes=(), kubelets=False, scheduler_watches=(), enabled_controllers=names,
            heartbeats=False,
        )  # fmt: skip

    return build


async def _nodes(user: User, *names: str) -> None:
    from controlplane.cluster import node_tree

    for name in names:
        await user.create(node_tree(name))


async def _tainted(user: User) -> None:
    """A pod tolerates its node's taint for a while; before that has passed it is created anew on another node."""
    await _nodes(user, "node-1", "node-2")
    fault = {"key": "fault", "effect": "NoExecute"}
    tolerated = [{**fault, "operator": "Exists", "tolerationSeconds": 5}]
    await user.create(pod("web", nodeName="node-1", tolerations=tolerated))
    await user.patch("Node", "node-1", {"spec": {"taints": [fault]}})
    await user.sleep(2)
    await _succeed(user, pod("web", nodeName="node-2"))
    await user.sleep(12)


async def _collected(user: User) -> None:
    """A failed pod's node is gone; the pod is created anew on a node that exists before it is collected."""
    await _nodes(user, "node-1", "node-2")
    await user.create(pod("web", nodeName="node-1"))
    failed = {"status": {"phase": "Failed"}}
    await user.patch("Pod", "web", failed, subresource="status")
    await user.sleep(2)
    await user.delete("Node", "node-1")
    await user.sleep(2)
    await _succeed(user, pod("web", nodeName="node-2"))
    running = {"status": {"phase": "Running"}}
    await user.patch("Pod", "web", running, subresource="status")
    await user.sleep(90)


async def _orphaned(user: User) -> None:
    """An owner is deleted with the policy Orphan just after its dependent was created."""
    tree = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "owner"}}
    owner = await user.create(tree)
    await user.sleep(3)
    child = config_map("child")
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner.uid}
    child["metadata"]["ownerReferences"] = [reference]
    user.notes[SUCCESSOR] = (await user.create(child)).uid
    await user.delete("Secret", "owner", propagation_policy="Orphan")
    await user.sleep(20)


async def _scaled_midway(user: User) -> None:
    """A Deployment is scaled down while its controller waits for the answer that scales its old ReplicaSet down."""
    await user.create(r138036.DEPLOYMENT)
    await user.sleep(5)
    await r138036.update(user)
    await user.sleep(2)
    await r138036.scale(user)
    await user.sleep(30)


def _form(
    component: str,
    name: str,
    workload: Callable[[User], Coroutine[Any, Any, None]],
    build: Callable[[Setting], ClusterConfig],
    invariant: Invariant,
    *lines: str,
    nodes: int = 0,
) -> Form:
    defaults = {"nodes": nodes, "node_cpu": "2", "plan": lines}
    scenario = Scenario(
        f"race {name} at the boundary",
        workload=workload,
        build=build,
        invariants=(invariant,),
        defaults=defaults,
    )
    return Form(component, scenario)


SCHEDULER, MANAGER = "scheduler", "controller-manager"
FORMS: Final[Mapping[str, Form]] = {
    "140177": _form(
        SCHEDULER,
        "140177",
        _one_pod,
        scheduler_alone(),
        BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED,
        "fail request scheduler create pods/binding default/web with 500",
        "hold request scheduler patch pods/status default/web"
        " until answer scheduler create pods/binding default/web",
        nodes=1,
    ),
    "140177-successor": _form(
        SCHEDULER,
        "140177-successor",
        _recreated_in_backoff,
        scheduler_alone(),
        BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED,
        "fail request scheduler create pods/binding default/web with 500",
        "hold request scheduler patch pods/status default/web"
        " until answer scheduler create pods/binding default/web",
        nodes=1,
    ),
    "141255": _form(
        SCHEDULER,
        "141255",
        _recreated_unseen,
        scheduler_alone(),
        THE_SCHEDULER_LIVES,
        "lose event scheduler DELETED pods default/web",
        "fail request scheduler watch pods with 410 once request user delete pods default/web",
        "hold request scheduler * pods until answer user create pods default/web"
        " once request user delete pods default/web",
        nodes=2,
    ),
    "96582": _form(
        SCHEDULER,
        "96582",
        _one_pod,
        scheduler_alone(),
        BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED,
        "lose answer scheduler create pods/binding default/web",
        "hold event scheduler MODIFIED pods default/web where spec.nodeName"
        " until request scheduler patch pods/status default/web",
        nodes=1,
    ),
    "victim": _form(
        SCHEDULER,
        "victim",
        _preempted,
        scheduler_alone(disabled_admission=()),
        SUCCESSOR_STAYS,
        "hold request scheduler delete pods default/db until answer user create pods default/db",
        nodes=2,
    ),
    "victim-condition": _form(
        SCHEDULER,
        "victim-condition",
        _preempted,
        scheduler_alone(disabled_admission=()),
        SUCCESSOR_STAYS,
        "hold request scheduler patch pods/status default/db"
        " until answer user create pods default/db",
        nodes=2,
    ),
    "138036": _form(
        MANAGER,
        "138036",
        _scaled_midway,
        _controllers("deployment-controller", "replicaset-controller"),
        r138036.GOES_ON,
        "hold answer controller-manager update replicasets where spec.replicas=4"
        " until answer user patch deployments default/web",
    ),
    "141568": _form(
        MANAGER,
        "141568",
        _tainted,
        _controllers("taint-eviction-controller", "node-lifecycle-controller"),
        SUCCESSOR_STAYS,
        "hold event controller-manager DELETED pods default/web"
        " until request controller-manager delete pods default/web at most 30",
    ),
    "141568-podgc": _form(
        MANAGER,
        "141568-podgc",
        _collected,
        _controllers("pod-garbage-collector-controller"),
        SUCCESSOR_STAYS,
        "hold event controller-manager DELETED pods default/web"
        " until request controller-manager delete pods default/web at most 120",
    ),
    "26120": _form(
        MANAGER,
        "26120",
        _orphaned,
        _controllers("garbage-collector-controller"),
        ORPHAN_STAYS,
        "hold event controller-manager ADDED configmaps default/child"
        " until answer controller-manager patch secrets default/owner",
    ),
}
"""The forms, by the number of their race; "victim" has no entry of its own."""
