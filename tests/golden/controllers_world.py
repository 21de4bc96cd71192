"""A whole control plane with the fake kubelet that the recordings were made with, and users who send requests.

What is emulated of the kubelet: it reports a bound pod as running 0.2 s after it sees it, ends its
containers 0.4 s later where an annotation says so, and removes a pod 0.3 s after its deletion began.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from actors import Context
from controlplane.api.object import Object
from controlplane.api.request import JSON, Request
from controlplane.api.times import format_time
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.loops.informer import Informer, handler
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.cluster_config import APISERVER, CONTROLLER_MANAGER, EPOCH_NS

SECOND = 1_000_000_000
QUIET_S = 4
ENDING_QUIET_S = 8
"""How long nothing may have changed before a namespace counts as settled; one on its way out waits 5 s by itself."""
PATIENCE_S = 300
LATENCY_NS = 2_000_000
"""What a message takes between the controllers and the server: real rollouts are seen half-way."""
VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
PREFIXES = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "Job": "jobs",
    "Pod": "pods",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "EndpointSlice": "endpointslices",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "Service": "services/specs",
    "ResourceQuota": "resourcequotas",
    "ServiceAccount": "serviceaccounts",
    "ConfigMap": "configmaps",
    "ControllerRevision": "controllerrevisions",
    "Node": "minions",
    "PersistentVolume": "persistentvolumes",
    "Namespace": "namespaces",
}


class FakeKubelet:
    """Reports about all pods of all nodes."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.seen: dict[str, None] = {}
        self.ending: dict[str, None] = {}

    async def run(self) -> None:
        informer = Informer(self.ctx, PODS)
        informer.add_handler(
            handler(self.look, lambda _old, new: self.look(new), lambda *_: None), "kubelet"
        )
        informer.start()

    def look(self, obj: Object[Any]) -> None:
        pod = obj.view
        if not pod.spec.node_name:
            return
        if pod.metadata.deletion_timestamp is not None and pod.uid not in self.ending:
            self.ending[pod.uid] = None
            self.ctx.spawn(self.end, pod, name="end")
        if pod.uid not in self.seen:
            self.seen[pod.uid] = None
            self.ctx.spawn(self.report, pod, name="report")

    async def end(self, ctx: Context, pod: Any) -> None:
        await ctx.sleep(3 * SECOND // 10)
        try:
            await Client(ctx).delete(
                PODS, pod.namespace, pod.name, uid=pod.uid, grace_period_seconds=0
            )
        except ApiError:
            return

    async def report(self, ctx: Context, pod: Any) -> None:
        # Real pods are not ready in the same instant.
        await ctx.sleep(SECOND // 5 + len(self.seen) % 5 * SECOND // 40)
        notes = pod.annotations
        ready = notes.get("fake/ready") != "false"
        started = format_time(EPOCH_NS + ctx.now)
        running = {"running": {"startedAt": started}}
        await self.patch(ctx, pod, "Running", ready, running)
        code = _exit_code(pod)
        if code is None:
            return
        await ctx.sleep(2 * SECOND // 5)
        ended = {
            "exitCode": code,
            "startedAt": started,
            "finishedAt": format_time(EPOCH_NS + ctx.now),
            "reason": "Error" if code else "Completed",
        }
        phase = "Failed" if code else "Succeeded"
        await self.patch(ctx, pod, phase, False, {"terminated": ended})

    async def patch(self, ctx: Context, pod: Any, phase: str, ready: bool, state: Any) -> None:
        stamp = format_time(EPOCH_NS + ctx.now)
        conditions = [
            {"type": kind, "status": "True" if value else "False", "lastTransitionTime": stamp}
            for kind, value in (
                ("Initialized", True),
                ("Ready", ready),
                ("ContainersReady", ready),
                ("PodScheduled", True),
            )
        ]
        statuses = [
            {
                "name": each.name,
                "ready": ready,
                "restartCount": 0,
                "image": each.image,
                "imageID": "",
                "state": state,
                "started": "running" in state,
            }
            for each in pod.spec.containers
        ]
        number = len(self.seen)
        address = f"10.1.{number // 250}.{number % 250 + 1}"
        status = {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": statuses,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": stamp,
        }
        body = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            await Client(ctx).patch(PODS, pod.namespace, pod.name, body, subresource="status")
        except ApiError:
            return


def _exit_code(pod: Any) -> int | None:
    index = pod.annotations.get("batch.kubernetes.io/job-completion-index")
    failing = pod.annotations.get("fake/fail-index")
    if failing is not None:
        return 1 if index == failing else 0
    text = pod.annotations.get("fake/exit")
    return None if text is None else int(text)


def request_of(step: Any) -> Request:
    """The request that a step sends."""
    parts = urlsplit(step["path"])
    words = parts.path.strip("/").split("/")
    group, version = ("", words[1]) if words[0] == "api" else (words[1], words[2])
    words = words[2:] if words[0] == "api" else words[3:]
    namespace = ""
    if words[0] == "namespaces" and len(words) > 2 and words[2] not in ("status", "finalize"):
        namespace, words = words[1], words[2:]
    resource, name, sub = (*words, "", "")[:3]
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    query.update(step.get("query") or {})
    verb = VERBS[step["method"]]
    if verb == "delete" and not name:
        verb = "deletecollection"
    return Request(
        verb,
        group,
        version,
        resource,
        namespace,
        name,
        sub,
        query=query,
        body=step.get("body"),
        content_type=step.get("contentType", JSON),
        user_agent="golden/1.0",
    )


class Conversation:
    """One case: its steps, and what stood whenever its namespace had settled."""

    def __init__(self, case: Any) -> None:
        self.case = case
        self.namespace: str = case["namespace"]
        self.settled: list[Any] = []
        self.refused: list[str] = []
        nodes = [_node(f"base-{number}") for number in range(3)]
        nodes += [
            _node(each["node"], each.get("labels"), each.get("taints"))
            for each in case.get("nodes", ())
        ]
        config = ClusterConfig(
            nodes=nodes, kubelets=False, heartbeats=False, enabled_controllers=("*",)
        )
        self.cluster = Cluster(config)
        self.cluster.user("fake-kubelet", lambda ctx: FakeKubelet(ctx).run())
        self.cluster.user("golden", self._user)

    def run(self) -> list[Any]:
        result = self.cluster.world.run("bare", until_ns=3_600 * SECOND)
        if result.verdict not in ("quiescent", "limit") and "virtual time" not in result.reason:
            raise AssertionError(result.reason)
        if self.refused:
            raise AssertionError("; ".join(self.refused))
        return self.settled

    async def _user(self, ctx: Context) -> None:
        client = Client(ctx)
        ctx.faults.delay(CONTROLLER_MANAGER, APISERVER, LATENCY_NS)
        await ctx.sleep(5 * SECOND)
        for step in self.case["steps"]:
            if step.get("settle"):
                await self._settle(ctx)
                self.settled.append(self._seen())
            elif "waitSeconds" in step:
                await ctx.sleep(round(step["waitSeconds"] * SECOND))
            else:
                await self._send(client, step)

    async def _send(self, client: Client, step: Any) -> None:
        try:
            await client.call(request_of(step))
        except ApiError as error:
            if step.get("status") != error.code:
                self.refused.append(f"{step['method']} {step['path']}: {error.code} {error}")
        else:
            if step.get("status", 200) >= 400:
                self.refused.append(f"{step['method']} {step['path']}: was not refused")

    async def _settle(self, ctx: Context) -> None:
        quiet, before = 0, self._picture()
        for _ in range(PATIENCE_S):
            await ctx.sleep(SECOND)
            now = self._picture()
            quiet = quiet + 1 if now == before else 0
            before = now
            if quiet >= (ENDING_QUIET_S if self._ends() else QUIET_S):
                return

    def _ends(self) -> bool:
        return any(
            obj.name == self.namespace and "deletionTimestamp" in obj.metadata
            for obj in self.cluster.objects("/registry/namespaces/")
        )

    def _objects(self) -> Iterable[tuple[str, Object[Any]]]:
        for kind, prefix in PREFIXES.items():
            for obj in self.cluster.objects(f"/registry/{prefix}/"):
                if self.namespace in (obj.namespace, obj.name) or obj.name.startswith(
                    f"{self.namespace}-"
                ):
                    yield kind, obj

    def _picture(self) -> list[tuple[str, int]]:
        return [(obj.uid, obj.resource_version) for _, obj in self._objects()]

    def _seen(self) -> Any:
        events = [
            obj.tree
            for obj in self.cluster.objects("/registry/events/")
            if obj.tree["involvedObject"].get("namespace") == self.namespace
        ]
        return {"objects": [obj.tree for _, obj in self._objects()], "events": events}


def _node(name: str, labels: Any = None, taints: Any = None) -> Any:
    tree = node_tree(name, cpu="16", memory="32Gi")
    tree["metadata"]["labels"] = {"kubernetes.io/hostname": name, **(labels or {})}
    if taints:
        tree["spec"] = {**tree.get("spec", {}), "taints": taints}
    return tree


RANDOM = re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])")
"""What the server appends to a generateName."""
