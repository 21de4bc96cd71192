"""The data of `tests.chaos.stalls`: objects and requests that ask for an absurd amount of work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import trio
from attrs import frozen

from tests.apiserver.http.session import Session

JSON = "application/json"
MERGE = "application/merge-patch+json"
CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
BATCH = "/apis/batch/v1/namespaces/default"

Sent: TypeAlias = tuple[str, str, Any, str]
Action: TypeAlias = Sent | Callable[[Session], Awaitable[int]]


@frozen
class Case:
    """`requests` are sent one after the other."""

    name: str
    requests: tuple[Action, ...]


def post(path: str, body: Any) -> Sent:
    """A creation."""
    return ("POST", path, body, JSON)


LABELS = {"app": "a"}
CONTAINER = {"name": "c", "image": "i"}


def template(**spec: Any) -> dict[str, Any]:
    """A template of a pod with one container."""
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER], **spec}}


def workload(
    name: str = "w", *, inner: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    return {"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": LABELS}, "template": template(**(inner or {})), **spec}}  # fmt: skip


def pod(name: str = "p", meta: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod with one container unless said otherwise."""
    return {"metadata": {"name": name, "labels": LABELS, **(meta or {})},
            "spec": {"containers": [CONTAINER], **spec}}  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _counts()
    yield from _pods()
    yield from _others()
    yield from _requests()


MILLION = 1_000_000


