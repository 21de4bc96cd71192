"""The usage of an object under a ResourceQuota, and the quotas that count it. Upstream: pkg/quota/v1/evaluator/core.

Shared by the admission that charges quotas and the controller that counts anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import Options, pod_limits, pod_requests
from controlplane.api.quantity import Quantity, parse
from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree

Amounts = dict[str, Quantity]

ZERO: Final = parse("0")
COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
COUNTED: Final = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets",
    "services",
)  # fmt: skip
"""Core resources that quotas also know by their bare names."""
_HUGE_PAGES: Final = "hugepages-"
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_CLASS: Final = ".storageclass.storage.k8s.io/"
_OF_PODS: Final = frozenset(
    (
        "pods",
        *COMPUTE,
        *(f"requests.{name}" for name in COMPUTE),
        *(f"limits.{name}" for name in COMPUTE),
    )
)
_OF_CLAIMS: Final = ("persistentvolumeclaims", "requests.storage")
_OF_SERVICES: Final = ("services", "services.nodeports", "services.loadbalancers")
_STATUS: Final = Options(use_status=True, pod_level_status=True)


def amounts(texts: Tree | None) -> Amounts:
    """Quantities from their texts."""
    return {name: parse(str(text)) for name, text in (texts or {}).items()}


def added(total: Amounts, more: Mapping[str, Quantity]) -> Amounts:
    """The sum of two usages."""
    found = dict(total)
    for name, amount in more.items():
        found[name] = found[name].add(amount) if name in found else amount
    return found


def _one(*names: str) -> Amounts:
    return {name: Quantity.new(1) for name in names}


def compute_usage(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> Amounts:
    """Return the usage of requests and limits; extended resources count by their requests only."""
    usage: Amounts = {}
    for name, amount in requests.items():
        if name in COMPUTE or name.startswith(_HUGE_PAGES):
            usage[name] = amount
            usage[f"requests.{name}"] = amount
        elif is_extended(name):
            usage[f"requests.{name}"] = amount
    for name, amount in limits.items():
        if name in COMPUTE:
            usage[f"limits.{name}"] = amount
    return usage


def is_extended(name: str) -> bool:
    """Return whether a resource is an extended one: its domain is not one of Kubernetes itself."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not domain.endswith("kubernetes.io") and not name.startswith("requests.")


def counts(pod: Tree, now: int) -> bool:
    """Return whether a pod still uses anything: neither finished nor past its grace period. `now` in nanoseconds."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return False
    metadata = pod["metadata"]
    deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if deleted is None or grace is None:
        return True
    return bool(now <= parse_time(deleted) + int(grace) * SECOND)


def pod_usage(tree: Tree, now: int = 0) -> Amounts:
    """A pod's usage; in-place resizes count with what was allocated and actuated."""
    usage = _one("count/pods")
    if counts(tree, now):
        pod = Pod.from_tree(tree)
        usage["pods"] = Quantity.new(1)
        usage.update(compute_usage(pod_requests(pod, _STATUS), pod_limits(pod, _STATUS)))
    return usage


def service_usage(tree: Tree) -> Amounts:
    """A service's usage; node ports may be many."""
    usage = _one("services", "count/services")
    spec = tree["spec"]
    ports = list(spec.get("ports") or ())
    kind = spec.get("type", "ClusterIP")
    usage["services.nodeports"] = usage["services.loadbalancers"] = ZERO
    if kind == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        usage["services.loadbalancers"] = Quantity.new(1)
    if kind in ("LoadBalancer", "NodePort"):
        usage["services.nodeports"] = Quantity.new(len(ports))
    return usage


