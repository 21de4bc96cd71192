"""The kind ProvisioningRequest: its definition. Upstream: `apis/provisioningrequest/autoscaling.x-k8s.io`."""

from __future__ import annotations

from typing import Final

from controlplane.api.custom_schemas import (
    INT64,
    POSITIVE,
    REASON_FORM,
    SUBDOMAIN,
    TIME,
    choice,
    column,
    definition,
    items,
    keyed,
    mapping,
    record,
    rule,
    text,
    version,
)
from controlplane.api.tree import Tree
from controlplane.client.resources import PROVISIONING_REQUESTS

REQUESTS: Final = PROVISIONING_REQUESTS

_IMMUTABLE: Final = (rule("self == oldSelf", "Value is immutable"),)
_KEPT: Final = {"x-kubernetes-validations": list(_IMMUTABLE)}


def _spec() -> Tree:
    reference = record({"name": SUBDOMAIN}, ("name",))
    pod_set = record({"count": POSITIVE, "podTemplateRef": reference}, ("count", "podTemplateRef"))
    fields: Tree = {
        "parameters": {**mapping(text(255), 100), **_KEPT},
        "podSets": items(pod_set, most=32, least=1, kind="", rules=_IMMUTABLE),
        "provisioningClassName": {**SUBDOMAIN, **_KEPT},
    }
    return record(fields, ("podSets", "provisioningClassName"))


def _status() -> Tree:
    condition: Tree = {
        "lastTransitionTime": TIME,
        "message": text(32768),
        "observedGeneration": {**INT64, "minimum": 0},
        "reason": text(1024, 1, REASON_FORM),
        "status": choice("True", "False", "Unknown"),
        "type": text(316),
    }
    needed = ("lastTransitionTime", "message", "reason", "status", "type")
    fields: Tree = {
        "conditions": keyed(record(condition, needed), ("type",)),
        "provisioningClassDetails": mapping(text(32768), 64),
    }
    return record(fields)


def provisioning_request_definition() -> Tree:
    """Return the CustomResourceDefinition."""
    schema = record({"spec": _spec(), "status": _status()}, ("spec",))
    age = column("Age", ".metadata.creationTimestamp", "date")
    return definition(
        "ProvisioningRequest",
        REQUESTS.name,
        REQUESTS.group,
        [version(REQUESTS.version, schema, (age,), status=True)],
        ("provreq", "provreqs"),
    )
