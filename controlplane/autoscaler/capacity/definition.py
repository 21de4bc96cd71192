"""The kinds CapacityQuota and CapacityBuffer: their definitions. Upstream: `apis/config/crd`."""

from __future__ import annotations

from typing import Any, Final

from controlplane.api.custom_schemas import (
    COUNT,
    INT32,
    INT64,
    QUANTITY,
    STRING,
    conditions,
    definition,
    items,
    mapping,
    record,
    rule,
    version,
)
from controlplane.api.tree import Tree
from controlplane.client.resources import Resource

QUOTAS: Final[Resource[Any]] = Resource("autoscaling.x-k8s.io", "v1beta1", "capacityquotas")
BUFFERS: Final[Resource[Any]] = Resource("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers")

_WHOLE: Final = (
    "self.all(key, type(self[key]) == int ? self[key] >= 0 : "
    "(!self[key].startsWith('-') && quantity(self[key]).isInteger()))"
)


def _schema() -> Tree:
    rules = [
        rule("self.all(key, size(key) <= 63)", "Resource names must be 63 characters or less."),
        rule(_WHOLE, "All resource quantities must be non-negative integers."),
    ]
    limits = {**mapping(QUANTITY, 20), "x-kubernetes-validations": rules}
    requirement = record(
        {"key": STRING, "operator": STRING, "values": items(STRING)}, ("key", "operator")
    )
    selector = record({"matchExpressions": items(requirement), "matchLabels": mapping(STRING)})
    spec: Tree = {
        "limits": record({"resources": limits}, ("resources",)),
        "selector": {**selector, "x-kubernetes-map-type": "atomic"},
    }
    status: Tree = {
        "conditions": _conditions(),
        "observedGeneration": INT64,
        "used": record({"resources": mapping(QUANTITY)}, ("resources",)),
    }
    return record({"spec": record(spec, ("limits",)), "status": record(status)}, ("spec",))


def _conditions() -> Tree:
    return {key: value for key, value in conditions().items() if key != "maxItems"}


def _buffer_schema() -> Tree:
    name = {**STRING, "minLength": 1}
    reference = record({"name": name}, ("name",))
    rules = (
        rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "If X is set, replicas or limits must also be set",
        ),
        rule(
            "!(has(self.podTemplateRef) && has(self.scalableRef))",
            "You must define either PodTemplateRef or ScalableRef, but not both",
        ),
    )
    spec = record(
        {
            "limits": mapping(QUANTITY),
            "percentage": COUNT,
            "podTemplateRef": reference,
            "provisioningStrategy": {**STRING, "default": "buffer.x-k8s.io/active-capacity"},
            "replicas": COUNT,
            "scalableRef": record(
                {"apiGroup": STRING, "kind": name, "name": name}, ("kind", "name")
            ),
        },
        rules=rules,
    )
    status: Tree = {
        "conditions": _conditions(),
        "podTemplateGeneration": INT64,
        "podTemplateRef": reference,
        "provisioningStrategy": STRING,
        "replicas": INT32,
    }
    return record({"spec": spec, "status": record(status)}, ("spec",))


def capacity_buffer_definition() -> Tree:
    """Return the CustomResourceDefinition."""
    versions = [version(BUFFERS.version, _buffer_schema(), status=True)]
    return definition("CapacityBuffer", BUFFERS.name, BUFFERS.group, versions, ("cb",))


def capacity_quota_definition() -> Tree:
    """Return the CustomResourceDefinition."""
    versions = [
        version("v1alpha1", _schema(), stored=False, status=True) | {"deprecated": True},
        version(QUOTAS.version, _schema(), status=True),
    ]
    return definition(
        "CapacityQuota", QUOTAS.name, QUOTAS.group, versions, ("cq",), namespaced=False
    )
