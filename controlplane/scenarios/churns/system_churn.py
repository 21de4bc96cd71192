"""The churn of all systems together: scheduler, kubelets, controllers, and the systems beside them.

Users create, scale, update, orphan and delete workloads of every kind, and bare pods under a few names that come
again; they resize and evict pods, take nodes out and bring them back, and set budgets, quotas and autoscalers.
Processes crash and connections break. A Descheduler, a Cluster Autoscaler and Kueue take part as the option `systems`
says; a search goes through all its values. The features of a run are drawn at its start.

It aims at no race. At the end all nodes are opened again, and the cluster has to come to rest complete:
no system undoes the work of another for ever, nothing is lost, and nothing is left over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.authoring.kueue_worlds import (
    cluster_queue,
    create,
    flavor,
    local_queue,
)
from controlplane.scenarios.authoring.workloads import namespaced, new_image, pod, template
from controlplane.scenarios.churns.parts import (
    DRAWN,
    USERS,
    crash,
    cut_off,
    drew,
    operations,
    pause,
    stored,
)
from controlplane.scenarios.churns.system_world import (
    AUTOSCALER,
    KUEUE,
    SYSTEMS,
    beside,
    build,
)
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Invariant, Scenario
from controlplane.scenarios.invariants.autoscaler import (
    AT_REST_GROUPS_HAVE_THEIR_NODES,
    PODS_LEAVE_BEFORE_THEIR_NODE,
)
from controlplane.scenarios.invariants.contexts import EVERY_CONTEXT_ENDS
from controlplane.scenarios.invariants.identity import writes_keep_to_their_object
from controlplane.scenarios.invariants.kueue import (
    AT_REST_KUEUE_KNOWS_EACH_WORKLOAD,
    QUOTA_IS_GIVEN_ONCE,
)
from controlplane.scenarios.invariants.kueue_jobs import (
    AT_REST_ONE_WORKLOAD_FOR_EACH_JOB,
    AT_REST_RUNNING_JOBS_ARE_ADMITTED,
)
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_NOTHING_THAT_FITS_IS_PARKED
from controlplane.scenarios.invariants.nodes import (
    ended_pods_hold_nothing,
    kubelets_start,
    nothing_starts_with_more_than_promised,
    statuses_are_their_own,
)
from controlplane.scenarios.invariants.rest import (
    AT_REST_WORKLOADS_ARE_COMPLETE,
    CALM,
    pods_settle,
)
from controlplane.scenarios.invariants.restarts import (
    A_RESTART_CHANGES_NOTHING,
    restart_at_rest,
)
from controlplane.scenarios.invariants.scheduling import ROOM_IS_USED, THE_SCHEDULER_LIVES
from controlplane.scenarios.invariants.scheduling_picture import LAWS, picture_holds
from controlplane.scenarios.invariants.workloads import (
    no_orphans,
    one_active_pod_an_index,
    one_daemon_a_node,
    one_life_of_an_ordinal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

    Do = Callable[[User], Coroutine[Any, Any, None]]

Tree = dict[str, Any]
PODS: Final = "/registry/pods/"
NODES: Final = "/registry/minions/"
STORED: Final = {
    "Deployment": "/registry/deployments/",
    "StatefulSet": "/registry/statefulsets/",
    "ReplicaSet": "/registry/replicasets/",
    "DaemonSet": "/registry/daemonsets/",
    "batch/v1/Job": "/registry/jobs/",
    "policy/v1/PodDisruptionBudget": "/registry/poddisruptionbudgets/",
    "v1/ResourceQuota": "/registry/resourcequotas/",
    "autoscaling/v2/HorizontalPodAutoscaler": "/registry/horizontalpodautoscalers/",
}
"""The paths of kinds in the store, where users look past every cache."""
NAMES: Final = ("a", "b")
CPUS: Final = ("250m", "500m", "1")
PAUSES: Final = (0, 0, 1, 5, 20, 60)
POLICIES: Final = ("Background", "Foreground", "Orphan")
MOST_PODS: Final = 60
"""Pods that may be created after the last change; all workloads together have about thirty."""
REST_S: Final = 400
RESTART_S: Final = 60
"""Virtual seconds at the end: longer than a pod waits on a lost node, and than the queue's flush takes."""
QUEUE: Final = {"kueue.x-k8s.io/queue-name": "work"}

OPERATIONS = operations(14)
FAULTS = Option(
    "faults", type=bool, default=True, help="Whether processes crash and connections break."
)