def _counts() -> Iterator[Case]:
    for policy in ("OrderedReady", "Parallel"):
        for size in (MILLION, 2**31 - 1):
            yield Case(f"StatefulSet {policy} of {size}", (post(f"{APPS}/statefulsets", workload(
                replicas=size, podManagementPolicy=policy, serviceName="s")),))  # fmt: skip
    yield Case("StatefulSet of a million, then deleted", (
        post(f"{APPS}/statefulsets", workload(replicas=MILLION, serviceName="s")),
        ("DELETE", f"{APPS}/statefulsets/w", {}, JSON)))  # fmt: skip
    for kind in ("deployments", "replicasets"):
        for size in (MILLION, 2**31 - 1):
            yield Case(f"{kind} of {size}", (post(f"{APPS}/{kind}", workload(replicas=size)),))
    yield Case("replicationcontrollers of a million", (post(f"{CORE}/replicationcontrollers", {
        "metadata": {"name": "w"}, "spec": {"replicas": MILLION, "selector": LABELS,
                                            "template": template()}}),))  # fmt: skip
    job = {"template": template(restartPolicy="Never")}
    for name, spec in {
        "Job of a million": {"completions": MILLION, "parallelism": MILLION},
        "Job of the largest": {"completions": 2**31 - 1, "parallelism": 2**31 - 1},
        "Job without completions": {"parallelism": MILLION},
        "indexed Job of 100,000": {"completions": 100_000, "parallelism": 100_000,
                                   "completionMode": "Indexed"},
        "indexed Job of the largest": {"completions": 2**31 - 1, "parallelism": 10,
                                       "completionMode": "Indexed"},
        "indexed Job with limits": {"completions": 100_000, "parallelism": 10_000,
            "completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 10_000},
    }.items():  # fmt: skip
        yield Case(
            name, (post(f"{BATCH}/jobs", {"metadata": {"name": "j"}, "spec": {**job, **spec}}),)
        )
    indexes = ",".join(f"{n}-{n + 1}" for n in range(0, 99_000, 3))
    for name, status in {
        "many completed indexes": {"completedIndexes": indexes},
        "all completed indexes": {"completedIndexes": "0-99998"},
        "backward indexes": {"completedIndexes": ",".join(str(n) for n in range(99_000, 0, -1))},
        "huge indexes": {"completedIndexes": "0-2147483646"},
        "failed indexes": {"failedIndexes": indexes, "completedIndexes": indexes},
        "uncounted": {"uncountedTerminatedPods": {"succeeded": [f"u{n}" for n in range(60_000)]}},
    }.items():  # fmt: skip
        body = {"metadata": {"name": "j"}, "spec": {**job, "completions": 100_000, "parallelism": 3,
                "completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 10_000}}  # fmt: skip
        yield Case(f"Job: {name}", (post(f"{BATCH}/jobs", body), (
            "PATCH", f"{BATCH}/jobs/j/status", {"status": status}, MERGE)))  # fmt: skip
    policy = {"rules": [{"succeededIndexes": indexes[:60_000], "succeededCount": 1}]}
    yield Case("Job: success policy", (post(f"{BATCH}/jobs", {"metadata": {"name": "j"}, "spec": {
        **job, "completions": 100_000, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": policy}}),))  # fmt: skip
    yield Case("CronJob of a missed century", (post(f"{BATCH}/cronjobs", {
        "metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {
            **job, "completions": MILLION, "parallelism": MILLION}}}}), (
        "PATCH", f"{BATCH}/cronjobs/c/status", {"status": {"lastScheduleTime": "1900-01-01T00:00:00Z"}},
        MERGE)))  # fmt: skip
    for schedule in ("0 0 30 2 *", "0 0 29 2 *", "59 23 31 12 *"):
        yield Case(f"CronJob at {schedule}", (post(f"{BATCH}/cronjobs", {
            "metadata": {"name": "c"}, "spec": {"schedule": schedule, "timeZone": "Europe/Berlin",
                "jobTemplate": {"spec": job}}}), (
            "PATCH", f"{BATCH}/cronjobs/c/status",
            {"status": {"lastScheduleTime": "1900-01-01T00:00:00Z"}}, MERGE)))  # fmt: skip
    yield Case("HPA of the largest", (
        post(f"{APPS}/deployments", workload(replicas=1)),
        post("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", {
            "metadata": {"name": "h"}, "spec": {"minReplicas": MILLION, "maxReplicas": 2**31 - 1,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}}})))  # fmt: skip
    yield Case("HPA of 20,000 metrics", (
        post(f"{APPS}/deployments", workload(replicas=1)),
        post("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", {
            "metadata": {"name": "h"}, "spec": {"minReplicas": 1, "maxReplicas": 5,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {
                    "type": "Utilization", "averageUtilization": n + 1}}} for n in range(20_000)],
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}}})))  # fmt: skip
    yield Case("DaemonSet of 40,000 tolerations", (post(f"{APPS}/daemonsets", workload(
        inner={"tolerations": _tolerations(10_000)})),))  # fmt: skip
    yield Case("StatefulSet of 5,000 claims", (post(f"{APPS}/statefulsets", workload(
        replicas=3, serviceName="s", volumeClaimTemplates=[{"metadata": {"name": f"v{n}"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
            for n in range(5_000)])),))  # fmt: skip
    yield Case("Deployment of a selector of 10,000", (post(f"{APPS}/deployments", workload(
        replicas=2, selector={"matchLabels": LABELS, "matchExpressions": [
            {"key": f"k{n}", "operator": "DoesNotExist"} for n in range(20_000)]})),))  # fmt: skip


def _tolerations(count: int) -> list[dict[str, Any]]:
    return [{"key": f"k{n}", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
            for n in range(count)]  # fmt: skip


def _pods() -> Iterator[Case]:
    path = f"{CORE}/pods"
    for count in (2_000, 8_000, 20_000):
        yield Case(f"pod of {count} containers", (post(path, pod(containers=[
            {"name": f"c{n}", "image": "i"} for n in range(count)])),))  # fmt: skip
    yield Case("pod of 8,000 init containers", (post(path, pod(initContainers=[
        {"name": f"i{n}", "image": "i"} for n in range(8_000)])),))  # fmt: skip
    yield Case("pod of 5,000 sidecars", (post(path, pod(initContainers=[
        {"name": f"i{n}", "image": "i", "restartPolicy": "Always"} for n in range(5_000)])),))  # fmt: skip
    yield Case("pod of 8,000 containers with probes", (post(path, pod(containers=[
        {"name": f"c{n}", "image": "i", "livenessProbe": {"httpGet": {"port": 1}},
         "readinessProbe": {"tcpSocket": {"port": 1}}} for n in range(8_000)])),))  # fmt: skip
    yield Case("pod of 8,000 containers, deleted", (post(path, pod(containers=[
        {"name": f"c{n}", "image": "i"} for n in range(8_000)])), (
            "DELETE", f"{path}/p", {}, JSON)))  # fmt: skip
    yield Case("pod of 5,000 containers with resources", (post(path, pod(containers=[
        {"name": f"c{n}", "image": "i", "resources": {
            "requests": {"cpu": "1m", "memory": "1Ki"}, "limits": {"cpu": "1m", "memory": "1Ki"}}}
        for n in range(5_000)])),))  # fmt: skip

    one = lambda **more: [{**CONTAINER, **more}]  # noqa: E731
    expression = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    term = {"matchExpressions": [expression]}
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
              "labelSelector": {"matchLabels": LABELS}}  # fmt: skip
    affinity = {"labelSelector": {"matchLabels": LABELS}}
    for name, spec in {
        "40,000 tolerations": {"tolerations": _tolerations(30_000)},
        "60,000 short tolerations": {"tolerations": [{"operator": "Exists"}] * 60_000},
        "40,000 variables": {"containers": one(env=[{"name": f"E{n}", "value": "v"} for n in range(40_000)])},
        "20,000 variables of fields": {"containers": one(env=[{"name": f"E{n}", "valueFrom": {
            "fieldRef": {"fieldPath": "metadata.name"}}} for n in range(20_000)])},
        "20,000 variables of maps": {"containers": one(envFrom=[
            {"configMapRef": {"name": f"m{n}", "optional": True}} for n in range(20_000)])},
        "10,000 variables of chained values": {"containers": one(env=[
            {"name": f"E{n}", "value": f"$(E{n - 1})$(E{n - 1})"} for n in range(10_000)])},
        "40,000 ports": {"containers": one(ports=[{"containerPort": n + 1} for n in range(40_000)])},
        "30,000 host ports": {"containers": one(ports=[
            {"containerPort": 80, "hostPort": n + 1} for n in range(30_000)])},
        "20,000 mounts": {"volumes": [{"name": "v", "emptyDir": {}}], "containers": one(volumeMounts=[
            {"name": "v", "mountPath": f"/m{n}"} for n in range(20_000)])},
        "20,000 volumes": {"volumes": [{"name": f"v{n}", "emptyDir": {}} for n in range(20_000)]},
        "20,000 volumes of maps": {"volumes": [
            {"name": f"v{n}", "configMap": {"name": "m", "optional": True}} for n in range(20_000)]},
        "20,000 volumes of claims": {"volumes": [
            {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"m{n}"}} for n in range(20_000)]},
        "20,000 inline volumes": {"volumes": [
            {"name": f"v{n}", "csi": {"driver": "d.io"}} for n in range(20_000)]},
        "20,000 ephemeral claims": {"volumes": [{"name": f"v{n}", "ephemeral": {"volumeClaimTemplate": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}
            for n in range(10_000)]},
        "20,000 node terms": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * 20_000}}}},
        "30,000 match expressions": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [expression] * 30_000}]}}}},
        "one expression of 100,000 values": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": [
                    f"v{n}" for n in range(100_000)]}]}]}}}},
        "20,000 preferred node terms": {"affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": term}] * 20_000}}},
        "10,000 pod affinity terms": {"affinity": {"podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {
                **affinity, "topologyKey": f"k{n}"}} for n in range(10_000)]}}},
        "10,000 pod anti affinity terms": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {**affinity, "topologyKey": f"k{n}"} for n in range(10_000)]}}},
        "20,000 spread constraints": {"topologySpreadConstraints": [
            {**spread, "topologyKey": f"k{n}"} for n in range(15_000)]},
        "20,000 soft spread constraints": {"topologySpreadConstraints": [
            {**spread, "topologyKey": f"k{n}", "whenUnsatisfiable": "ScheduleAnyway"}
            for n in range(15_000)]},
        "40,000 scheduling gates": {"schedulingGates": [{"name": f"a.io/{n}"} for n in range(40_000)]},
        "40,000 readiness gates": {"readinessGates": [{"conditionType": f"a.io/{n}"} for n in range(40_000)]},
        "40,000 node selectors": {"nodeSelector": {f"k{n}": "v" for n in range(40_000)}},
        "20,000 host aliases": {"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}] * 20_000},
        "40,000 pull secrets": {"imagePullSecrets": [{"name": f"s{n}"} for n in range(40_000)]},
        "20,000 extended resources": {"containers": one(resources={"limits": {
            f"a.io/r{n}": "1" for n in range(20_000)}})},
        "20,000 overhead": {"containers": one(resources={"requests": {
            f"a.io/r{n}": "1" for n in range(10_000)}, "limits": {
            f"a.io/r{n}": "1" for n in range(10_000)}})},
        "20,000 resource claims": {"resourceClaims": [
            {"name": f"c{n}", "resourceClaimName": f"r{n}"} for n in range(20_000)]},
        "a megabyte of arguments": {"containers": one(args=["$(A)" * 10] * 50_000, env=[
            {"name": "A", "value": "v" * 1000}])},
    }.items():  # fmt: skip
        yield Case(f"pod: {name}", (post(path, pod(**spec)),))
    meta = {"finalizers": [f"a.io/{n}" for n in range(60_000)]}
    yield Case("pod: 60,000 finalizers", (post(path, pod(meta=meta)), (
        "DELETE", f"{path}/p", {}, JSON)))  # fmt: skip
    for what in ("labels", "annotations"):
        yield Case(f"pod: 80,000 {what}", (post(path, pod(meta={what: {
            f"k{n}": "v" for n in range(80_000)}})),))  # fmt: skip
    status: dict[str, Any] = {
        "conditions": {"conditions": [{"type": f"t{n}", "status": "True"} for n in range(40_000)]},
        "container statuses": {"containerStatuses": [{"name": f"c{n}", "image": "i", "imageID": "",
            "ready": True, "restartCount": 1, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
            for n in range(15_000)]},
        "addresses": {"podIPs": [{"ip": f"10.0.{n >> 8 & 255}.{n & 255}"} for n in range(40_000)],
                      "podIP": "10.0.0.0"},
        "resource claim statuses": {"resourceClaimStatuses": [{"name": f"c{n}"} for n in range(30_000)]},
    }  # fmt: skip
    for name, told in status.items():
        yield Case(f"pod status: {name}", (post(path, pod()), (
            "PATCH", f"{path}/p/status", {"status": told}, MERGE)))  # fmt: skip
        yield Case(f"pod status without a node: {name}", (post(path, pod(schedulingGates=[{"name": "a"}])), (
            "PATCH", f"{path}/p/status", {"status": told}, MERGE)))  # fmt: skip


def _others() -> Iterator[Case]:
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": f"u{n}"} for n in range(30_000)
    ]
    yield Case("30,000 owners", (post(f"{CORE}/configmaps", {
        "metadata": {"name": "m", "ownerReferences": owners}}),))  # fmt: skip
    yield Case("30,000 owners, blocking", (post(f"{CORE}/pods", pod("a")), post(f"{CORE}/configmaps", {
        "metadata": {"name": "m", "ownerReferences": [
            {**each, "blockOwnerDeletion": True} for each in owners]}})))  # fmt: skip
    yield Case("30,000 owners of unknown kinds", (post(f"{CORE}/configmaps", {
        "metadata": {"name": "m", "ownerReferences": [
            {**each, "apiVersion": f"x{n}.io/v1"} for n, each in enumerate(owners)]}}),))  # fmt: skip
    yield Case(
        "30,000 owners of a pod", (post(f"{CORE}/pods", pod(meta={"ownerReferences": owners})),)
    )
    taints = [{"key": f"k{n}", "value": "v", "effect": "NoExecute"} for n in range(30_000)]
    node = {"metadata": {"name": "n", "annotations": {"kwok.x-k8s.io/node": "fake"}}}
    for name, spec, status in (
        ("30,000 taints", {"taints": taints}, {}),
        ("30,000 conditions", {}, {"conditions": [
            {"type": f"t{n}", "status": "True"} for n in range(30_000)]}),
        ("30,000 images", {}, {"images": [{"names": [f"i{n}"], "sizeBytes": 1} for n in range(30_000)]}),
        ("30,000 addresses", {}, {"addresses": [
            {"type": "InternalIP", "address": f"a{n}"} for n in range(30_000)]}),
        ("30,000 resources", {}, {"allocatable": {f"a.io/{n}": "1" for n in range(30_000)},
                                  "capacity": {f"a.io/{n}": "1" for n in range(30_000)}}),
        ("30,000 volumes in use", {}, {"volumesInUse": [f"v{n}" for n in range(30_000)],
            "volumesAttached": [{"name": f"v{n}", "devicePath": ""} for n in range(30_000)]}),
    ):  # fmt: skip
        yield Case(f"node: {name}", (
            post("/api/v1/nodes", {**node, "spec": spec, "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}, **status}}),
            post(f"{CORE}/pods", pod())))  # fmt: skip
    yield Case("node: 20,000 taints, 20,000 tolerations", (
        post("/api/v1/nodes", {**node, "spec": {"taints": [
            {**each, "effect": "NoSchedule"} for each in taints[:20_000]]}}),
        post(f"{CORE}/pods", pod(tolerations=_tolerations(20_000)))))  # fmt: skip
    yield Case("node: 30,000 labels", (post("/api/v1/nodes", {"metadata": {"name": "n", "labels": {
        f"k{n}": "v" for n in range(30_000)}}}), post(f"{CORE}/pods", pod())))  # fmt: skip
    ports = [{"name": f"p{n}", "port": n + 1, "targetPort": n + 1} for n in range(30_000)]
    yield Case("Service of 30,000 ports", (post(f"{CORE}/pods", pod()), post(f"{CORE}/services", {
        "metadata": {"name": "s"}, "spec": {"selector": LABELS, "ports": ports}})))  # fmt: skip
    yield Case("Service of 20,000 named target ports", (
        post(f"{CORE}/pods", pod(containers=[{**CONTAINER, "ports": [
            {"name": f"p{n}", "containerPort": n + 1} for n in range(20_000)]}])),
        post(f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {"selector": LABELS, "ports": [
            {"name": f"p{n}", "port": n + 1, "targetPort": f"p{n}"} for n in range(20_000)]}})))  # fmt: skip
    for count in (2_000,):
        yield Case(f"{count} named target ports of {count} named ports", (
            post(f"{CORE}/pods", pod(containers=[{**CONTAINER, "ports": [
                {"name": f"p{n}", "containerPort": n + 1} for n in range(count)]}])),
            post(f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {"selector": LABELS, "ports": [
                {"name": f"p{n}", "port": n + 1, "targetPort": f"p{n}"} for n in range(count)]}})))  # fmt: skip
    addresses = [{"ip": f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"} for n in range(50_000)]
    yield Case("Endpoints of 50,000 addresses", (
        post(f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}),
        post(f"{CORE}/endpoints", {"metadata": {"name": "s"}, "subsets": [
            {"addresses": addresses, "ports": [{"port": 1}]}]})))  # fmt: skip
    yield Case("Endpoints of 10,000 subsets", (
        post(f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}),
        post(f"{CORE}/endpoints", {"metadata": {"name": "s"}, "subsets": [
            {"addresses": [each], "ports": [{"port": 1 + n, "name": f"p{n}"}]}
            for n, each in enumerate(addresses[:20_000])]})))  # fmt: skip
    yield Case("Endpoints of 30,000 ports", (
        post(f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}),
        post(f"{CORE}/endpoints", {"metadata": {"name": "s"}, "subsets": [
            {"addresses": addresses[:50], "ports": [
                {"port": 1 + n, "name": f"p{n}"} for n in range(30_000)]}]})))  # fmt: skip
    yield Case("PodDisruptionBudget of 30,000 expressions", (
        post(f"{CORE}/pods", pod()),
        post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": {
            "minAvailable": 1, "selector": {"matchExpressions": [
                {"key": f"k{n}", "operator": "DoesNotExist"} for n in range(30_000)]}}})))  # fmt: skip
    yield Case("PodDisruptionBudget of 60,000 disrupted pods", (
        post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": {
            "minAvailable": 1, "selector": {}}}), (
            "PATCH", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b/status", {"status": {
                "disruptedPods": {f"p{n}": "2026-01-01T00:00:00Z" for n in range(60_000)}}}, MERGE)))  # fmt: skip
    yield Case("ResourceQuota of 60,000 resources", (
        post(f"{CORE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {
            f"count/r{n}.x.io": "1" for n in range(60_000)}}}),
        post(f"{CORE}/pods", pod())))  # fmt: skip
    yield Case("LimitRange of 20,000 limits", (
        post(f"{CORE}/limitranges", {"metadata": {"name": "q"}, "spec": {"limits": [
            {"type": "Pod", "max": {f"r{n}.io/a": "1"}} for n in range(20_000)]}}),
        post(f"{CORE}/pods", pod())))  # fmt: skip
    yield Case("ClusterRole of 20,000 rules", (
        post("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "r", "labels": {
            "rbac.authorization.k8s.io/aggregate-to-admin": "true"}}, "rules": [
                {"apiGroups": [""], "resources": [f"r{n}"], "verbs": ["get"]} for n in range(20_000)]}),))  # fmt: skip
    yield Case("ClusterRole of 20,000 aggregations", (
        post("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "r"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": str(n)}}
                                                         for n in range(20_000)]}, "rules": []}),))  # fmt: skip
    yield Case("namespace of 60,000 finalizers", (
        post("/api/v1/namespaces", {"metadata": {"name": "x", "finalizers": [
            f"a.io/{n}" for n in range(60_000)]}}), ("DELETE", "/api/v1/namespaces/x", {}, JSON)))  # fmt: skip
    yield Case("volume of 20,000 node terms", (
        post("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/a"},
            "storageClassName": "x", "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "In", "values": [str(n)]}]}
                for n in range(20_000)]}}}}),
        post(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": {
            "storageClassName": "x", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}),
        post(f"{CORE}/pods", pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))))  # fmt: skip
    many = [{"name": f"p{n}", "port": n + 1} for n in range(20_000)]
    slices = {"metadata": {"name": "e", "labels": {"kubernetes.io/service-name": "s"}},
              "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": many}  # fmt: skip
    yield Case("EndpointSlice of 20,000 ports", (
        post(f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {"selector": LABELS, "ports": [{"port": 1}]}}),
        post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slices)))  # fmt: skip
    yield Case("a set of 20,000 entries of a status", (
        post(f"{APPS}/deployments", workload(replicas=1)), (
            "PATCH", f"{APPS}/deployments/w/status", {"status": {"conditions": [
                {"type": f"t{n}", "status": "True"} for n in range(20_000)]}}, MERGE)))  # fmt: skip


