"""The kind ProvisioningRequest: its definition. Upstream: `apis/provisioningrequest/autoscaling.x-k8s.io`."""

from __future__ import annotations

from typing import Any, Final

from controlplane.client.resources import Resource

GROUP: Final = "autoscaling.x-k8s.io"
REQUESTS: Final[Resource[Any]] = Resource(GROUP, "v1", "provisioningrequests")
DEFINITIONS: Final[Resource[Any]] = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions"
)

_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_IMMUTABLE: Final = [{"message": "Value is immutable", "rule": "self == oldSelf"}]


def _text(longest: int, **more: Any) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest, **more}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties}
    return {**found, "required": required} if required else found


def _spec() -> dict[str, Any]:
    reference = _object(["name"], name=_text(253, pattern=_NAME))
    count = {"type": "integer", "format": "int32", "minimum": 1}
    return _object(
        ["podSets", "provisioningClassName"],
        parameters={
            "type": "object",
            "additionalProperties": _text(255),
            "maxProperties": 100,
            "x-kubernetes-validations": _IMMUTABLE,
        },
        podSets={
            "type": "array",
            "items": _object(["count", "podTemplateRef"], count=count, podTemplateRef=reference),
            "minItems": 1,
            "maxItems": 32,
            "x-kubernetes-validations": _IMMUTABLE,
        },
        provisioningClassName=_text(253, pattern=_NAME, **{"x-kubernetes-validations": _IMMUTABLE}),
    )


def _status() -> dict[str, Any]:
    condition = _object(
        ["lastTransitionTime", "message", "reason", "status", "type"],
        lastTransitionTime={"type": "string", "format": "date-time"},
        message=_text(32768),
        observedGeneration={"type": "integer", "format": "int64", "minimum": 0},
        reason=_text(1024, minLength=1, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        status={"type": "string", "enum": ["True", "False", "Unknown"]},
        type=_text(316),
    )
    return _object(
        [],
        conditions={
            "type": "array",
            "items": condition,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
        provisioningClassDetails={
            "type": "object",
            "additionalProperties": _text(32768),
            "maxProperties": 64,
        },
    )


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition."""
    text = {"type": "string"}
    schema = _object(
        ["spec"],
        apiVersion=text,
        kind=text,
        metadata={"type": "object"},
        spec=_spec(),
        status=_status(),
    )
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"jsonPath": ".metadata.creationTimestamp", "name": "Age", "type": "date"}
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"provisioningrequests.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": "ProvisioningRequest",
                "listKind": "ProvisioningRequestList",
                "plural": "provisioningrequests",
                "singular": "provisioningrequest",
                "shortNames": ["provreq", "provreqs"],
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    }
