"""The workloads of the controllers' churn: each part changes what some of the controllers look after.

A part draws nothing, so that all runs without faults end alike, and ends with objects that are at rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.client.loops.clientset import Resource
from controlplane.scenarios.authoring.workloads import namespaced, new_image, template
from controlplane.scenarios.invariants.views import PODS, has_condition, nothing_was_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]


async def touch_nodes(user: User, label: str = "seen", value: str | None = "yes") -> None:
    """Change a label of each node, as its kubelet would change its status: nodes do not report in this world.

    The node controller does not try again what a server that lags refused, as upstream: the taints of a new node stay
    until the node changes.
    """
    for node in user.run.objects(NODES):
        await user.attempt(user.patch("Node", node.name, {"metadata": {"labels": {label: value}}}))


async def _nodes_are_ready(user: User) -> None:
    """Wait until all nodes are there and have lost the taint of new ones, so that pods can run.

    They are touched more rarely than caches lag: a server that is behind would never catch up with its writes.
    """
    nodes = len(user.cluster.machines)

    def holds(run: Run) -> bool:
        found = run.objects(NODES)
        return len(found) == nodes and not any(each.tree["spec"].get("taints") for each in found)

    while not await user.wait_until(holds, patience_s=130):
        await touch_nodes(user, "new", "yes")
        await touch_nodes(user, "new", None)


def _selecting(name: str, **spec: Any) -> Tree:
    labels = {"matchLabels": {"app": name}}
    return {"selector": labels, "template": template(name), **spec}


async def _running(user: User, count: int, image: str = "") -> None:
    """Wait until `count` pods run, all with this image if one is given, so that the next action does not race with
    it.
    """

    def holds(run: Run) -> bool:
        pods = run.objects(PODS)
        return len(pods) == count and all(
            each.tree.get("status", {}).get("phase") == "Running"
            and (not image or _has_image(each, image))
            for each in pods
        )

    await user.wait_until(holds)


def _has_image(pod: Object, image: str) -> bool:
    return bool(pod.tree["spec"]["containers"][0]["image"] == image)


async def jobs(user: User) -> None:
    """An indexed Job and a plain one run to their end; a third is deleted amid its work."""
    for name, mode in (("indexed", "Indexed"), ("plain", "NonIndexed"), ("short", "Indexed")):
        made = template(name, run_seconds="4", restartPolicy="Never")
        spec = {"completions": 3, "parallelism": 2, "completionMode": mode, "template": made}
        await user.create(namespaced("batch/v1", "Job", name, spec))
    await user.sleep(6)
    await user.client.delete(_resource("batch", "jobs"), "default", "short", **BACKGROUND)


async def cron(user: User) -> None:
    """A CronJob that keeps one run."""
    made = template("tick", run_seconds="2", restartPolicy="Never")
    spec = {
        "schedule": "*/2 * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"template": made}},
    }
    await user.create(namespaced("batch/v1", "CronJob", "tick", spec))
    await user.sleep(225)
    await user.patch("batch/v1/CronJob", "tick", {"spec": {"suspend": True}})


async def stateful(user: User) -> None:
    """A StatefulSet grows, rolls and shrinks."""
    spec = _selecting("db", serviceName="db", replicas=2)
    await user.create(namespaced("apps/v1", "StatefulSet", "db", spec))
    await _running(user, 2)
    await user.patch("apps/v1/StatefulSet", "db", {"spec": {"replicas": 3}})
    await user.sleep(4)
    await user.patch("apps/v1/StatefulSet", "db", new_image("app:2"))
    await _running(user, 3, "app:2")
    await user.patch("apps/v1/StatefulSet", "db", {"spec": {"replicas": 1}})


async def daemons(user: User) -> None:
    """A DaemonSet that some nodes want, then others; it rolls."""
    placed = template("agent", nodeSelector={"agent": "yes"})
    labelled: Tree = {"metadata": {"labels": {"agent": "yes"}}}
    await user.sleep(2)
    await user.patch("Node", "node-1", labelled)
    spec = {**_selecting("agent"), "template": placed}
    await user.create(namespaced("apps/v1", "DaemonSet", "agent", spec))
    await _running(user, 1)
    await user.patch("Node", "node-2", labelled)
    await user.sleep(4)
    await user.patch("apps/v1/DaemonSet", "agent", new_image("app:2"))
    await _running(user, 2, "app:2")
    await user.patch("Node", "node-1", {"metadata": {"labels": {"agent": "no"}}})


async def garbage(user: User) -> None:
    """Deployments are deleted in the foreground and the background, and one leaves its pods."""
    policies = {"one": "Foreground", "two": "Background", "three": "Orphan"}
    for name in policies:
        spec = _selecting(name, replicas=2)
        await user.create(namespaced("apps/v1", "Deployment", name, spec))
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
    await user.create(namespaced("apps/v1", "Deployment", "web", spec, namespace="shop"))
    await user.sleep(8)
    await user.delete("Namespace", "shop")


async def budgets(user: User) -> None:
    """Pods under a budget and a quota are evicted."""
    hard = {"pods": "6"}
    await user.create(namespaced("v1", "ResourceQuota", "most", {"hard": hard}))
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await user.create(namespaced("policy/v1", "PodDisruptionBudget", "web", budget))
    await user.sleep(3)
    await user.create(namespaced("apps/v1", "Deployment", "web", _selecting("web", replicas=2)))
    await user.sleep(15)
    await user.drain("node-1", every_s=3, patience_s=120)
    await user.uncordon("node-1")


async def rollouts(user: User) -> None:
    """A Deployment rolls forward, is scaled amid that, and rolls back before it is done."""
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    deployment = namespaced("apps/v1", "Deployment", "web", _selecting("web", replicas=2))
    deployment["spec"] = {**deployment["spec"], "strategy": strategy, "progressDeadlineSeconds": 60}
    await user.create(deployment)
    await _running(user, 2)
    await user.patch("apps/v1/Deployment", "web", new_image("app:2"))
    await user.sleep(2)
    await user.patch("apps/v1/Deployment", "web", {"spec": {"replicas": 3}})
    await _running(user, 3, "app:2")
    await user.patch("apps/v1/Deployment", "web", new_image("app:3"))
    await user.wait_until(lambda run: any(_has_image(each, "app:3") for each in run.objects(PODS)))
    await user.patch("apps/v1/Deployment", "web", new_image("app:1"))


async def services(user: User) -> None:
    """Services whose pods come, lose their label and go; one selects other pods, one is made again under its name.

    Slices are deleted under their controller.
    """
    ports = [{"port": 80, "targetPort": 8080}]
    service = namespaced("v1", "Service", "web", {"selector": {"app": "web"}, "ports": ports})
    await user.create(service)
    await user.create(
        namespaced("v1", "Service", "other", {"selector": {"app": "web"}, "ports": ports})
    )
    await user.create(namespaced("apps/v1", "ReplicaSet", "web", _selecting("web", replicas=2)))
    await user.create(
        namespaced("v1", "Pod", "lone", template("lone")["spec"], labels={"app": "lone"})
    )
    await _running(user, 3)
    await user.patch("Pod", "lone", {"metadata": {"labels": {"app": "web"}}})
    await user.patch("Service", "other", {"spec": {"selector": {"app": "lone"}}})
    await user.sleep(2)
    await user.attempt(user.delete("Pod", "lone"))
    await user.delete("Service", "web")
    await user.create(service)
    await user.patch("apps/v1/ReplicaSet", "web", {"spec": {"replicas": 3}})
    await user.sleep(5)
    if not nothing_was_lost(user.run):
        return  # a controller that has started anew knows none of its slices, and acts on no deletion, upstream neither
    for found in user.run.objects("/registry/endpointslices/"):
        await user.attempt(user.delete("discovery.k8s.io/v1/EndpointSlice", found.name))


async def owners(user: User) -> None:
    """ReplicaSets adopt pods and lose them; one is deleted and leaves its pods to the next of its name.

    A ReplicaSet that has made its pods before it adopts one may delete that one.
    """
    pod = namespaced("v1", "Pod", "lone", template("web")["spec"], labels={"app": "web"})
    await user.create(pod)
    await user.create(namespaced("apps/v1", "ReplicaSet", "web", _selecting("web", replicas=3)))
    await _running(user, 3)
    await user.attempt(user.patch("Pod", "lone", {"metadata": {"labels": {"app": "free"}}}))
    await user.wait_until(lambda run: len(run.objects(PODS)) >= 3 + _has_lone(run))
    await user.client.delete(
        _resource("apps", "replicasets"), "default", "web", propagation_policy="Orphan"
    )
    await user.gone("apps/v1/ReplicaSet", "web")
    await user.create(namespaced("apps/v1", "ReplicaSet", "web", _selecting("web", replicas=2)))
    await user.attempt(user.patch("Pod", "lone", {"metadata": {"labels": {"app": "web"}}}))
    await user.sleep(3)
    await user.attempt(user.delete("Pod", "lone"))


def _has_lone(run: Run) -> bool:
    return any(pod.name == "lone" for pod in run.objects(PODS))


async def lost_nodes(user: User) -> None:
    """Pods are evicted from a tainted node, some after a while; a node with pods is removed, another lost."""
    patient = [
        {"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20},
        {"key": "slow", "operator": "Exists", "effect": "NoExecute"},
    ]
    for name, tolerations in (("web", []), ("patient", patient)):
        spec = _selecting(name, replicas=2)
        spec["template"] = template(name, tolerations=tolerations)
        await user.create(namespaced("apps/v1", "ReplicaSet", name, spec))
    spec = _selecting("db", serviceName="db", replicas=2, podManagementPolicy="Parallel")
    spec["template"] = template("db", nodeSelector={"kubernetes.io/hostname": "node-1"})
    await user.create(namespaced("apps/v1", "StatefulSet", "db", spec))
    await _running(user, 6)
    taint = {"key": "down", "value": "yes", "effect": "NoExecute"}
    await user.patch("Node", "node-1", {"spec": {"taints": [taint]}})
    await user.sleep(6)
    slow = {**taint, "key": "slow"}  # which the patient ones tolerate for ever
    await user.patch("Node", "node-1", {"spec": {"taints": [slow]}})
    await user.sleep(6)
    await user.patch("Node", "node-1", {"spec": {"taints": [taint]}})
    await user.sleep(6)
    await user.patch("Node", "node-1", {"spec": {"taints": []}})
    await user.sleep(15)
    await user.delete("Node", "node-2")
    await user.sleep(60)
    lost = {"key": "lost", "value": "yes", "effect": "NoExecute"}
    await user.patch("Node", "node-1", {"spec": {"taints": [lost]}})
    await user.sleep(30)


async def again(user: User) -> None:
    """Workloads of three kinds are deleted and made again, with another template, under their names."""
    pods = template("work", run_seconds="4", restartPolicy="Never")
    job = {"completions": 2, "parallelism": 2, "template": pods, "ttlSecondsAfterFinished": 20}
    made = [
        namespaced("batch/v1", "Job", "work", job),
        namespaced("apps/v1", "StatefulSet", "db", _selecting("db", serviceName="db", replicas=2)),
        namespaced("apps/v1", "DaemonSet", "agent", _selecting("agent")),
    ]
    for tree in made:
        await user.create(tree)
    await user.sleep(3)
    for tree in made:
        kind = f"{tree['apiVersion']}/{tree['kind']}"
        group, _, _ = tree["apiVersion"].partition("/")
        plural = f"{tree['kind'].lower()}s"
        await user.client.delete(
            _resource(group, plural), "default", tree["metadata"]["name"], **BACKGROUND
        )
        await user.gone(kind, tree["metadata"]["name"])
        (container,) = tree["spec"]["template"]["spec"]["containers"]
        changed = {
            **tree["spec"]["template"]["spec"],
            "containers": [{**container, "image": "app:2"}],
        }
        spec = {**tree["spec"], "template": {**tree["spec"]["template"], "spec": changed}}
        await user.create({**tree, "spec": spec})


async def autoscaled(user: User) -> None:
    """An autoscaler grows a Deployment, whose user changes its size and template beside it."""
    made = template("web", cpu="100m")
    made["metadata"]["annotations"] = {"emulate.controlplane/cpu-usage": "80m"}
    spec = {**_selecting("web", replicas=1), "template": made}
    await user.create(namespaced("apps/v1", "Deployment", "web", spec))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 40}}
    metrics = [{"type": "Resource", "resource": cpu}]
    scaler = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4, "metrics": metrics}
    await user.create(namespaced("autoscaling/v2", "HorizontalPodAutoscaler", "web", scaler))
    await user.sleep(50)
    await user.patch("apps/v1/Deployment", "web", {"spec": {"replicas": 1}})
    await user.sleep(40)


async def shares(user: User) -> None:
    """Budgets that count from the size of the workload; its owner is scaled and made again amid evictions."""
    await _nodes_are_ready(user)
    for name, allowed in (("web", {"maxUnavailable": 1}), ("db", {"minAvailable": "50%"})):
        budget = {**allowed, "selector": {"matchLabels": {"app": name}}}
        await user.create(namespaced("policy/v1", "PodDisruptionBudget", name, budget))
    await user.create(namespaced("apps/v1", "Deployment", "web", _selecting("web", replicas=3)))
    database = namespaced(
        "apps/v1", "StatefulSet", "db", _selecting("db", serviceName="db", replicas=2)
    )
    await user.create(database)
    await _running(user, 5)
    user.spawn(_scaled_amid)
    await user.drain("node-1", every_s=3, patience_s=60)
    await user.uncordon("node-1")
    await user.client.delete(
        _resource("apps", "statefulsets"), "default", "db", propagation_policy="Orphan"
    )
    await user.gone("apps/v1/StatefulSet", "db")
    await user.create(database)
    await user.sleep(5)
    await user.drain("node-2", every_s=3, patience_s=60)
    await user.uncordon("node-2")


async def _scaled_amid(user: User) -> None:
    await user.sleep(4)
    await user.patch("apps/v1/Deployment", "web", {"spec": {"replicas": 2}})


async def replaced(user: User) -> None:
    """A Deployment replaces all pods at once, is paused amid that, keeps two revisions and is rolled back by number."""
    await _nodes_are_ready(user)
    spec = _selecting("web", replicas=2, strategy={"type": "Recreate"}, revisionHistoryLimit=2)
    await user.create(namespaced("apps/v1", "Deployment", "web", spec))
    await _running(user, 2)
    for number in (2, 3, 4):
        await user.patch("apps/v1/Deployment", "web", new_image(f"app:{number}"))
        await user.sleep(1)
        await user.patch("apps/v1/Deployment", "web", {"spec": {"paused": True}})
        await user.sleep(2)
        await user.patch("apps/v1/Deployment", "web", {"spec": {"paused": False}})
        await _running(user, 2, f"app:{number}")
    for revision in ("3", "9", "0"):
        await user.patch(
            "apps/v1/Deployment", "web", {"metadata": {"annotations": {BACK: revision}}}
        )
        await user.wait_until(
            lambda run: BACK not in (run.objects(DEPLOYMENTS)[0].metadata["annotations"] or {})
        )
        await user.sleep(2)


async def failing_jobs(user: User) -> None:
    """Jobs whose pods fail: up to a limit, by index, by a policy, at a deadline; one is suspended and goes on.

    How many pods the last two count depends on when the controller looks, so they are deleted in the end.
    """
    await _nodes_are_ready(user)
    exits = {"onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}}
    forms: dict[str, Tree] = {
        "limited": {"backoffLimit": 1, "parallelism": 1},
        "by-index": {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1, "completionMode": "Indexed"},
        "by-policy": {
            "podFailurePolicy": {"rules": [{"action": "FailJob", **exits}]},
            "podReplacementPolicy": "Failed",
            "parallelism": 1,
        },
        "late": {"activeDeadlineSeconds": 5},
        "stopped": {"podReplacementPolicy": "TerminatingOrFailed"},
    }
    codes = {"limited": "1", "by-index": "1", "by-policy": "3"}
    for name, form in forms.items():
        seconds = "2" if name in codes else "100000"
        made = template(name, run_seconds=seconds, restartPolicy="Never")
        made["metadata"]["annotations"]["emulate.controlplane/exit-codes"] = codes.get(name, "0")
        spec = {"completions": 2, "parallelism": 2, "template": made, **form}
        await user.create(namespaced("batch/v1", "Job", name, spec))
    await user.sleep(2)
    await user.patch("batch/v1/Job", "stopped", {"spec": {"suspend": True}})
    await user.wait_until(lambda run: _job_is(run, "stopped", "Suspended"))
    await user.patch("batch/v1/Job", "stopped", {"spec": {"suspend": False}})
    await user.wait_until(lambda run: not _job_is(run, "stopped", "Suspended"))
    await user.wait_until(lambda run: _job_is(run, "late", "Failed"))
    for name in ("stopped", "late"):
        await user.client.delete(_resource("batch", "jobs"), "default", name, **BACKGROUND)
    await user.sleep(30)


def _job_is(run: Run, name: str, condition: str) -> bool:
    (job,) = (each for each in run.objects("/registry/jobs/") if each.name == name)
    return has_condition(job, condition)


async def surging_daemons(user: User) -> None:
    """A DaemonSet rolls with a surge and waits for pods to stay ready; an earlier template of it comes again."""
    await _nodes_are_ready(user)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    spec = _selecting("agent", updateStrategy=rolling, minReadySeconds=2)
    await user.create(namespaced("apps/v1", "DaemonSet", "agent", spec))
    nodes = len(user.cluster.machines)
    await _running(user, nodes)
    for number in (2, 3):
        await user.patch("apps/v1/DaemonSet", "agent", new_image(f"app:{number}"))
        await _running(user, nodes, f"app:{number}")
        await user.sleep(SETTLED_S)
    await user.delete("Pod", user.run.objects(PODS)[0].name)
    for number in (1, 4):
        await user.patch("apps/v1/DaemonSet", "agent", new_image(f"app:{number}"))
        await _running(user, nodes, f"app:{number}")
        await user.sleep(SETTLED_S)


async def ready_later(user: User) -> None:
    """Workloads whose pods count only after they were ready for a while are scaled and rolled before they do."""
    await _nodes_are_ready(user)
    forms: dict[str, Tree] = {
        "ReplicaSet": {"replicas": 2},
        "Deployment": {"replicas": 2},
        "StatefulSet": {"replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel"},
    }
    for kind, form in forms.items():
        name = kind.lower()
        spec = _selecting(name, minReadySeconds=5, **form)
        await user.create(namespaced("apps/v1", kind, name, spec))
    await _running(user, 6)
    for kind in forms:
        await user.patch(f"apps/v1/{kind}", kind.lower(), {"spec": {"replicas": 3}})
    await user.sleep(3)
    for kind in ("Deployment", "StatefulSet"):
        await user.patch(f"apps/v1/{kind}", kind.lower(), new_image("app:2"))
    await _observed(user, STATEFUL_SETS)
    await user.sleep(SETTLED_S)
    await user.patch("apps/v1/StatefulSet", "statefulset", new_image("app:3"))
    await user.sleep(20)


async def claims(user: User) -> None:
    """A StatefulSet with claims, which go when it shrinks and stay when it is deleted; it is made again."""
    await _nodes_are_ready(user)
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    for number in range(2):
        await _volume_for(user, f"data-{number}", f"data-db-{number}")
    policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    spec = _selecting(
        "db",
        serviceName="db",
        replicas=2,
        volumeClaimTemplates=[claim],
        persistentVolumeClaimRetentionPolicy=policy,
    )
    made = namespaced("apps/v1", "StatefulSet", "db", spec)
    await user.create(made)
    await _running(user, 2)
    await user.patch("apps/v1/StatefulSet", "db", {"spec": {"replicas": 1}})
    await user.gone("PersistentVolumeClaim", "data-db-1")
    await _volume_for(user, "data-2", "data-db-1")
    await _running(user, 1)
    kept = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}
    await user.patch("apps/v1/StatefulSet", "db", {"spec": kept})
    await user.sleep(2)
    await user.client.delete(_resource("apps", "statefulsets"), "default", "db", **BACKGROUND)
    await user.gone("apps/v1/StatefulSet", "db")
    await user.create(made)
    await user.sleep(10)


async def _volume_for(user: User, name: str, claim: str) -> None:
    """A volume that is kept for one claim, so that all runs bind alike."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": f"/{name}"},
        "claimRef": {"namespace": "default", "name": claim},
    }
    tree = {"apiVersion": "v1", "kind": "PersistentVolume", "spec": spec}
    await user.create({**tree, "metadata": {"name": name}})