def claim_usage(tree: Tree) -> Amounts:
    """A claim's usage: what it asks for, or has been allocated if that is more."""
    usage = _one("persistentvolumeclaims", "count/persistentvolumeclaims")
    spec = tree["spec"]
    amount = amounts((spec.get("resources") or {}).get("requests")).get("storage")
    annotations = tree["metadata"].get("annotations") or {}
    name = annotations.get(BETA_CLASS, spec.get("storageClassName"))
    prefix = f"{name}{_CLASS}"
    if name:
        usage[f"{prefix}persistentvolumeclaims"] = Quantity.new(1)
    if amount is None:
        return usage
    allocated = amounts((tree.get("status") or {}).get("allocatedResources")).get("storage", ZERO)
    amount = allocated if amount.cmp(allocated) < 0 else amount
    usage["requests.storage"] = amount
    if name:
        usage[f"{prefix}requests.storage"] = amount
    return usage


def usage_of(group: str, resource: str, tree: Tree, now: int = 0) -> Amounts:
    """Return the usage of an object of this resource."""
    if not group:
        if resource == "pods":
            return pod_usage(tree, now)
        if resource == "services":
            return service_usage(tree)
        if resource == "persistentvolumeclaims":
            return claim_usage(tree)
        if resource in COUNTED:
            return _one(f"count/{resource}", resource)
    return _one(f"count/{resource}.{group}" if group else f"count/{resource}")


def tracked(group: str, resource: str, names: Iterable[str]) -> list[str]:
    """The names among those a quota limits of which objects of this resource use something."""
    own = f"count/{resource}.{group}" if group else f"count/{resource}"
    return [name for name in names if name == own or (not group and _tracks(resource, name))]


def _tracks(resource: str, name: str) -> bool:
    if resource == "pods":
        bare = name.removeprefix("requests.")
        return (
            name in _OF_PODS or bare.startswith(_HUGE_PAGES) or (bare != name and is_extended(bare))
        )
    if resource == "persistentvolumeclaims":
        return name in _OF_CLAIMS or any(name.endswith(f"{_CLASS}{each}") for each in _OF_CLAIMS)
    if resource == "services":
        return name in _OF_SERVICES
    return resource in COUNTED and name == resource


# ------------------------------------------------------------------ scopes


def scopes_of(spec: Tree) -> list[Tree]:
    """A quota's scopes and the expressions of its scope selector, as expressions."""
    named = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*named, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def in_scope(group: str, resource: str, spec: Tree, tree: Tree) -> bool:
    """Return whether a quota's scopes cover an object; of pods there are several, of claims one."""
    wanted = scopes_of(spec)
    if not wanted:
        return True
    if group:
        return False
    if resource == "pods":
        return all(_pod_matches(scope, tree) for scope in wanted)
    if resource == "persistentvolumeclaims":
        return all(_claim_matches(scope, tree) for scope in wanted)
    return False


def _selects(scope: Tree, value: str) -> bool:
    operator, values = scope.get("operator"), scope.get("values") or ()
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    return bool(value) is (operator == "Exists")


def _claim_matches(scope: Tree, claim: Tree) -> bool:
    if scope["scopeName"] != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    names = {
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    given = sorted(name for name in names if name)
    if scope.get("operator") in ("In", "Exists"):
        return any(_selects(scope, name) for name in given)
    return all(_selects(scope, name) for name in given or [""])


def _pod_matches(scope: Tree, pod: Tree) -> bool:
    spec = pod["spec"]
    name = scope["scopeName"]
    if name in ("Terminating", "NotTerminating"):
        seconds = spec.get("activeDeadlineSeconds")
        return (seconds is not None and seconds >= 0) is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return _is_best_effort(spec) is (name == "BestEffort")
    if name == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec.get("affinity") or {})
    if name != "PriorityClass":
        return False
    return _selects(scope, spec.get("priorityClassName", ""))


def _is_best_effort(spec: Tree) -> bool:
    parts = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return not any(
        not amount.is_zero()
        for part in parts
        for key in ("requests", "limits")
        for name, amount in amounts((part.get("resources") or {}).get(key)).items()
        if name in ("cpu", "memory")
    )


def _crosses_namespaces(affinity: Tree) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind) or {}
        terms = list(part.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        terms += [
            weighted["podAffinityTerm"]
            for weighted in part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ]
        if any(
            term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms
        ):
            return True
    return False
