"""CustomResourceDefinitions of KWOK for the objects that are read from the API. Follows `kustomize/crd/bases`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from controlplane.api.custom_schemas import (
    BOOLEAN,
    INT32,
    INT64,
    QUALIFIED_FORM,
    QUANTITY,
    REASON_FORM,
    STRING,
    TIME,
    choice,
    definition,
    items,
    keyed,
    mapping,
    record,
    text,
    version,
)
from controlplane.api.tree import Tree
from controlplane.client.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from controlplane.kwok import debugging, metrics, usages
from controlplane.kwok.fields import GROUP, VERSION
from controlplane.kwok.selection import CLUSTER

__all__ = ["KINDS", "STAGES", "installation", "plural_of"]

STAGE: Final = "Stage"
STAGES: Final[Resource[Any]] = Resource(GROUP, VERSION, "stages")
KINDS: Final = (STAGE, metrics.KIND, *usages.KINDS, *debugging.KINDS)
_PLURALS: Final = {
    STAGE: "stages",
    metrics.KIND: "metrics",
    usages.KINDS[0]: "resourceusages",
    debugging.LOGS: "logs",
    debugging.EXEC: "execs",
    debugging.ATTACH: "attaches",
    debugging.PORT_FORWARD: "portforwards",
}
_AMOUNT: Final[Tree] = {**INT64, "minimum": 0}


def _list(of: Tree) -> Tree:
    return items(of, kind="")


_TEXTS: Final = _list(STRING)
_EXPRESSION: Final = record(
    {
        "cel": record({"expression": STRING}),
        "jq": record({"expression": STRING}),
        "expressionFrom": STRING,
    }
)
_REQUIREMENT: Final[Tree] = {"key": STRING, "operator": STRING, "values": _TEXTS}
_USER: Final = record({"username": STRING}, ("username",))
_PATCH: Final = record(
    {
        "impersonation": _USER,
        "root": STRING,
        "subresource": STRING,
        "template": STRING,
        "type": choice("json", "merge", "strategic"),
    }
)
_FINALIZERS: Final = record(
    {
        "add": _list(record({"value": STRING})),
        "empty": BOOLEAN,
        "remove": _list(record({"value": STRING})),
    }
)
_EVENT: Final = record({"message": STRING, "reason": STRING, "type": STRING})
_NEXT: Final = record(
    {
        "delete": BOOLEAN,
        "event": _EVENT,
        "finalizers": _FINALIZERS,
        "patches": _list(_PATCH),
        "statusPatchAs": _USER,
        "statusSubresource": {**STRING, "default": "status"},
        "statusTemplate": STRING,
    }
)
_APPLY: Final = record(
    {
        "impersonation": _USER,
        "subresource": STRING,
        "template": STRING,
        "type": choice("apply", "merge", "strategic"),
    }
)
_STEP: Final = record(
    {
        "apply": _APPLY,
        "delete": BOOLEAN,
        "event": _EVENT,
        "finalizers": _FINALIZERS,
        "patch": _PATCH,
    }
)
_STAGE: Final = record(
    {
        "delay": record(
            {
                "durationFrom": _EXPRESSION,
                "durationMilliseconds": _AMOUNT,
                "jitterDurationFrom": _EXPRESSION,
                "jitterDurationMilliseconds": _AMOUNT,
            }
        ),
        "immediateNextStage": BOOLEAN,
        "next": _NEXT,
        "resourceRef": record({"apiGroup": {**STRING, "default": "v1"}, "kind": STRING}, ("kind",)),
        "selector": record(
            {
                "matchAnnotations": mapping(STRING),
                "matchExpressions": _list(
                    record(
                        {
                            "cel": record({"expression": STRING}),
                            "jq": record(_REQUIREMENT),
                            **_REQUIREMENT,
                        }
                    )
                ),
                "matchLabels": mapping(STRING),
            }
        ),
        "steps": _list(_STEP),
        "weight": {"type": "integer", "default": 0, "minimum": 0},
        "weightFrom": _EXPRESSION,
    },
    ("resourceRef",),
)
_NAME: Final[Tree] = {**STRING, "minLength": 1}
_LOG: Final = record(
    {
        "containers": _TEXTS,
        "follow": BOOLEAN,
        "logsFile": STRING,
        "previousLogsFile": STRING,
    }
)
_LOCAL: Final = record(
    {
        "envs": _list(record({"name": _NAME, "value": STRING}, ("name",))),
        "securityContext": record({"runAsGroup": INT64, "runAsUser": INT64}),
        "workDir": STRING,
    }
)
_TARGET: Final = record(
    {"address": _NAME, "port": {**INT32, "minimum": 0, "maximum": 65_535}}, ("address", "port")
)
_ENTRIES: Final[dict[str, tuple[str, Tree]]] = {
    debugging.LOGS: ("logs", _LOG),
    debugging.EXEC: ("execs", record({"containers": _TEXTS, "local": _LOCAL})),
    debugging.ATTACH: ("attaches", record({"containers": _TEXTS, "logsFile": STRING})),
    debugging.PORT_FORWARD: (
        "forwards",
        record({"ports": _list(INT32), "target": _TARGET, "command": _TEXTS}),
    ),
}
_BUCKET: Final = record(
    {"hidden": BOOLEAN, "le": {"type": "number", "minimum": 0}, "value": STRING}, ("le", "value")
)
_METRIC: Final = record(
    {
        "buckets": keyed(_BUCKET, ("le",)),
        "dimension": {**STRING, "default": "node"},
        "help": STRING,
        "kind": choice("counter", "gauge", "histogram"),
        "labels": keyed(record({"name": _NAME, "value": _NAME}, ("name", "value")), ("name",)),
        "name": _NAME,
        "value": STRING,
    },
    ("kind", "name"),
)
_METRICS: Final = record({"metrics": _list(_METRIC), "path": _NAME}, ("metrics", "path"))
_USED: Final = record(
    {
        "containers": _TEXTS,
        "usage": mapping(record({"expression": STRING, "value": QUANTITY})),
    }
)
_SELECTOR: Final = record({"matchNames": _TEXTS, "matchNamespaces": _TEXTS})


_CONDITION: Final = record(
    {
        "lastTransitionTime": TIME,
        "message": text(32_768),
        "reason": text(1024, 1, REASON_FORM),
        "status": STRING,
        "type": text(316, form=QUALIFIED_FORM),
    },
    ("lastTransitionTime", "message", "reason", "status", "type"),
)
_STATUS: Final = record({"conditions": keyed(_CONDITION, ("type",))})


def plural_of(kind: str) -> str:
    """Return the name of a kind's resource."""
    plural = _PLURALS[debugging.topic_of(kind)]
    return f"{CLUSTER.lower()}{plural}" if kind.startswith(CLUSTER) else plural


def _spec(kind: str) -> Tree:
    if kind == STAGE:
        return _STAGE
    if kind == metrics.KIND:
        return _METRICS
    if kind in usages.KINDS:
        selected = {"selector": _SELECTOR} if kind.startswith(CLUSTER) else {}
        return record({"usages": _list(_USED), **selected})
    listed, entry = _ENTRIES[debugging.topic_of(kind)]
    fields = {listed: _list(entry)}
    if kind.startswith(CLUSTER):
        fields["selector"] = _SELECTOR
    return record(fields, (listed,))


def _definition(kind: str) -> Tree:
    fields = {"spec": _spec(kind), "status": _STATUS}
    needed = ("spec",) if kind == STAGE else ("metadata", "spec")
    namespaced = kind not in (STAGE, metrics.KIND) and not kind.startswith(CLUSTER)
    versions = (version(VERSION, record(fields, needed), status=True),)
    return definition(kind, plural_of(kind), GROUP, versions, namespaced=namespaced)


def installation(kinds: Iterable[str]) -> list[tuple[Resource[Any], Tree]]:
    """Return the definitions of these kinds with their resources."""
    return [(CUSTOM_RESOURCE_DEFINITIONS, _definition(kind)) for kind in kinds]
