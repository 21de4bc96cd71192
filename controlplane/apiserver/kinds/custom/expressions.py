"""Expressions of webhooks and admission policies: what they may speak of, and whether they compile.

Upstream: apiserver pkg/admission/plugin/cel/compile.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.apiserver.kinds.custom.cel import CelError, compiled
from controlplane.apiserver.kinds.custom.cel.structs import PATCHES
from controlplane.apiserver.kinds.custom.cel.types import DYN, Type, read_type, resolved
from controlplane.apiserver.kinds.custom.rules import location
from controlplane.apiserver.schema.field_errors import FieldError, invalid

__all__ = ["expression_problems", "policy_types", "variable_type", "wrong_type"]


def _object(type_name: str, /, **fields: str | Type) -> Type:
    return Type(
        type_name,
        fields={
            key: read_type(kind) if isinstance(kind, str) else kind for key, kind in fields.items()
        },
    )


_KIND: Final = _object(
    "kubernetes.GroupVersionKind", group="string", version="string", kind="string"
)
_RESOURCE: Final = _object(
    "kubernetes.GroupVersionResource", group="string", version="string", resource="string"
)
_REQUEST: Final = _object(
    "kubernetes.AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource="string",
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource="string",
    name="string",
    namespace="string",
    operation="string",
    dryRun="bool",
    options="dyn",
    userInfo=_object(
        "kubernetes.UserInfo",
        username="string",
        uid="string",
        groups="list(string)",
        extra="map(string, list(string))",
    ),
)
_NAMESPACE: Final = _object(
    "kubernetes.Namespace",
    metadata=_object(
        "kubernetes.NamespaceMetadata",
        name="string",
        generateName="string",
        namespace="string",
        labels="map(string, string)",
        annotations="map(string, string)",
        UID="string",
        creationTimestamp="timestamp",
        deletionGracePeriodSeconds="int",
        deletionTimestamp="timestamp",
        generation="int",
        resourceVersion="string",
        finalizers="list(string)",
    ),
    spec=_object("kubernetes.NamespaceSpec", finalizers="list(string)"),
    status=_object("kubernetes.NamespaceStatus", phase="string"),
)
_AUTHORIZER: Final = "kubernetes.authorization."


def policy_types(
    variables: Mapping[str, Type] | None = None,
    *,
    params: bool = True,
    authorizer: bool = True,
    patches: bool = False,
) -> dict[str, Type]:
    """Return the variables of a policy's expressions with their types; `variables` are the policy's own so far.

    With `patches`, expressions may construct the types of a mutation.
    """
    types = {"object": DYN, "oldObject": DYN, "request": _REQUEST, "namespaceObject": _NAMESPACE}
    if params:
        types["params"] = DYN
    if authorizer:
        types["authorizer"] = read_type(f"{_AUTHORIZER}Authorizer")
        types["authorizer.requestResource"] = read_type(f"{_AUTHORIZER}ResourceCheck")
    if patches:
        types[PATCHES] = DYN
    if variables is not None:
        types["variables"] = Type("kubernetes.variables", fields=dict(variables))
    return types


def expression_problems(
    source: str, path: str, types: Mapping[str, Type], gives: tuple[str, ...] = ()
) -> list[FieldError]:
    """Return the errors of a webhook's or policy's expression that does not compile, or has none of these types."""
    try:
        program = compiled(source, types)
    except CelError as error:
        return [invalid(path, source, f"compilation failed: {location(source, error)}")]
    if gives and str(program.gives) not in gives:
        return [invalid(path, source, wrong_type(program.gives, gives))]
    return []


def wrong_type(found: Type, gives: tuple[str, ...]) -> str:
    """Return the message for an expression of another type than the required ones."""
    wanted = f"one of [{' '.join(gives)}]" if len(gives) > 1 else gives[0]
    found = resolved(found, {})
    shown = "null_type" if found.name == "null" else str(found)
    return f"must evaluate to {wanted.replace('null', 'null_type')} but got {shown}"


def variable_type(source: str, types: Mapping[str, Type]) -> Type:
    """The type of a policy's variable; anything if it does not compile."""
    try:
        return compiled(source, types).gives
    except CelError:
        return DYN
