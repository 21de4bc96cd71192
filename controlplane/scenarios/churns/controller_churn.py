"""The default churn for controllers: workloads of every kind change while the controller manager fails.

A user creates, scales, updates and deletes what the chosen controllers look after, at the same moments in
every run; what differs is the order of tasks, when the controller manager dies (at any moment, or right after
one of its writes), what it does not see in time, and which connections break or wait. There are two API
servers over one store, of which the second's caches lag.

However it goes, nothing outlives its controller, nothing is there twice, and the world ends as it does when
nothing fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.authoring.controller_faults import (
    intermediate_state,
    stale_state,
    unobserved_state,
)
from controlplane.scenarios.authoring.faults import CHAOS, cut, heal, restarts, sometimes
from controlplane.scenarios.authoring.worlds import lagging_servers
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Fault, Invariant, Scenario
from controlplane.scenarios.invariants.convergence import converges
from controlplane.scenarios.invariants.views import PODS
from controlplane.scenarios.invariants.workloads import (
    no_orphans,
    one_active_pod_an_index,
    one_daemon_a_node,
    one_life_of_an_ordinal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
MANAGER = "controller-manager"
REST_S = 1_100
"""The wait at the end, in seconds: longer than expectations (5 min) and the longest backoff (1,000 s) last.

