"""CustomResourceDefinitions, and a short way to write their schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from controlplane.api.tree import Tree

__all__ = [
    "BOOLEAN",
    "INT32",
    "INT64",
    "QUANTITY",
    "STRING",
    "SUBDOMAIN",
    "TIME",
    "choice",
    "column",
    "conditions",
    "definition",
    "integer",
    "items",
    "keyed",
    "mapping",
    "record",
    "rule",
    "text",
    "version",
]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_FORM: Final = f"^{_LABEL}$"
SUBDOMAIN_FORM: Final = f"^{_SUBDOMAIN}$"
QUALIFIED_FORM: Final = f"^({_SUBDOMAIN}/)?({_NAME})$"
REASON_FORM: Final = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_NUMBER: Final = r"(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY_FORM: Final = rf"^{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE]{_NUMBER}))?$"

BOOLEAN: Final[Tree] = {"type": "boolean"}
STRING: Final[Tree] = {"type": "string"}
TIME: Final[Tree] = {"type": "string", "format": "date-time"}
INT32: Final[Tree] = {"type": "integer", "format": "int32"}
INT64: Final[Tree] = {"type": "integer", "format": "int64"}
QUANTITY: Final[Tree] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": _QUANTITY_FORM,
    "x-kubernetes-int-or-string": True,
}
COUNT: Final[Tree] = {**INT32, "minimum": 0}
POSITIVE: Final[Tree] = {**INT32, "minimum": 1}


def text(most: int, least: int = 0, form: str = "") -> Tree:
    """A text with a length and a form."""
    made: Tree = {"type": "string", "maxLength": most}
    if least:
        made["minLength"] = least
    if form:
        made["pattern"] = form
    return made


SUBDOMAIN: Final[Tree] = text(253, form=SUBDOMAIN_FORM)
POD_SET_NAME: Final[Tree] = text(63, form=LABEL_FORM)


def choice(*words: str, default: str = "") -> Tree:
    """One of some words."""
    made: Tree = {"type": "string", "enum": list(words)}
    return {**made, "default": default} if default else made


def integer(least: int, default: int | None = None) -> Tree:
    """A 32-bit number with a minimum."""
    made: Tree = {**INT32, "minimum": least}
    return made if default is None else {**made, "default": default}


def rule(expression: str, message: str) -> Tree:
    """A rule in CEL."""
    return {"rule": expression, "message": message}


def record(
    fields: Tree, needed: Sequence[str] = (), rules: Sequence[Tree] = (), default: Any = None
) -> Tree:
    """An object with fields."""
    made: Tree = {"type": "object", "properties": fields}
    if needed:
        made["required"] = list(needed)
    if rules:
        made["x-kubernetes-validations"] = list(rules)
    return made if default is None else {**made, "default": default}


def mapping(value: Tree, most: int = 0, *, atomic: bool = False) -> Tree:
    """A map by text."""
    made: Tree = {"type": "object", "additionalProperties": value}
    if most:
        made["maxProperties"] = most
    return {**made, "x-kubernetes-map-type": "atomic"} if atomic else made


def items(
    item: Tree,
    most: int = 0,
    least: int = 0,
    kind: str = "atomic",
    rules: Sequence[Tree] = (),
) -> Tree:
    """A list of a kind: one that is replaced as a whole, or a set; "" does not say which."""
    made: Tree = {"type": "array", "items": item}
    if kind:
        made["x-kubernetes-list-type"] = kind
    if most:
        made["maxItems"] = most
    if least:
        made["minItems"] = least
    if rules:
        made["x-kubernetes-validations"] = list(rules)
    return made


def keyed(item: Tree, keys: Sequence[str], most: int = 0, least: int = 0) -> Tree:
    """A list whose items are known by some of their fields."""
    return {**items(item, most, least, "map"), "x-kubernetes-list-map-keys": list(keys)}


def conditions() -> Tree:
    """Conditions of a status."""
    fields = {
        "type": text(316, form=QUALIFIED_FORM),
        "status": choice("True", "False", "Unknown"),
        "observedGeneration": {**INT64, "minimum": 0},
        "lastTransitionTime": TIME,
        "reason": text(1024, 1, REASON_FORM),
        "message": text(32768),
    }
    needed = ("lastTransitionTime", "message", "reason", "status", "type")
    return keyed(record(fields, needed), ("type",), 16)


def column(name: str, path: str, kind: str, description: str = "", priority: int = 0) -> Tree:
    """A column of `kubectl get`; one with a priority is shown with `-o wide` alone."""
    made: Tree = {"name": name, "jsonPath": path, "type": kind}
    if description:
        made["description"] = description
    return {**made, "priority": priority} if priority else made


def version(
    name: str, schema: Tree, columns: Sequence[Tree] = (), *, stored: bool = True, status: bool
) -> Tree:
    """A served version of a kind.

    Args:
        name: its name.
        schema: the fields of an object besides apiVersion, kind and metadata.
        columns: made by `column`.
        stored: objects are stored in this version.
        status: the status is a subresource.
    """
    fields = {"apiVersion": STRING, "kind": STRING, "metadata": {"type": "object"}}
    whole = {**schema, "properties": {**fields, **schema["properties"]}}
    made: Tree = {
        "name": name,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": whole},
    }
    if columns:
        made["additionalPrinterColumns"] = list(columns)
    if status:
        made["subresources"] = {"status": {}}
    return made


def definition(
    kind: str,
    plural: str,
    group: str,
    versions: Sequence[Tree],
    short: Sequence[str] = (),
    *,
    namespaced: bool = True,
) -> Tree:
    """The CustomResourceDefinition of a kind; `versions` are made by `version`."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": list(short),
            },
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": list(versions),
        },
    }