def _requests() -> Iterator[Case]:
    """Requests about a pod that runs: its log, and programs in it."""
    every = {"emulate.controlplane/log-seconds": "0.01"}
    for name, text in {
        "one long line": "x" * 200_000,
        "names": "{pod}" * 1_000,
        "100,000 lines": "x\n" * 100_000,
        "numbers": "{n}" * 60_000,
    }.items():
        notes = {**every, "emulate.controlplane/log": text}
        for query in ("", "?tailLines=5", "?limitBytes=10", "?timestamps=true&sinceSeconds=100000"):
            yield Case(f"log: {name} {query}", (
                post(f"{CORE}/pods", pod("p" * 200, meta={"annotations": notes})), _running("p" * 200),
                ("GET", f"{CORE}/pods/{'p' * 200}/log{query}", b"", JSON)))  # fmt: skip
    scripts = {
        "cat of 4,000 files": "cat" + " /none" * 4_000 + "\n",
        "pipeline of 30 MB": "echo " + "x" * 9_000 + " > /f\ncat" + " /f" * 3_500 + " > /g\ncat /g" + " | cat" * 900,
        "many words": ("echo" + " $HOSTNAME" * 4_000 + "\n") * 5,
    }  # fmt: skip
    for name, script in scripts.items():
        yield Case(f"exec: {name}", (
            post(f"{CORE}/pods", pod()), _running("p"), _executed("p", script)))  # fmt: skip