def _some(user: User, what: str, among: Sequence[Any]) -> Any:
    return among[user.choose(len(among), what)]


# -- workloads -------------------------------------------------------------------------------------


def _replicated(kind: str, name: str, replicas: int, cpu: str, **spec: Any) -> Tree:
    app = f"{kind.lower()}-{name}"
    asked = {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, **spec}
    return namespaced("apps/v1", kind, name, {**asked, "template": template(app, cpu=cpu)})


async def _replicas(user: User) -> None:
    """Create a Deployment, ReplicaSet or StatefulSet; scale it, update it or delete it if it is there."""
    kind, name = _some(user, "which kind", ("Deployment", "StatefulSet", "ReplicaSet")), "a"
    if kind == "Deployment":
        name = _some(user, "which one", NAMES)
    count = user.choose(4, "replicas")
    if name not in stored(user, STORED[kind]):
        more = {"serviceName": name} if kind == "StatefulSet" else {}
        tree = _replicated(kind, name, count, _some(user, "which CPU", CPUS), **more)
        await user.attempt(user.create(tree))
        return
    what = user.choose(4, "what about it")
    if what == 0:
        await user.attempt(user.scale(kind, name, count))
    elif what == 1:
        await user.attempt(user.patch(kind, name, new_image(f"app:{user.ctx.serial()}")))
    elif what == 2:
        await _delete(user, f"apps/v1/{kind}", name)
    else:
        await user.attempt(user.patch(kind, name, {"metadata": {"labels": {"seen": "yes"}}}))


async def _delete(user: User, kind: str, name: str) -> None:
    policy = _some(user, "what goes with it", POLICIES)
    await user.attempt(user.delete(kind, name, propagation_policy=policy))


async def _daemons(user: User) -> None:
    """Create a DaemonSet, update it, or delete it."""
    if "agent" not in stored(user, STORED["DaemonSet"]):
        app = "agent"
        spec = {"selector": {"matchLabels": {"app": app}}, "template": template(app, cpu="100m")}
        await user.attempt(user.create(namespaced("apps/v1", "DaemonSet", app, spec)))
    elif user.choose(2, "what about it"):
        await _delete(user, "apps/v1/DaemonSet", "agent")
    else:
        image = f"app:{user.ctx.serial()}"
        await user.attempt(user.patch("DaemonSet", "agent", new_image(image)))


async def _jobs(user: User) -> None:
    """Create a Job that ends by itself, through a queue where there is one; or delete, suspend or resume it."""
    name = _some(user, "which one", NAMES)
    if name not in stored(user, STORED["batch/v1/Job"]):
        cpu = _some(user, "which CPU", CPUS)
        seconds = _some(user, "how long", ("4", "30"))
        spec = {
            "completions": 1 + user.choose(3, "completions"),
            "parallelism": 2,
            "completionMode": _some(user, "which mode", ("Indexed", "NonIndexed")),
            "template": template(
                f"job-{name}", cpu=cpu, run_seconds=seconds, restartPolicy="Never"
            ),
        }
        queued = QUEUE if KUEUE in beside(user.run.setting) and user.choose(3, "queued") else {}
        job = namespaced("batch/v1", "Job", name, spec, labels=dict(queued))
        await user.attempt(user.create(job))
        return
    what = user.choose(3, "what about it")
    if what == 0:
        await _delete(user, "batch/v1/Job", name)
    else:
        patch = {"spec": {"suspend": what == 1}}
        await user.attempt(user.patch("batch/v1/Job", name, patch))


async def _bare_pod(user: User) -> None:
    """Create a pod of no controller, or delete it, finish it, or create it anew at once."""
    name = f"bare-{_some(user, 'which one', NAMES)}"
    if name not in stored(user, PODS):
        await user.attempt(user.create(pod(name, _some(user, "which CPU", CPUS))))
        return
    grace = _some(user, "grace", (1, 0, 30))
    await user.attempt(user.delete("Pod", name, grace_period_seconds=grace))
    if user.choose(2, "create it anew at once"):
        await user.attempt(user.create(pod(name, _some(user, "which CPU", CPUS))))


# -- what happens to pods and nodes ----------------------------------------------------------------


def _any_pod(user: User) -> str:
    """Name a stored pod; "" if there is none."""
    names = sorted(stored(user, PODS))
    return names[user.choose(len(names), "which pod")] if names else ""


