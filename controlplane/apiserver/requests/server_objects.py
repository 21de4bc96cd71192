"""Objects of a running API server besides those that every cluster needs.

Flow schemas and priority levels, API services, the service range, endpoints of the service
`kubernetes`, the server's identity and the day since which legacy tokens are watched. A server
under `serve` has them; nothing here acts on them. Upstream: apiserver pkg/apis/flowcontrol/bootstrap,
pkg/controlplane (apiserver, reconcilers, controller), kube-aggregator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from attrs import frozen

from controlplane.api.request import Request
from controlplane.api.times import format_micro_time, format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.apiregistration.api_services import local_available
from controlplane.apiserver.kinds.core.service_addresses import SERVICE_RANGE
from controlplane.apiserver.kinds.strategy import Lookup

__all__ = ["HOST", "missing", "registrations", "withdrawals"]

HOST: Final = "172.16.255.254"
"""The emulated address of the API servers."""
_FLOW: Final = "flowcontrol.apiserver.k8s.io"
_SYSTEM: Final = "kube-system"
_SPONTANEOUS: Final = {"apf.kubernetes.io/autoupdate-spec": "true"}
_ANYBODY: Final = ("Group system:unauthenticated", "Group system:authenticated")
_MANAGER: Final = "User system:kube-controller-manager"
_ALL_SYSTEM_ACCOUNTS: Final = "ServiceAccount *"


@frozen
class _Level:
    shares: int
    lendable: int
    queues: tuple[int, int, int] | None = None
    """Queues, hand size and queue length; None: what does not fit is rejected."""


_LEVELS: Final = {
    "catch-all": _Level(5, 0),
    "global-default": _Level(20, 50, (128, 6, 50)),
    "leader-election": _Level(10, 0, (16, 4, 50)),
    "node-high": _Level(40, 25, (64, 6, 50)),
    "system": _Level(30, 33, (64, 6, 50)),
    "workload-high": _Level(40, 50, (128, 6, 50)),
    "workload-low": _Level(100, 90, (128, 6, 50)),
}
_EVERY: Final[list[Tree]] = [
    {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    },
]
_EVERY_PATH: Final[list[Tree]] = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
_LEASES: Final[list[Tree]] = [
    {
        "verbs": ["get", "create", "update"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": ["*"],
    },
]


@frozen
class _Flow:
    """A flow schema: the users it matches, and their requests if rules restrict them."""

    level: str
    precedence: int
    by: str
    subjects: tuple[str, ...]
    rules: list[Tree] | None = None
    paths: list[Tree] | None = None


_FLOWS: Final = {
    "exempt": _Flow("exempt", 1, "", ("Group system:masters",)),
    "probes": _Flow(
        "exempt",
        2,
        "",
        _ANYBODY,
        [],
        [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
    ),
    "system-leader-election": _Flow(
        "leader-election",
        100,
        "ByUser",
        (_MANAGER, "User system:kube-scheduler", _ALL_SYSTEM_ACCOUNTS),
        _LEASES,
    ),
    "endpoint-controller": _Flow(
        "workload-high",
        150,
        "ByUser",
        (
            _MANAGER,
            "ServiceAccount endpoint-controller",
            "ServiceAccount endpointslicemirroring-controller",
        ),
        [
            {
                "verbs": ["get", "create", "update"],
                "apiGroups": [""],
                "resources": ["endpoints"],
                "namespaces": ["*"],
            }
        ],
    ),
    "workload-leader-election": _Flow(
        "leader-election",
        200,
        "ByUser",
        (_ALL_SYSTEM_ACCOUNTS,),
        _LEASES,
    ),
    "system-node-high": _Flow(
        "node-high",
        400,
        "ByUser",
        ("Group system:nodes",),
        [
            {
                "verbs": ["*"],
                "apiGroups": [""],
                "resources": ["nodes", "nodes/status"],
                "clusterScope": True,
                "namespaces": ["*"],
            },
            {
                "verbs": ["*"],
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "namespaces": ["*"],
            },
        ],
    ),
    "system-nodes": _Flow("system", 500, "ByUser", ("Group system:nodes",)),
    "kube-controller-manager": _Flow("workload-high", 800, "ByNamespace", (_MANAGER,)),
    "kube-scheduler": _Flow("workload-high", 800, "ByNamespace", ("User system:kube-scheduler",)),
    "kube-system-service-accounts": _Flow(
        "workload-high",
        900,
        "ByNamespace",
        (_ALL_SYSTEM_ACCOUNTS,),
    ),
    "service-accounts": _Flow("workload-low", 9000, "ByUser", ("Group system:serviceaccounts",)),
    "global-default": _Flow("global-default", 9900, "ByUser", _ANYBODY),
    "catch-all": _Flow("catch-all", 10_000, "ByUser", _ANYBODY),
}
# Minimum priority of the groups of the aggregated API, and those of versions that are not 15.
_GROUPS: Final = {
    "": 18_000,
    "apps": 17_800,
    "events.k8s.io": 17_750,
    "authentication.k8s.io": 17_700,
    "authorization.k8s.io": 17_600,
    "autoscaling": 17_500,
    "batch": 17_400,
    "certificates.k8s.io": 17_300,
    "networking.k8s.io": 17_200,
    "policy": 17_100,
    "rbac.authorization.k8s.io": 17_000,
    "storage.k8s.io": 16_800,
    "apiextensions.k8s.io": 16_700,
    "admissionregistration.k8s.io": 16_700,
    "scheduling.k8s.io": 16_600,
    "coordination.k8s.io": 16_500,
    "node.k8s.io": 16_300,
    "discovery.k8s.io": 16_200,
    _FLOW: 16_100,
    "internal.apiserver.k8s.io": 16_000,
    "resource.k8s.io": 15_900,
}
_VERSIONS: Final = {("", "v1"): 1, ("autoscaling", "v2"): 30, (_FLOW, "v1"): 21}


def _flow_control() -> Iterator[Request]:
    def made(resource: str, name: str, spec: Tree) -> Request:
        body = {"metadata": {"name": name, "annotations": _SPONTANEOUS}, "spec": spec}
        return Request("create", _FLOW, "v1", resource, body=body)

    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    yield made("prioritylevelconfigurations", "exempt", {"type": "Exempt", "exempt": exempt})
    for name, level in _LEVELS.items():
        response: Tree = {"type": "Reject"}
        if level.queues is not None:
            keys = ("queues", "handSize", "queueLengthLimit")
            response = {
                "type": "Queue",
                "queuing": dict(zip(keys, level.queues, strict=True)),
            }
        limited = {
            "nominalConcurrencyShares": level.shares,
            "lendablePercent": level.lendable,
            "limitResponse": response,
        }
        spec: Tree = {"type": "Limited", "limited": limited}
        yield made("prioritylevelconfigurations", name, spec)
    for name, flow in _FLOWS.items():
        rule: Tree = {"subjects": [_subject(each) for each in flow.subjects]}
        rule["resourceRules"] = _EVERY if flow.rules is None else flow.rules
        if flow.rules is None or flow.paths:
            rule["nonResourceRules"] = flow.paths or _EVERY_PATH
        spec = {
            "matchingPrecedence": flow.precedence,
            "priorityLevelConfiguration": {"name": flow.level},
            "rules": [rule],
        }
        if flow.by:
            spec["distinguisherMethod"] = {"type": flow.by}
        yield made("flowschemas", name, spec)


def _subject(text: str) -> Tree:
    kind, _, name = text.partition(" ")
    told: Tree = {"name": name}
    if kind == "ServiceAccount":
        told["namespace"] = _SYSTEM
    return {"kind": kind, kind[0].lower() + kind[1:]: told}


def _api_services(served: Iterable[tuple[str, str]], at: str) -> Iterator[Request]:
    available = local_available(at)
    group = "apiregistration.k8s.io"
    for name, version in served:
        if name not in _GROUPS:
            continue
        meta = {
            "name": f"{version}.{name}",
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
        }
        spec: Tree = {
            "group": name,
            "version": version,
            "groupPriorityMinimum": _GROUPS[name],
            "versionPriority": _VERSIONS.get((name, version), 15),
        }
        body: Tree = {"metadata": meta, "spec": spec}
        yield Request("create", group, "v1", "apiservices", body=body)
        yield _status(group, "apiservices", meta["name"], [available])


def registrations(versions: Iterable[tuple[str, str]], now: int) -> Iterator[Request]:
    """Yield the requests that create the API services of these groups and versions of custom resources."""
    group = "apiregistration.k8s.io"
    for name, version in sorted(versions):
        meta = {
            "name": f"{version}.{name}",
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "true"},
        }
        spec: Tree = {
            "group": name,
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 100,
        }
        body: Tree = {"metadata": meta, "spec": spec}
        yield Request("create", group, "v1", "apiservices", body=body)
        yield _status(group, "apiservices", meta["name"], [local_available(format_time(now))])


def withdrawals(versions: Iterable[tuple[str, str]]) -> Iterator[Request]:
    """Yield the requests that delete them again."""
    for name, version in sorted(versions):
        yield Request(
            "delete", "apiregistration.k8s.io", "v1", "apiservices", name=f"{version}.{name}"
        )


def _status(group: str, resource: str, name: Any, conditions: list[Tree]) -> Request:
    patch = {"status": {"conditions": conditions}}
    return Request(
        "patch",
        group,
        "v1",
        resource,
        name=name,
        subresource="status",
        body=patch,
        content_type="application/merge-patch+json",
    )


def _network(at: str) -> Iterator[Request]:
    group = "networking.k8s.io"
    ranges = {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [str(SERVICE_RANGE)]}}
    yield Request("create", group, "v1", "servicecidrs", body=ranges)
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": at,
        "reason": "",
        "message": "Kubernetes Service CIDR is ready",
    }
    yield _status(group, "servicecidrs", "kubernetes", [ready])
    port: Tree = {"name": "https", "port": 6443, "protocol": "TCP"}
    endpoints = {
        "metadata": {
            "name": "kubernetes",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": HOST}], "ports": [port]}],
    }
    yield Request("create", "", "v1", "endpoints", "default", body=endpoints)
    slices = {
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [HOST], "conditions": {"ready": True}}],
        "ports": [port],
    }
    yield Request("create", "discovery.k8s.io", "v1", "endpointslices", "default", body=slices)


def _identity(servers: Iterable[str], now: int) -> Iterator[Request]:
    for name in servers:
        told = sha256(name.encode()).hexdigest()[:26]
        meta = {
            "name": f"apiserver-{told}",
            "labels": {
                "apiserver.kubernetes.io/identity": "kube-apiserver",
                "kubernetes.io/hostname": name,
            },
        }
        spec = {
            "holderIdentity": f"apiserver-{told}_{name}",
            "leaseDurationSeconds": 3600,
            "renewTime": format_micro_time(now),
        }
        body: Tree = {"metadata": meta, "spec": spec}
        yield Request("create", "coordination.k8s.io", "v1", "leases", _SYSTEM, body=body)
    for name, data in (
        (
            "kube-apiserver-legacy-service-account-token-tracking",
            {"since": format_time(now).partition("T")[0]},
        ),
        ("extension-apiserver-authentication", {}),
    ):
        body = {"metadata": {"name": name}, "data": data}
        yield Request("create", "", "v1", "configmaps", _SYSTEM, body=body)


def missing(
    lookup: Lookup, served: Iterable[tuple[str, str]], servers: Iterable[str], now: int
) -> Iterator[Request]:
    """Yield the requests that create each missing object, and those that then set its status.

    `served` are groups and versions in discovery order, `servers` names of the API servers.
    """
    at = format_time(now)
    missed = False
    for request in (
        *_flow_control(),
        *_api_services(served, at),
        *_network(at),
        *_identity(servers, now),
    ):
        if request.verb == "create":
            name = request.body["metadata"]["name"]
            found = lookup.get(request.group, request.resource, request.namespace, name)
            missed = found is None
        if missed:
            yield request