def _running(name: str) -> Callable[[Session], Awaitable[int]]:
    async def wait(session: Session) -> int:
        with trio.move_on_after(20):
            while (await session.ask("GET", f"{CORE}/pods/{name}/log?limitBytes=1")).code != 200:
                await trio.sleep(0.05)
            session.pace.step(100 * 10**9)
            while not session.pace.paused:
                await trio.sleep(0.01)
            session.pace.resume()
            return 200
        return 0

    return wait


def _executed(name: str, script: str) -> Callable[[Session], Awaitable[int]]:
    async def send(session: Session) -> int:
        from wsproto.connection import Connection, ConnectionType
        from wsproto.events import BytesMessage

        socket = Connection(ConnectionType.CLIENT)
        head = (
            f"GET {CORE}/pods/{name}/exec?command=sh&stdin=true&stdout=true&stderr=true HTTP/1.1\r\n"
            "Host: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
        )
        messages = (b"\x00" + script.encode(), b"\xff\x00")
        data = b"".join(socket.send(BytesMessage(each)) for each in messages)
        stream = await session.connect()
        async with stream:
            await stream.send_all(head.encode())
            first = await stream.receive_some(4096)
            await stream.send_all(data)
            with trio.move_on_after(20):
                while await stream.receive_some(1 << 20):
                    pass
        return int(first.split()[1])

    return send
