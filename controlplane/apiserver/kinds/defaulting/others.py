"""Defaults of the remaining built-in kinds. Upstream: pkg/apis/*/v1/defaults.go."""

from __future__ import annotations

import base64
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.defaulting.pods import (
    default_template,
    default_volume_source,
    each,
    filled,
    inside,
    resource_list,
    resources,
)

_RBAC = "rbac.authorization.k8s.io"


def _spec(tree: Tree, change: Any) -> Tree:
    return inside(tree, "spec", change)


def default_namespace(tree: Tree) -> Tree:
    """The label with the namespace's own name."""
    status = tree.get("status")
    if status is not None and not status.get("phase"):
        tree = {**tree, "status": {**status, "phase": "Active"}}
    meta = tree["metadata"]
    name = meta.get("name")
    labels = meta.get("labels", {})
    if not name or labels.get("kubernetes.io/metadata.name") == name:
        return tree
    labels = {**labels, "kubernetes.io/metadata.name": name}
    return {**tree, "metadata": {**meta, "labels": labels}}


def default_node(tree: Tree) -> Tree:
    """Default a node: the allocatable resources follow the capacity."""

    def status(status: Tree) -> Tree:
        if "config" in status:
            status = {key: value for key, value in status.items() if key != "config"}
        status = inside(inside(status, "capacity", resource_list), "allocatable", resource_list)
        if status.get("capacity") and "allocatable" not in status:
            status = {**status, "allocatable": status["capacity"]}
        return status

    def spec(spec: Tree) -> Tree:
        one, all_of_them = spec.get("podCIDR"), spec.get("podCIDRs")
        if one and (not all_of_them or all_of_them[0] != one):  # the older field wins
            return {**spec, "podCIDRs": [one]}
        if all_of_them and not one:
            return {**spec, "podCIDR": all_of_them[0]}
        return spec

    return inside(inside(tree, "status", status), "spec", spec)


def default_secret(tree: Tree) -> Tree:
    """The type, and stringData written into data."""
    tree = filled(tree, {"type": "Opaque"})
    if "stringData" in tree:
        data = dict(tree.get("data", {}))
        for key, text in tree["stringData"].items():
            data[key] = base64.b64encode(text.encode()).decode()
        tree = {key: value for key, value in tree.items() if key != "stringData"}
        tree["data"] = data
    return tree