async def _some_pod(user: User) -> None:
    """Evict, delete, resize or relabel a pod, controlled or bare."""
    name = _any_pod(user)
    if not name:
        return
    what = user.choose(5, "what about it")
    if what == 0:
        await user.attempt(user.evict(name))
    elif what == 1:
        await user.attempt(user.delete("Pod", name))
    elif what == 2:
        await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    elif what == 3:
        await user.attempt(user.resize(name, "main", cpu=_some(user, "which CPU", CPUS)))
    else:  # its controller releases it, and creates another one
        await user.attempt(user.patch("Pod", name, {"metadata": {"labels": {"app": "released"}}}))
        await user.sleep(user.choose(3, "how long"))
        await user.attempt(user.delete("Pod", name))


def _some_node(user: User) -> str:
    return f"node-{1 + user.choose(user.options['nodes'], 'which node')}"


async def _some_closed_node(user: User) -> None:
    """Close a node by a cordon, a taint or a drain, and open it again after a while."""
    node = _some_node(user)
    what = user.choose(4, "how")
    if what == 0:
        await user.attempt(user.cordon(node))
    elif what == 3:
        await user.attempt(user.drain(node, patience_s=20))
    else:
        effect = ("NoSchedule", "NoExecute")[what - 1]
        taints = [{"key": "example.com/closed", "value": "yes", "effect": effect}]
        await user.attempt(user.patch("Node", node, {"spec": {"taints": taints}}))
    await user.sleep(_some(user, "how long", (1, 10, 45)))
    await _open(user, node)


async def _open(user: User, node: str) -> None:
    patch = {"spec": {"taints": None, "unschedulable": None}}
    await user.attempt(user.patch("Node", node, patch))


async def _lost_node(user: User) -> None:
    """Delete a Node; its kubelet runs on and registers it again, as upstream's does when it starts anew."""
    node = _some_node(user)
    if node not in stored(user, NODES):
        return
    await user.attempt(user.delete("Node", node))
    await user.sleep(_some(user, "how long", (0, 3, 50)))
    await _register(user, node)


async def _register(user: User, node: str) -> None:
    if node not in stored(user, NODES):
        tree = next(each for each in user.run.setting.nodes() if each["metadata"]["name"] == node)
        await user.attempt(user.create(tree))


async def _settings(user: User) -> None:
    """Create or delete a budget, a quota, or an autoscaler of a Deployment."""
    what = user.choose(3, "which")
    if what == 0:
        selector = {"matchLabels": {"app": "deployment-a"}}
        spec: Tree = {"maxUnavailable": 1, "selector": selector}
        tree = namespaced("policy/v1", "PodDisruptionBudget", "a", spec)
    elif what == 1:
        hard = {"pods": str(_some(user, "how many pods", (8, 20)))}
        tree = namespaced("v1", "ResourceQuota", "most", {"hard": hard})
    else:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "b"}
        usage = {"type": "Utilization", "averageUtilization": 50}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": usage}}
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": [metric]}
        tree = namespaced("autoscaling/v2", "HorizontalPodAutoscaler", "b", spec)
    kind, name = f"{tree['apiVersion']}/{tree['kind']}", tree["metadata"]["name"]
    if name in stored(user, STORED[kind]):
        await user.attempt(user.delete(kind, name))
    else:
        await user.attempt(user.create(tree))


# -- faults ----------------------------------------------------------------------------------------


def _processes(user: User) -> tuple[str, ...]:
    """Names of the processes that crash: those of the control plane, a kubelet, and the systems of the run."""
    return ("scheduler", "controller-manager", "apiserver", "node-1", *beside(user.run.setting))


async def _crash(user: User) -> None:
    process = _some(user, "which process", _processes(user))
    await crash(user, process, process)


async def _cut(user: User) -> None:
    """Cut a process off from the API server for a while, or break its connection."""
    process = _some(user, "which process", tuple(n for n in _processes(user) if n != "apiserver"))
    lasts = _some(user, "how long", (0, 1, 12, 45))
    if not lasts:
        user.break_link(process, "apiserver")
        return
    cut_off(user, process, lasts)


# -- the run ---------------------------------------------------------------------------------------

FEATURES: Final[dict[str, tuple[Do, ...]]] = {
    "replicas": (_replicas, _replicas, _replicas),
    "bare pods": (_bare_pod, _bare_pod),
    "jobs": (_jobs, _jobs),
    "daemons": (_daemons,),
    "pods": (_some_pod, _some_pod),
    "closed nodes": (_some_closed_node,),
    "lost nodes": (_lost_node,),
    "settings": (_settings, _settings),
    "faults": (_crash, _cut),
}
"""The features of runs, each with the operations that users carry out for it."""
ALWAYS: Final = ("replicas", "bare pods")
"""The features of every run: without pods nothing happens."""