async def _observed(user: User, prefix: str) -> None:
    """Wait until the controller has seen the workload of a kind as it is: it keeps a history of templates."""

    def holds(run: Run) -> bool:
        return all(
            each.tree.get("status", {}).get("observedGeneration") == each.metadata["generation"]
            for each in run.objects(prefix)
        )

    await user.wait_until(holds)


SETTLED_S = 90
"""After this no cache lags any more: a controller that does not see its last revision numbers the next one alike."""
NODES = "/registry/minions/"
BACK = "deprecated.deployment.rollback.to"
DEPLOYMENTS = "/registry/deployments/"
STATEFUL_SETS = "/registry/statefulsets/"
BACKGROUND: Tree = {"propagation_policy": "Background"}


def _resource(group: str, name: str) -> Any:

    return Resource(group, "v1", name)


CLAIMS = (
    "statefulset",
    "garbage-collector",
    "persistentvolume-binder",
    "persistentvolume-protection",
    "persistentvolumeclaim-protection",
)
PARTS: dict[str, tuple[Callable[[User], Coroutine[Any, Any, None]], tuple[str, ...]]] = {
    "jobs": (jobs, ("job", "garbage-collector")),
    "cron": (cron, ("job", "cronjob", "garbage-collector")),
    "stateful": (stateful, ("statefulset",)),
    "daemons": (daemons, ("daemonset",)),
    "garbage": (garbage, ("garbage-collector",)),
    "namespaces": (namespaces, ("namespace", "garbage-collector")),
    "rollouts": (rollouts, ("garbage-collector",)),
    "services": (services, ("endpoints", "endpointslice", "garbage-collector")),
    "owners": (owners, ("garbage-collector",)),
    "lost-nodes": (lost_nodes, ("statefulset", "pod-garbage-collector")),
    "again": (
        again,
        ("job", "statefulset", "daemonset", "ttl-after-finished", "garbage-collector"),
    ),
    "autoscaled": (autoscaled, ("horizontal-pod-autoscaler",)),
    "budgets": (budgets, ("disruption", "resourcequota")),
    "shares": (shares, ("disruption", "statefulset", "garbage-collector")),
    "replaced": (replaced, ("garbage-collector",)),
    "failing-jobs": (failing_jobs, ("job", "garbage-collector")),
    "surging-daemons": (surging_daemons, ("daemonset",)),
    "ready-later": (ready_later, ("statefulset",)),
    "claims": (claims, CLAIMS),
}
"""The actions of the churn, and the controllers that it needs besides the default ones."""