def default_volume(tree: Tree) -> Tree:
    """Defaults of a persistent volume."""

    def spec(spec: Tree) -> Tree:
        spec = filled(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
        spec = inside(spec, "capacity", resource_list)
        if "azureFile" in spec and "secretNamespace" not in spec["azureFile"]:
            spec = {**spec, "azureFile": {**spec["azureFile"], "secretNamespace": "default"}}
        return default_volume_source(spec)

    return inside(_spec(tree, spec), "status", lambda s: filled(s, {"phase": "Pending"}))


def default_attachment(tree: Tree) -> Tree:
    """Defaults of the volume that an attachment describes itself."""

    def inline(spec: Tree) -> Tree:
        return default_volume_source(inside(spec, "capacity", resource_list))

    return _spec(tree, lambda spec: inside(
        spec, "source", lambda source: inside(source, "inlineVolumeSpec", inline)))  # fmt: skip


def default_claim(tree: Tree) -> Tree:
    """Defaults of a persistent volume claim."""
    tree = _spec(tree, lambda spec: inside(
        filled(spec, {"volumeMode": "Filesystem"}), "resources", resources))  # fmt: skip
    return inside(tree, "status", lambda s: filled(s, {"phase": "Pending"}))


def _service_port(port: Tree) -> Tree:
    if not port.get("protocol"):
        port = {**port, "protocol": "TCP"}
    if port.get("targetPort") in (None, 0, ""):
        port = {**port, "targetPort": port.get("port", 0)}
    return port


def default_service(tree: Tree) -> Tree:
    """Defaults of a service."""

    def spec(spec: Tree) -> Tree:
        spec = filled(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
        kind = spec["type"]
        defaults: Tree = {}
        if spec["sessionAffinity"] == "None":
            spec = {key: value for key, value in spec.items() if key != "sessionAffinityConfig"}
        elif spec["sessionAffinity"] == "ClientIP":
            config = spec.get("sessionAffinityConfig") or {}
            client = config.get("clientIP") or {}
            if "timeoutSeconds" not in client:
                config = {**config, "clientIP": {**client, "timeoutSeconds": 10800}}
                spec = {**spec, "sessionAffinityConfig": config}
        if kind in {"NodePort", "LoadBalancer"}:
            defaults["externalTrafficPolicy"] = "Cluster"
        if kind in {"NodePort", "LoadBalancer", "ClusterIP"}:
            defaults["internalTrafficPolicy"] = "Cluster"
        if kind == "LoadBalancer":
            defaults["allocateLoadBalancerNodePorts"] = True
        return each(filled(spec, defaults), "ports", _service_port)

    return _spec(tree, spec)


def _tcp(port: Tree) -> Tree:
    return port if port.get("protocol") else {**port, "protocol": "TCP"}


def default_endpoints(tree: Tree) -> Tree:
    """Ports are TCP."""
    return each(tree, "subsets", lambda subset: each(subset, "ports", _tcp))


def default_endpoint_slice(tree: Tree) -> Tree:
    """Default an EndpointSlice: ports are TCP and have a name, be it empty; missing lists are null."""
    named = each(tree, "ports", lambda port: filled(port, {"name": "", "protocol": "TCP"}))
    return {**named, "endpoints": named.get("endpoints") or None,
            "ports": named.get("ports") or None}  # fmt: skip


def default_limit_range(tree: Tree) -> Tree:
    """For containers, default limits follow the maximum and default requests the rest."""

    def item(item: Tree) -> Tree:
        for key in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
            item = inside(item, key, resource_list)
        if item.get("type") != "Container":
            return item
        limits = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        new = dict(item)
        if limits:
            new["default"] = limits
        if requests:
            new["defaultRequest"] = requests
        return new

    return _spec(tree, lambda spec: each(spec, "limits", item))


def default_quota(tree: Tree) -> Tree:
    """Amounts are rounded."""
    tree = _spec(tree, lambda spec: inside(spec, "hard", resource_list))
    return inside(tree, "status", lambda s: inside(
        inside(s, "hard", resource_list), "used", resource_list))  # fmt: skip


def default_storage_class(tree: Tree) -> Tree:
    """Reclaim policy and binding mode."""
    return filled(tree, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def default_csi_driver(tree: Tree) -> Tree:
    """The switches of a CSI driver."""

    def spec(spec: Tree) -> Tree:
        spec = filled(spec, {
            "attachRequired": True, "podInfoOnMount": False, "storageCapacity": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": False,
            "seLinuxMount": False,
        })  # fmt: skip
        if not spec.get("volumeLifecycleModes"):
            spec = {**spec, "volumeLifecycleModes": ["Persistent"]}
        return spec

    return _spec(tree, spec)


def default_lease(tree: Tree) -> Tree:
    """Fields of coordinated leader election are not served."""

    def spec(spec: Tree) -> Tree:
        hidden = ("strategy", "preferredHolder")
        if any(key in spec for key in hidden):
            return {key: value for key, value in spec.items() if key not in hidden}
        return spec

    return _spec(tree, spec)


def default_priority_class(tree: Tree) -> Tree:
    """Pods of the class may preempt."""
    return filled(tree, {"preemptionPolicy": "PreemptLowerPriority"})


def default_network_policy(tree: Tree) -> Tree:
    """Ports are TCP; the types follow the rules."""

    def rule(rule: Tree) -> Tree:
        return each(rule, "ports", lambda port: filled(port, {"protocol": "TCP"}))

    def spec(spec: Tree) -> Tree:
        spec = each(each(spec, "ingress", rule), "egress", rule)
        if not spec.get("policyTypes"):
            kinds = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
            spec = {**spec, "policyTypes": kinds}
        return spec

    return _spec(tree, spec)


def default_role_binding(tree: Tree) -> Tree:
    """API groups of the role and the subjects."""

    def subject(subject: Tree) -> Tree:
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            return {**subject, "apiGroup": _RBAC}
        return subject

    ref = tree.get("roleRef") or {}
    if not ref.get("apiGroup"):
        tree = {**tree, "roleRef": {**ref, "apiGroup": _RBAC}}
    return each(tree, "subjects", subject)


def default_pod_template(tree: Tree) -> Tree:
    """The template's defaults."""
    return inside(tree, "template", default_template)


def default_ingress_class(tree: Tree) -> Tree:
    """Parameters are cluster-wide."""

    def parameters(ref: Tree) -> Tree:
        return filled(ref, {"scope": "Cluster"})

    return _spec(tree, lambda spec: inside(spec, "parameters", parameters))


def _rule(rule: Tree) -> Tree:
    return filled(rule, {"scope": "*"})


def _webhook(mutating: bool) -> Any:
    defaults: Tree = {"failurePolicy": "Fail", "matchPolicy": "Equivalent",
                      "namespaceSelector": {}, "objectSelector": {},
                      "timeoutSeconds": 10}  # fmt: skip
    if mutating:
        defaults["reinvocationPolicy"] = "Never"

    def change(hook: Tree) -> Tree:
        hook = each(filled(hook, defaults), "rules", _rule)
        return inside(hook, "clientConfig", lambda config: inside(
            config, "service", lambda service: filled(service, {"port": 443})))  # fmt: skip

    return change


def default_mutating_webhooks(tree: Tree) -> Tree:
    """Defaults of every webhook."""
    return each(tree, "webhooks", _webhook(mutating=True))


def default_validating_webhooks(tree: Tree) -> Tree:
    """Defaults of every webhook."""
    return each(tree, "webhooks", _webhook(mutating=False))


def _match_resources(match: Tree) -> Tree:
    match = filled(match, {"matchPolicy": "Equivalent", "namespaceSelector": {},
                           "objectSelector": {}})  # fmt: skip
    return each(each(match, "resourceRules", _rule), "excludeResourceRules", _rule)


def default_admission_policy(tree: Tree) -> Tree:
    """Failure policy and what is matched."""
    return _spec(tree, lambda spec: inside(
        filled(spec, {"failurePolicy": "Fail"}), "matchConstraints", _match_resources))  # fmt: skip


def default_policy_binding(tree: Tree) -> Tree:
    """Default the matched resources of a policy binding."""
    return _spec(tree, lambda spec: inside(spec, "matchResources", _match_resources))


def default_flow_schema(tree: Tree) -> Tree:
    """Precedence of a flow schema."""

    def spec(spec: Tree) -> Tree:
        return spec if spec.get("matchingPrecedence") else {**spec, "matchingPrecedence": 1000}

    return _spec(tree, spec)


def default_priority_level(tree: Tree) -> Tree:
    """Shares and queues of a priority level."""

    def queuing(config: Tree) -> Tree:
        return {"queues": 64, "handSize": 8, "queueLengthLimit": 50,
                **{key: value for key, value in config.items() if value}}  # fmt: skip

    def response(config: Tree) -> Tree:
        return inside(config, "queuing", queuing)

    def limited(config: Tree) -> Tree:
        config = filled(config, {"nominalConcurrencyShares": 30, "lendablePercent": 0})
        return inside(config, "limitResponse", response)

    def exempt(config: Tree) -> Tree:
        return filled(config, {"nominalConcurrencyShares": 0, "lendablePercent": 0})

    def spec(spec: Tree) -> Tree:
        if spec.get("type") == "Exempt" and "exempt" not in spec:
            spec = {**spec, "exempt": {}}
        return inside(inside(spec, "limited", limited), "exempt", exempt)

    return _spec(tree, spec)


def _request(request: Tree) -> Tree:
    def exactly(exact: Tree) -> Tree:
        exact = exact if exact.get("allocationMode") else {**exact, "allocationMode": "ExactCount"}
        if exact["allocationMode"] == "ExactCount" and not exact.get("count"):
            exact = {**exact, "count": 1}
        return exact

    return each(inside(request, "exactly", exactly), "firstAvailable", exactly)


def _claim_spec(spec: Tree) -> Tree:
    return inside(spec, "devices", lambda devices: each(devices, "requests", _request))


def default_resource_claim(tree: Tree) -> Tree:
    """Default the number of devices of each request of a ResourceClaim."""
    return _spec(tree, _claim_spec)


def default_resource_claim_template(tree: Tree) -> Tree:
    """The template's requests."""
    return _spec(tree, lambda spec: inside(spec, "spec", _claim_spec))


def default_api_service(tree: Tree) -> Tree:
    """The port of a served group."""
    return _spec(tree, lambda spec: inside(
        spec, "service", lambda service: filled(service, {"port": 443})))  # fmt: skip