A ReplicaSet's key is tried again without limit, and each failure doubles its wait, whatever made it sync.
"""


def _workload(api: str, kind: str, name: str, spec: Tree, **metadata: Any) -> Tree:
    named = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": api, "kind": kind, "metadata": named, "spec": spec}


def _template(name: str, image: str = "app:1", *, run_seconds: int = 0, **spec: Any) -> Tree:
    metadata: Tree = {"labels": {"app": name}}
    if run_seconds:
        metadata["annotations"] = {"emulate.controlplane/run-seconds": str(run_seconds)}
    grace = {"terminationGracePeriodSeconds": 1}
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": image}], **grace, **spec},
    }


def _selecting(name: str, **spec: Any) -> Tree:
    labels = {"matchLabels": {"app": name}}
    return {"selector": labels, "template": _template(name), **spec}


def _image(image: str) -> Tree:
    containers = [{"name": "main", "image": image}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


async def _running(user: User, count: int, image: str = "") -> None:
    """Wait until `count` pods run, all with this image if one is given, so that the next action does not race with
    it.
    """

    def holds(run: Run) -> bool:
        pods = run.objects(PODS)
        return len(pods) == count and all(
            each.tree.get("status", {}).get("phase") == "Running"
            and (not image or each.tree["spec"]["containers"][0]["image"] == image)
            for each in pods
        )

    await user.wait_until(holds)


async def jobs(user: User) -> None:
    """An indexed Job and a plain one run to their end; a third is deleted amid its work."""
    for name, mode in (("indexed", "Indexed"), ("plain", "NonIndexed"), ("short", "Indexed")):
        template = _template(name, run_seconds=4, restartPolicy="Never")
        spec = {"completions": 3, "parallelism": 2, "completionMode": mode, "template": template}
        await user.create(_workload("batch/v1", "Job", name, spec))
    await user.sleep(6)
    await user.client.delete(_resource("batch", "jobs"), "default", "short", **BACKGROUND)


async def cron(user: User) -> None:
    """A CronJob that keeps one run."""
    template = _template("tick", run_seconds=2, restartPolicy="Never")
    spec = {
        "schedule": "*/2 * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"template": template}},
    }
    await user.create(_workload("batch/v1", "CronJob", "tick", spec))
    await user.sleep(225)
    await user.patch("batch/v1/CronJob", "tick", {"spec": {"suspend": True}})


async def stateful(user: User) -> None:
    """A StatefulSet grows, rolls and shrinks."""
    spec = _selecting("db", serviceName="db", replicas=2)
    await user.create(_workload("apps/v1", "StatefulSet", "db", spec))
    await _running(user, 2)
    await user.patch("apps/v1/StatefulSet", "db", {"spec": {"replicas": 3}})
    await user.sleep(4)
    await user.patch("apps/v1/StatefulSet", "db", _image("app:2"))
    await _running(user, 3, "app:2")
    await user.patch("apps/v1/StatefulSet", "db", {"spec": {"replicas": 2}})


async def daemons(user: User) -> None:
    """A DaemonSet that some nodes want, then others; it rolls."""
    placed = _template("agent", nodeSelector={"agent": "yes"})
    labelled: Tree = {"metadata": {"labels": {"agent": "yes"}}}
    await user.sleep(2)
    await user.patch("Node", "node-1", labelled)
    spec = {**_selecting("agent"), "template": placed}
    await user.create(_workload("apps/v1", "DaemonSet", "agent", spec))
    await _running(user, 1)
    await user.patch("Node", "node-2", labelled)
    await user.sleep(4)
    await user.patch("apps/v1/DaemonSet", "agent", _image("app:2"))
    await _running(user, 2, "app:2")
    await user.patch("Node", "node-1", {"metadata": {"labels": {"agent": "no"}}})


async def garbage(user: User) -> None:
    """Deployments are deleted in the foreground and the background, and one leaves its pods."""
    policies = {"one": "Foreground", "two": "Background", "three": "Orphan"}
    for name in policies:
        spec = _selecting(name, replicas=2)
        await user.create(_workload("apps/v1", "Deployment", name, spec))
    await _running(user, 2 * len(policies))
    for name, policy in policies.items():
        await user.client.delete(
            _resource("apps", "deployments"), "default", name, propagation_policy=policy
        )
        await user.sleep(1)


async def namespaces(user: User) -> None:
    """A namespace is deleted with all that is in it."""
    await user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    spec = _selecting("web", replicas=2)
    await user.create(_workload("apps/v1", "Deployment", "web", spec, namespace="shop"))
    await user.sleep(8)
    await user.delete("Namespace", "shop")


async def budgets(user: User) -> None:
    """Pods under a budget and a quota are evicted."""
    hard = {"pods": "6"}
    await user.create(_workload("v1", "ResourceQuota", "most", {"hard": hard}))
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await user.create(_workload("policy/v1", "PodDisruptionBudget", "web", budget))
    await user.sleep(3)
    await user.create(_workload("apps/v1", "Deployment", "web", _selecting("web", replicas=2)))
    await user.sleep(15)
    await user.drain("node-1", every_s=3, patience_s=120)
    await user.uncordon("node-1")


BACKGROUND: Tree = {"propagation_policy": "Background"}


def _resource(group: str, name: str) -> Any:
    from controlplane.client.loops.clientset import Resource

    return Resource(group, "v1", name)


PARTS: dict[str, tuple[Callable[[User], Coroutine[Any, Any, None]], tuple[str, ...]]] = {
    "jobs": (jobs, ("job", "garbage-collector")),
    "cron": (cron, ("job", "cronjob", "garbage-collector")),
    "stateful": (stateful, ("statefulset",)),
    "daemons": (daemons, ("daemonset",)),
    "garbage": (garbage, ("garbage-collector",)),
    "namespaces": (namespaces, ("namespace", "garbage-collector")),
    "budgets": (budgets, ("disruption", "resourcequota")),
}
"""The actions of the churn, and the controllers that it needs besides the default ones."""
PART = Option("part", choices=tuple(PARTS), default="jobs", help="Whose workloads change.")
FAULTS: dict[str, Fault] = {
    "dies": restarts(MANAGER, 2, moments=16),
    "dies-amid": intermediate_state(MANAGER, times=2, moments=24),
    "travels": stale_state(MANAGER, times=2, moments=24),
    "overlooks": unobserved_state(MANAGER, times=2, moments=16),
    "hears-late": unobserved_state(MANAGER, times=2, moments=24, points="watch *"),
    "cut-off": sometimes(
        cut(MANAGER, "apiserver"), heal(MANAGER, "apiserver"), times=2, lasts_s=(1, 5, 40)
    ),
}
"""The faults for the controller manager, by name."""
FAULT = Option(
    "fault",
    choices=("any", "none", *FAULTS),
    default="any",
    help="What happens to the controller manager; any: one of them, a choice.",
)
STREAM = Option(
    "watch-list",
    type=bool,
    default=True,
    help="Clients begin with a stream that is not older than their request (gate WatchListClient).",
)


async def churn(user: User) -> None:
    """The workloads of the chosen part change; then all comes to rest."""
    main, _ = PARTS[user.options["part"]]
    await main(user)
    await user.sleep(150)
    # The node controller does not try again what a server that lags refused (as upstream), and nodes do not
    # report in this world: they are touched once, as their kubelets would.
    for node in await user.list("Node"):
        await user.attempt(user.patch("Node", node.name, {"metadata": {"labels": {"seen": "yes"}}}))
    await user.sleep(REST_S)


async def chaos(user: User) -> None:
    """One of the faults."""
    name = user.options["fault"]
    if name == "none":
        return
    if name == "any":
        name = list(FAULTS)[user.ctx.choose("fault", len(FAULTS), "which")]
    await FAULTS[name].main(user)


def build(setting: Setting) -> ClusterConfig:
    """Two servers, of which one lags, and the controllers of the part."""
    from controlplane.controllers.common.selection import STANDARD

    _, controllers = PARTS[setting["part"]]
    return lagging_servers(heartbeats=False, enabled_controllers=(*STANDARD, *controllers))(setting)


def invariants(setting: Setting) -> tuple[Invariant, ...]:
    """The invariants. CronJobs name their runs after the time, so their final state depends on the timing."""
    nodes = [each["metadata"]["name"] for each in setting.nodes()]
    found = (
        no_orphans(),
        one_active_pod_an_index("etcd"),
        one_daemon_a_node("etcd"),
        one_life_of_an_ordinal(*nodes),
    )
    return found if setting[PART.key] == "cron" else (*found, converges())


SCENARIO = Scenario(
    "controller-churn",
    workload=churn,
    build=build,
    faults=(Fault(CHAOS, chaos),),
    invariants=invariants,
    options=(PART, FAULT, STREAM),
)
