"""Validation shared by device claims, classes and slices. Upstream: pkg/apis/resource/validation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from controlplane.api.equality import Seen
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import choice, entries, problems, when
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.kinds.trees import filled
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
)

__all__ = [
    "attribute_name",
    "binding_parameters",
    "configuration",
    "driver_name",
    "json_object",
    "limited",
    "pool_name",
    "qualified",
    "references",
    "request_names",
    "same_items",
    "tainted_now",
    "validate_taint",
    "validate_toleration",
]

MAX_ITEMS = 32
MAX_DRIVER = 63
MAX_POOL = 253
MAX_IDENTIFIER = 32
MAX_BINDING_CONDITIONS = 4
MAX_PARAMETERS = 10 * 1024
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_C_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    "validation is '[A-Za-z_][A-Za-z0-9_]*')"
)


_NO_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


def limited(tree: Tree, key: str, path: str, most: int = MAX_ITEMS) -> list[FieldError]:
    """A list no longer than allowed; of one that is, nothing else is said."""
    count = len(tree.get(key) or ())
    return [too_many(f"{path}.{key}", count, most)] if count > most else []


def same_items(values: Iterable[Any], path: str) -> list[FieldError]:
    """Values of a list that stood there before, empty ones too."""
    seen = Seen()
    return [
        duplicate(f"{path}[{index}]", value)
        for index, value in enumerate(values)
        if seen.again(value)
    ]


def driver_name(name: str, path: str) -> list[FieldError]:
    """The name of a driver."""
    if not name:
        return [required(path)]
    errors = [too_long(path, MAX_DRIVER)] if len(name) > MAX_DRIVER else []
    return errors + problems(path, name, names.dns_subdomain(name.lower()))


def pool_name(name: str, path: str) -> list[FieldError]:
    """The name of a pool: subdomains with slashes between them."""
    if not name:
        return [required(path)]
    errors = [too_long(path, MAX_POOL)] if len(name) > MAX_POOL else []
    for part in name.split("/"):
        errors += problems(path, part, names.dns_subdomain(part))
    return errors


def qualified(name: str, path: str) -> list[FieldError]:
    """A domain and an identifier, with a slash between them."""
    errors = attribute_name(name, path)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(path, name, text))
    return errors


def attribute_name(name: str, path: str) -> list[FieldError]:
    """An identifier, with or without a domain."""
    parts = name.split("/")
    if len(parts) == 1:
        return _identifier(name, path)
    if len(parts) > 2:
        return [invalid(path, name, "must not contain more than one slash")]
    domain, identifier = parts
    errors = (
        driver_name(domain, path) if domain else [invalid(path, "", "the domain must not be empty")]
    )
    if identifier:
        return errors + _identifier(identifier, path)
    return [*errors, invalid(path, "", "the name must not be empty")]


def _identifier(name: str, path: str) -> list[FieldError]:
    errors = [too_long(path, MAX_IDENTIFIER)] if len(name) > MAX_IDENTIFIER else []
    return errors + problems(path, name, () if _C_IDENTIFIER.fullmatch(name) else (_C_TEXT,))


def validate_toleration(toleration: Tree, path: str) -> list[FieldError]:
    """Return the errors of a toleration of a request."""
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    errors = label_name(key, f"{path}.key") if key else []
    value = toleration.get("value", "")
    if operator == "Exists":
        if value:
            text = "must be empty for operator `Exists`"
            errors.append(invalid(f"{path}.value", value, text))
    elif operator == "Equal":
        errors += problems(f"{path}.value", value, names.label_value(value))
    else:
        errors += choice(toleration, "operator", path, ("Equal", "Exists"))
    return errors + choice(toleration, "effect", path, _EFFECTS, needed=False)


_EFFECTS = ("NoExecute", "NoSchedule", "None")


def validate_taint(taint: Tree, before: Tree | None, path: str) -> list[FieldError]:
    """Return the errors of a taint; an effect that an update leaves as it is is not validated again."""
    errors = label_name(taint.get("key", ""), f"{path}.key")
    value = taint.get("value", "")
    if value:
        errors += problems(f"{path}.value", value, names.label_value(value))
    if before is not None and before.get("effect", "") == taint.get("effect", ""):
        return errors
    return errors + choice(taint, "effect", path, _EFFECTS)


def tainted_now(ctx: Context, taint: Tree) -> Tree:
    """Return a taint with the time since when it holds: now, unless it has one."""
    return filled(taint, {"timeAdded": format_time(ctx.now)})


def request_names(devices: Tree) -> set[str]:
    """The names of a claim's requests, and of their alternatives."""
    known: set[str] = set()
    for request in devices.get("requests") or ():
        known.add(request.get("name", ""))
        for sub in request.get("firstAvailable") or ():
            known.add(f"{request.get('name', '')}/{sub.get('name', '')}")
    return known


def references(owner: Tree, known: set[str], path: str, field: str = "") -> list[FieldError]:
    """Names of requests in a list, or in the one `field`."""
    crowded = limited(owner, "requests", path)
    if crowded:
        return crowded
    errors: list[FieldError] = []
    listed = owner.get("requests") or []
    for index, name in enumerate(listed):
        spot = field or f"{path}.requests[{index}]"
        parts = name.split("/")
        if len(parts) > 2:
            errors.append(invalid(spot, name, _NO_REQUEST))
            continue
        for part in parts:
            errors += problems(spot, part, names.dns_label(part))
        errors += when(name not in known, invalid, spot, name, _NO_REQUEST)
    return errors + same_items(listed, f"{path}.requests")


def configuration(config: Tree, path: str) -> list[FieldError]:
    """Return the errors of a driver's opaque parameters."""
    opaque, place = config.get("opaque"), f"{path}.opaque"
    if opaque is None:
        return [required(place)]
    errors = driver_name(opaque.get("driver", ""), f"{place}.driver")
    return errors + json_object(opaque.get("parameters"), f"{place}.parameters", MAX_PARAMETERS)


def json_object(value: Any, path: str, most: int) -> list[FieldError]:
    """Return the errors of an arbitrary JSON object of at most `most` bytes."""
    if value is None:
        return [required(path)]
    if len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) > most:
        return [too_long(path, most)]
    if isinstance(value, dict):
        return []
    return [invalid(path, "<value omitted>", "must be a valid JSON object")]


def binding_parameters(owner: Tree, path: str) -> list[FieldError]:
    """Conditions to wait for before binding, and those that end the waiting: both or none."""
    errors: list[FieldError] = []
    ready, failed = "bindingConditions", "bindingFailureConditions"
    for key in (ready, failed):
        crowded = limited(owner, key, path, MAX_BINDING_CONDITIONS)
        errors += crowded
        if not crowded:
            for name, place in entries(owner, key, path):
                errors += label_name(name, place)
    awaited, ending = owner.get(ready) or [], owner.get(failed) or []
    errors += same_items(awaited, f"{path}.{ready}")
    known, seen = frozenset(awaited), Seen()
    for index, name in enumerate(ending):
        spot = f"{path}.{failed}[{index}]"
        errors += when(seen.again(name), duplicate, spot, name)
        if name in known:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid(spot, name, text))
    if ending and not awaited:
        text = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid(f"{path}.{ready}", owner.get(ready), text))
    if awaited and not ending:
        text = "bindingFailureConditions are required to use bindingConditions"
        errors.append(invalid(f"{path}.{failed}", owner.get(failed), text))
    return errors
