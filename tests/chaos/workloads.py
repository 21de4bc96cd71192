"""What happens in a campaign: workloads of every kind, by users who do not give up.

They draw nothing and go on by what they find, so that every run asks for the same in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from attrs import field, frozen

from actors import LinkBroken, Timeout
from controlplane.api.object import Object
from controlplane.api.request import Request, Response
from controlplane.client.errors import ApiError, is_already_exists, is_conflict, is_not_found
from controlplane.client.loops.clientset import Client
from controlplane.cluster import ClusterConfig
from controlplane.controllers.common.selection import STANDARD
from controlplane.controllers.storage.snapshot.names import CLAIM_FINALIZER
from controlplane.scenarios.churns import controller_churn
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.engine.run import Run
from controlplane.scenarios.engine.setting import Setting
from controlplane.scenarios.engine.user import User
from tests.chaos.faults import LASTS_S, OUTLASTS_S

CLIENT_RATE = (20, 30)
"""Requests a second of each controller's client, and how many at once, as upstream: without them two
controllers that undo each other on stale caches go on for ever within one instant.
"""
Tree = dict[str, Any]
Main = Callable[[User], Coroutine[Any, Any, None]]

RETRY_NS = 1_000_000_000
PATIENCE_S = 1500
"""How long a user waits for what is to come: longer than any fault lasts and any back-off after it."""
PASSING = (409, 429, 500, 503, 504)


class PatientClient(Client):
    """Asks again until it is told how it is, as people do: nothing said, or an error that passes, is no answer."""

    __slots__ = ()

    async def call(self, request: Request) -> Response:
        """`Client.call`, again and again; what is there or gone already counts as done."""
        again = False
        while True:
            try:
                return await super().call(request)
            except (LinkBroken, Timeout):
                pass
            except ApiError as error:
                if request.verb == "delete" and is_not_found(error) and again:
                    return Response(200, {})
                if request.verb == "create" and is_already_exists(error) and again:
                    request = _get(request)
                    continue
                if request.subresource == "eviction" or error.code not in PASSING:
                    raise
                if is_already_exists(error) or (is_conflict(error) and _names_a_version(request)):
                    raise
            again = True
            await self._ctx.sleep(RETRY_NS)


def _names_a_version(request: Request) -> bool:
    return isinstance(request.body, dict) and "resourceVersion" in request.body.get("metadata", {})


def _get(request: Request) -> Request:
    name = request.body["metadata"]["name"]
    return Request("get", request.group, request.version, request.resource, request.namespace, name)


class PatientUser(User):
    """A user with such a client."""

    __slots__ = ()

    def __init__(self, user: User) -> None:
        super().__init__(user.ctx, user.run)
        self.client = PatientClient(user.ctx, user.cluster.address(user.ctx.actor))

    async def resize(
        self, pod: str, container: str, *, namespace: str = "", **requests: str
    ) -> Object:
        """`User.resize` of the pod as it is now: a request that a cut kept back does not undo a later one."""
        resources = {"requests": requests}
        spec = {"containers": [{"name": container, "resources": resources}]}
        while True:
            version = (await self.get("Pod", pod, namespace)).resource_version
            patch = {"metadata": {"resourceVersion": str(version)}, "spec": spec}
            try:
                return await self.patch("Pod", pod, patch, namespace, subresource="resize")
            except ApiError as error:
                if not is_conflict(error):
                    raise
            await self.sleep(1)


@frozen
class Workload:
    """What a user does, and the world in which it does it. `window_s`: for how long something may fail."""

    name: str
    main: Main
    controllers: tuple[str, ...] = ()
    window_s: int = 60
    storage: bool = False
    lasts_s: tuple[float, ...] = LASTS_S
    """How long faults last: no longer than pods may stay away, where nobody replaces them."""
    fields: Tree = field(factory=dict)

    def build(self, replicas: int) -> Callable[[Setting], ClusterConfig]:
        """The world, with so many API servers."""

        def built(setting: Setting) -> ClusterConfig:
            from attrs import evolve

            if self.storage:
                config = storage.world(volumes=2, nodes=2)(setting)
                rate = {"controller_client_rate": CLIENT_RATE}
                return evolve(config, apiservers=replicas, heartbeats=True, **rate, **self.fields)
            return ClusterConfig(
                nodes=setting.nodes(),
                apiservers=replicas,
                enabled_controllers=(*STANDARD, *self.controllers),
                controller_client_rate=CLIENT_RATE,
                **self.fields,
            )

        return built


def _object(api: str, kind: str, name: str, spec: Tree, **metadata: Any) -> Tree:
    named = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": api, "kind": kind, "metadata": named, "spec": spec}


def _template(name: str, image: str = "app:1", **container: Any) -> Tree:
    main = {"name": "main", "image": image, **container}
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 1},
    }


def _deployment(name: str, replicas: int, template: Tree) -> Tree:
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return _object("apps/v1", "Deployment", name, spec)


def _service(name: str, **spec: Any) -> Tree:
    ports = [{"port": 80, "targetPort": 8080}]
    return _object("v1", "Service", name, {"selector": {"app": name}, "ports": ports, **spec})


async def rollout(user: User) -> None:
    """A deployment behind a service is scaled and gets another image; one is undone midway."""
    await user.create(_service("web"))
    await user.create(_deployment("web", 2, _template("web")))
    await user.sleep(8)
    await user.patch("apps/v1/Deployment", "web", {"spec": {"replicas": 4}})
    await user.sleep(4)
    for image in ("app:2", "app:3"):
        containers = [{"name": "main", "image": image}]
        change = {"spec": {"template": {"spec": {"containers": containers}}}}
        await user.patch("apps/v1/Deployment", "web", change)
        await user.wait_until(_has_begun(image), patience_s=PATIENCE_S)
        await user.sleep(1)
    await user.patch("apps/v1/Deployment", "web", {"spec": {"replicas": 3}})


def _has_begun(image: str) -> Callable[[Run], bool]:
    """Whether a deployment has pods of an image in mind: one that it never saw is not in its history."""

    def holds(run: Run) -> bool:
        return any(
            each.tree["spec"]["template"]["spec"]["containers"][0]["image"] == image
            for each in run.objects("/registry/replicasets/")
        )

    return holds


async def probes(user: User) -> None:
    """Pods with readiness and liveness probes behind a service; one of two deployments goes."""
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 2}
    for name in ("ready", "other"):
        await user.create(_service(name))
        template = _template(name, readinessProbe=probe, livenessProbe=probe)
        template["metadata"]["annotations"] = {"emulate.controlplane/ready-seconds": "3"}
        await user.create(_deployment(name, 2, template))
    await user.sleep(20)
    await user.delete("apps/v1/Deployment", "other")
    await user.sleep(10)
    await user.patch("apps/v1/Deployment", "ready", {"spec": {"replicas": 3}})


def _staying(name: str, **container: Any) -> Tree:
    """A pod that stays on a node that is not heard of.

    Upstream evicts by name (kubernetes 29522): the timer of a pod that has gone would fault its namesake.
    """
    tree = _template(name, **container)
    tree["metadata"]["name"] = name
    tree["spec"]["tolerations"] = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("unreachable", "not-ready")
    ]
    return tree


async def bare_pods(user: User) -> None:
    """Pods that nobody looks after come, are resized, end by themselves and go."""
    for name in ("a", "b", "c", "d"):
        resources = {"requests": {"cpu": "500m"}}
        tree = _staying(name, resources=resources)
        if name == "d":
            tree["metadata"]["annotations"] = {"emulate.controlplane/run-seconds": "9"}
            tree["spec"]["restartPolicy"] = "Never"
        await user.create({"apiVersion": "v1", "kind": "Pod", **tree})
        await user.sleep(2)
    await user.sleep(5)
    await user.resize("a", "main", cpu="1")
    await user.sleep(5)
    # The very one: of a name alone a request that a cut kept back would delete the one that comes after.
    await user.delete("Pod", "b", uid=(await user.get("Pod", "b")).uid)
    await user.sleep(5)
    await user.resize("a", "main", cpu="1500m")
    await user.gone("Pod", "b")
    await user.create({"apiVersion": "v1", "kind": "Pod", **_staying("b")})
    await user.delete("Pod", "c", grace_period_seconds=5)


async def autoscaling(user: User) -> None:
    """An autoscaler gives busy pods company."""
    container = {"resources": {"requests": {"cpu": "100m"}}}
    template = _template("web", **container)
    template["metadata"]["annotations"] = {"emulate.controlplane/cpu-usage": "100m"}
    await user.create(_deployment("web", 1, template))
    target = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 4,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    await user.create(_object("autoscaling/v2", "HorizontalPodAutoscaler", "web", spec))
    await user.sleep(60)


async def nodes(user: User) -> None:
    """Nodes are cordoned, tainted and let in again while pods look for a place."""
    await user.create(_deployment("web", 3, _template("web")))
    await user.sleep(6)
    await user.cordon("node-1")
    await user.patch("apps/v1/Deployment", "web", {"spec": {"replicas": 5}})
    await user.sleep(6)
    taint = {"key": "away", "value": "yes", "effect": "NoExecute"}
    await user.patch("Node", "node-2", {"spec": {"taints": [taint]}})
    await user.uncordon("node-1")
    await user.sleep(10)
    gone = {"$patch": "delete", "key": "away", "effect": "NoExecute"}
    await user.patch("Node", "node-2", {"spec": {"taints": [gone]}})


def _claims_are_let_go(run: Run) -> bool:
    """Whether no claim is held for a snapshot that is being made.

    The snapshot controller lets go of the claim that its cache shows, whenever it looks at a snapshot. As
    upstream's does, it holds one for ever if its claims lag until the last snapshot of that claim has gone.
    """
    claims = run.objects("/registry/persistentvolumeclaims/")
    return not any(
        CLAIM_FINALIZER in each.tree["metadata"].get("finalizers", ()) for each in claims
    )


async def volumes(user: User) -> None:
    """Claims are provisioned, used by pods, snapshotted, restored, and go."""
    await storage.claims(user, 2)
    await storage.storage_class(user)
    await storage.restore(user, "fresh", "")
    await storage.pod(user, "first", "pvc-0", node="node-1")
    await storage.pod(user, "second", "fresh", node="node-2")
    await user.wait_until(lambda run: storage.runs(run, "second"), patience_s=PATIENCE_S)
    await storage.take(user, "one", "pvc-0")
    await storage.take(user, "two", "pvc-1", "retain")
    await user.wait_until(lambda run: storage.ready(run) == 2, patience_s=PATIENCE_S)
    await storage.restore(user, "restored", "one")
    await user.wait_until(lambda run: storage.bound(run) == 4, patience_s=PATIENCE_S)
    await user.wait_until(_claims_are_let_go, patience_s=PATIENCE_S)
    await storage.remove(user, "VolumeSnapshot", "one")
    await storage.remove(user, "Pod", "first")
    await user.gone("Pod", "first")
    await storage.pod(user, "third", "pvc-0", node="node-2")
    await user.wait_until(lambda run: storage.runs(run, "third"), patience_s=PATIENCE_S)
    await storage.remove(user, "Pod", "second")
    await storage.remove(user, "PersistentVolumeClaim", "fresh")


async def groups(user: User) -> None:
    """A group of volumes is snapshotted, and the group goes; another stays."""
    await storage.claims(user, 2)
    await storage.take_group(user, "daily")
    await storage.take_group(user, "weekly", "retain")
    both = storage.GROUPS
    await user.wait_until(lambda run: storage.ready(run, both) == 2, patience_s=PATIENCE_S)
    await user.sleep(5)
    await storage.remove(user, "VolumeGroupSnapshot", "daily")


async def cron(user: User) -> None:
    """A CronJob runs once, and may run no more; one run is kept."""
    template = _template("tick")
    template["metadata"]["annotations"] = {"emulate.controlplane/run-seconds": "2"}
    template["spec"]["restartPolicy"] = "Never"
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"template": template}},
    }
    await user.create(_object("batch/v1", "CronJob", "tick", spec))

    def has_run(run: Run) -> bool:
        jobs = run.objects("/registry/jobs/")
        return any((each.tree.get("status") or {}).get("succeeded") for each in jobs)

    await user.wait_until(has_run, patience_s=PATIENCE_S)
    await user.patch("batch/v1/CronJob", "tick", {"spec": {"suspend": True}})


def _churned(name: str, window_s: int = 40, lasts_s: tuple[float, ...] = LASTS_S) -> Workload:
    main, controllers = controller_churn.PARTS[name]
    return Workload(name, main, controllers, window_s, lasts_s=lasts_s)


WORKLOADS = {
    each.name: each
    for each in (
        Workload("rollout", rollout, ("endpoints", "endpointslice"), lasts_s=OUTLASTS_S),
        Workload(
            "probes",
            probes,
            ("endpoints", "endpointslice", "garbage-collector"),
            lasts_s=OUTLASTS_S,
        ),
        Workload("pods", bare_pods, ("pod-garbage-collector-controller",), lasts_s=OUTLASTS_S),
        Workload("autoscaling", autoscaling, ("horizontalpodautoscaling",)),
        Workload("nodes", nodes, lasts_s=OUTLASTS_S),
        Workload("volumes", volumes, storage=True),
        Workload("groups", groups, storage=True),
        _churned("jobs"),
        Workload("cron", cron, ("job", "cronjob", "garbage-collector"), 80),
        _churned("stateful", lasts_s=OUTLASTS_S),
        _churned("daemons", lasts_s=OUTLASTS_S),
        _churned("garbage"),
        _churned("namespaces"),
        _churned("budgets", 60),
    )
}
"""By name. What of `controller_churn` is used here is told there."""