async def churn(user: User) -> None:
    """Draw the features of this run, let several tasks do their share, open everything, and wait for the end."""
    drawn = [*ALWAYS]
    for each in FEATURES:
        if each not in ALWAYS and user.choose(2, f"with {each}"):
            drawn.append(each)
    if not user.options["faults"] and "faults" in drawn:
        drawn.remove("faults")
    user.notes[DRAWN] = drawn
    if KUEUE in beside(user.run.setting):
        await _queues(user)
    await user.divide(_share, user.options["operations"], user.options["users"])
    await _end(user)


async def _share(user: User, count: int) -> None:
    todo = [do for feature in user.notes[DRAWN] for do in FEATURES[feature]]
    for _ in range(count):
        await _some(user, "what", todo)(user)
        await pause(user, PAUSES)


async def _queues(user: User) -> None:
    """Create a queue with room for some of the Jobs."""
    quota = {"default": {"nominalQuota": "1500m"}}
    queue = cluster_queue("work", quota, preemption={})
    await create(user, flavor("default"), queue, local_queue("work"))


async def _end(user: User) -> None:
    """Open what is closed, bring back what is lost, let every process run, and wait."""
    await user.sleep(50)  # connections that were cut are healed by then
    for number in range(1, user.options["nodes"] + 1):
        await _register(user, f"node-{number}")
        await _open(user, f"node-{number}")
    await user.attempt(user.delete("ResourceQuota", "most"))
    for name in NAMES:
        if name in stored(user, STORED["batch/v1/Job"]):
            await user.attempt(user.patch("batch/v1/Job", name, {"spec": {"suspend": False}}))
    user.notes[CALM] = {}
    await user.sleep(REST_S)
    if not beside(user.run.setting) and user.choose(2, "restart at rest"):
        cluster = user.run.cluster
        servers = set(cluster.apiservers)
        processes = [each for each in cluster.components() if each not in servers]
        laws = (AT_REST_WORKLOADS_ARE_COMPLETE, ROOM_IS_USED)
        await restart_at_rest(user, processes, RESTART_S, laws)


def invariants(setting: Setting) -> tuple[Invariant, ...]:
    """Return the invariants of every cluster, and those of the systems of this run."""
    nodes = [each["metadata"]["name"] for each in setting.nodes()]
    found: list[Invariant] = [
        writes_keep_to_their_object(),
        THE_SCHEDULER_LIVES,
        *(each for law in LAWS for each in picture_holds(law)),
        EVERY_CONTEXT_ENDS,
        no_orphans(),
        one_active_pod_an_index("apiserver"),
        one_daemon_a_node("apiserver"),
        one_life_of_an_ordinal(*nodes),
        *(kubelets_start(node) for node in nodes),
        *(statuses_are_their_own(node) for node in nodes),
        *(ended_pods_hold_nothing(node) for node in nodes),
        *(nothing_starts_with_more_than_promised(node) for node in nodes),
        pods_settle(MOST_PODS),
        AT_REST_WORKLOADS_ARE_COMPLETE,
        ROOM_IS_USED,
        A_RESTART_CHANGES_NOTHING,
    ]
    if AUTOSCALER in beside(setting):
        found += (PODS_LEAVE_BEFORE_THEIR_NODE, AT_REST_GROUPS_HAVE_THEIR_NODES)
    if KUEUE in beside(setting):
        found += (
            QUOTA_IS_GIVEN_ONCE,
            AT_REST_KUEUE_KNOWS_EACH_WORKLOAD,
            AT_REST_NOTHING_THAT_FITS_IS_PARKED,
            AT_REST_RUNNING_JOBS_ARE_ADMITTED,
            AT_REST_ONE_WORKLOAD_FOR_EACH_JOB,
        )
    return tuple(found)


SCENARIO = Scenario(
    "system-churn",
    title="everything at once: the cluster comes to rest complete, and no system undoes another's work for ever",
    workload=churn,
    build=build,
    invariants=invariants,
    sometimes=tuple(drew(feature) for feature in FEATURES),
    options=(SYSTEMS, OPERATIONS, USERS, FAULTS),
    defaults={"nodes": 3, "node_cpu": "4"},
)
