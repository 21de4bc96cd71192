"""Device claims, their templates, classes and slices. Upstream: pkg/apis/resource/validation."""

from __future__ import annotations

import json
import re
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.custom.cel import CelError, compile_rule
from controlplane.apiserver.kinds.custom.rules import location
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.kinds.validation.checks import choice, entries, problems, repeated
from controlplane.apiserver.kinds.validation.selectors import (
    label_name,
    validate_node_selector,
)
from controlplane.apiserver.kinds.validation.shared import immutable
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from controlplane.apiserver.schema.internal_form import internal

__all__ = [
    "validate_claim_template", "validate_claim_template_update", "validate_device_class",
    "validate_device_claim", "validate_device_claim_update", "validate_resource_slice",
    "validate_resource_slice_update",
]  # fmt: skip

MAX_ITEMS = 32
MAX_SUBREQUESTS = 8
MAX_DEVICES = 128
MAX_DEVICES_WITH_TAINTS = 64
MAX_DRIVER = 63
MAX_STRING = 64
_DEVICE = frozenset(("device",))
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?"
)
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


# -- claims --------------------------------------------------------------------------------------


def validate_device_claim(tree: Tree) -> list[FieldError]:
    """A ResourceClaim."""
    return _claim(tree.get("spec") or {}, "spec")


def validate_device_claim_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed claim; what it asks for stays."""
    return _unchanged("ResourceClaimSpec", new, old)


def _unchanged(kind: str, new: Tree, old: Tree) -> list[FieldError]:
    spec, was = (internal(kind, tree.get("spec") or {}) for tree in (new, old))
    return immutable(spec, was, "spec")


def validate_claim_template(tree: Tree) -> list[FieldError]:
    """A ResourceClaimTemplate."""
    spec = tree.get("spec") or {}
    meta = spec.get("metadata") or {}
    errors: list[FieldError] = []
    for key in (
        "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    ):  # fmt: skip
        if meta.get(key):
            errors.append(forbidden(f"spec.metadata.{key}", "cannot be set"))
    for key in ("ownerReferences", "finalizers", "managedFields"):
        if meta.get(key) is not None:
            errors.append(forbidden(f"spec.metadata.{key}", "cannot be set"))
    errors += validate_labels(meta.get("labels") or {}, "spec.metadata.labels")
    errors += validate_annotations(meta.get("annotations") or {}, "spec.metadata.annotations")
    return errors + _claim(spec.get("spec") or {}, "spec.spec")


def validate_claim_template_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed template: nothing of it may change."""
    shown = []
    for tree in (new, old):
        spec = tree.get("spec") or {}
        inner = internal("ResourceClaimSpec", spec.get("spec") or {})
        kept = {key: value for key, value in (spec.get("metadata") or {}).items() if value}
        shown.append({**kept, "Spec": inner})
    return validate_claim_template(new) + immutable(shown[0], shown[1], "spec")


def _claim(spec: Tree, path: str) -> list[FieldError]:
    devices, place = spec.get("devices") or {}, f"{path}.devices"
    known: set[str] = set()
    for request in devices.get("requests") or ():
        known.add(request.get("name", ""))
        for sub in request.get("firstAvailable") or ():
            known.add(f"{request.get('name', '')}/{sub.get('name', '')}")
    errors = _limited(devices, "requests", place)
    for request, spot in entries(devices, "requests", place):
        errors += _request(request, spot)
    errors += repeated(
        (request.get("name", ""), spot) for request, spot in entries(devices, "requests", place)
    )
    errors += _limited(devices, "constraints", place)
    for constraint, spot in entries(devices, "constraints", place):
        errors += _references(constraint, known, spot)
        keys = [
            key
            for key in ("matchAttribute", "distinctAttribute")
            if constraint.get(key) is not None
        ]
        for key in keys[:1]:
            errors += _qualified(constraint[key], f"{spot}.{key}")
        if not keys:
            text = (
                'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple '
                "fields are set"
            )
            errors.append(required(spot, text))
    errors += _limited(devices, "config", place)
    for config, spot in entries(devices, "config", place):
        errors += _references(config, known, spot)
        errors += _configuration(config, spot)
    return errors


def _limited(tree: Tree, key: str, path: str, most: int = MAX_ITEMS) -> list[FieldError]:
    count = len(tree.get(key) or ())
    return [too_many(f"{path}.{key}", count, most)] if count > most else []


def _request(request: Tree, path: str) -> list[FieldError]:
    name = request.get("name", "")
    errors = problems(f"{path}.name", name, names.dns_label(name))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    text = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is not None and alternatives:
        return [*errors, invalid(path, None, f"{text}, but multiple fields are set")]
    if alternatives:
        errors += _limited(request, "firstAvailable", path, MAX_SUBREQUESTS)
        for sub, spot in entries(request, "firstAvailable", path):
            inner = sub.get("name", "")
            errors += problems(f"{spot}.name", inner, names.dns_label(inner))
            errors += _wish(sub, spot)
        errors += repeated(
            (sub.get("name", ""), spot) for sub, spot in entries(request, "firstAvailable", path)
        )
    if exactly is not None:
        errors += _wish(exactly, f"{path}.exactly")
    if exactly is None and not alternatives:
        errors.append(required(path, text))
    return errors


def _wish(wish: Tree, path: str) -> list[FieldError]:
    name, place = wish.get("deviceClassName", ""), f"{path}.deviceClassName"
    errors = problems(place, name, names.dns_subdomain(name)) if name else [required(place)]
    errors += _selectors(wish, path)
    mode, count = wish.get("allocationMode", ""), wish.get("count", 0)
    if mode == "All":
        if count:
            text = "must not be specified when allocationMode is 'All'"
            errors.append(invalid(f"{path}.count", count, text))
    elif mode == "ExactCount":
        if count <= 0:
            errors.append(invalid(f"{path}.count", count, "must be greater than zero"))
    else:
        errors.append(not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount")))
    for toleration, spot in entries(wish, "tolerations", path):
        errors += _toleration(toleration, spot)
    return errors


def _toleration(toleration: Tree, path: str) -> list[FieldError]:
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
    return errors + choice(
        toleration, "effect", path, ("NoExecute", "NoSchedule", "None"), needed=False
    )


def _selectors(owner: Tree, path: str) -> list[FieldError]:
    errors = _limited(owner, "selectors", path)
    for selector, spot in entries(owner, "selectors", path):
        cel = selector.get("cel")
        if cel is None:
            errors.append(required(f"{spot}.cel"))
            continue
        source = cel.get("expression", "")
        try:
            compile_rule(source, _DEVICE)
        except CelError as error:
            text = f"compilation failed: {location(source, error)}"
            errors.append(invalid(f"{spot}.cel.expression", source, text))
    return errors


def _references(owner: Tree, known: set[str], path: str) -> list[FieldError]:
    errors = _limited(owner, "requests", path)
    listed = [(name, f"{path}.requests[{i}]") for i, name in enumerate(owner.get("requests") or ())]
    for name, spot in listed:
        parts = name.split("/")
        if len(parts) > 2:
            errors.append(invalid(spot, name, _NO_REQUEST))
            continue
        for part in parts:
            errors += problems(spot, part, names.dns_label(part))
        if name not in known:
            errors.append(invalid(spot, name, _NO_REQUEST))
    return errors + repeated(listed)


def _configuration(config: Tree, path: str) -> list[FieldError]:
    opaque, place = config.get("opaque"), f"{path}.opaque"
    if opaque is None:
        return [required(place)]
    errors = _driver(opaque.get("driver", ""), f"{place}.driver")
    parameters = opaque.get("parameters")
    if parameters is None:
        errors.append(required(f"{place}.parameters"))
    elif not isinstance(parameters, dict):
        text = "parameters must be a valid JSON object"
        shown = json.dumps(parameters, separators=(",", ":"))
        errors.append(invalid(f"{place}.parameters", shown, text))
    return errors


def _driver(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    errors = [too_long(path, MAX_DRIVER)] if len(name) > MAX_DRIVER else []
    return errors + problems(path, name, names.dns_subdomain(name.lower()))


def _qualified(name: str, path: str) -> list[FieldError]:
    """A domain and an identifier, with a slash between them."""
    parts = name.split("/")
    if len(parts) != 2:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        return [invalid(path, name, text)]
    domain, identifier = parts
    errors: list[FieldError] = []
    if not domain:
        errors.append(invalid(path, name, "the domain must not be empty"))
    if not identifier:
        errors.append(invalid(path, name, "the name must not be empty"))
    return errors or _attribute_name(name, path)


def _attribute_name(name: str, path: str) -> list[FieldError]:
    """An identifier, with or without a domain."""
    domain, slash, identifier = name.rpartition("/")
    errors: list[FieldError] = []
    if slash:
        errors += problems(path, domain, names.dns_subdomain(domain))
    if not identifier:
        errors.append(required(path, "name cannot be empty"))
    elif not _C_IDENTIFIER.fullmatch(identifier):
        errors.append(invalid(path, identifier, _C_TEXT))
    return errors


# -- classes -------------------------------------------------------------------------------------


def validate_device_class(tree: Tree) -> list[FieldError]:
    """A DeviceClass."""
    spec = tree.get("spec") or {}
    errors = _selectors(spec, "spec") + _limited(spec, "config", "spec")
    for config, path in entries(spec, "config", "spec"):
        errors += _configuration(config, path)
    return errors


# -- slices --------------------------------------------------------------------------------------


def validate_resource_slice(tree: Tree) -> list[FieldError]:
    """A ResourceSlice."""
    spec = tree.get("spec") or {}
    errors = _driver(spec.get("driver", ""), "spec.driver")
    errors += _pool(spec.get("pool") or {}, "spec.pool")
    errors += _placement(spec)
    if spec.get("sharedCounters") and spec.get("devices"):
        text = "only one of `sharedCounters` or `devices` is allowed"
        errors.append(invalid("spec", "", text))
    devices = spec.get("devices") or []
    tainted = any(device.get("taints") for device in devices)
    errors += _limited(spec, "devices", "spec", MAX_DEVICES_WITH_TAINTS if tainted else MAX_DEVICES)
    for device, path in entries(spec, "devices", "spec"):
        errors += _device(device, path, bool(spec.get("perDeviceNodeSelection")))
    return errors + repeated(
        (device.get("name", ""), path) for device, path in entries(spec, "devices", "spec")
    )


def validate_resource_slice_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed slice stays with its driver, pool and nodes."""
    errors = validate_resource_slice(new)
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    pool, before = ((part.get("pool") or {}).get("name", "") for part in (spec, was))
    errors += immutable(pool, before, "spec.pool.name")
    for key in ("driver", "nodeName", "nodeSelector", "allNodes"):
        errors += immutable(spec.get(key), was.get(key), f"spec.{key}")
    return errors


def _pool(pool: Tree, path: str) -> list[FieldError]:
    name = pool.get("name", "")
    errors: list[FieldError] = []
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        if len(name) > 253:
            errors.append(too_long(f"{path}.name", 253))
        for part in name.split("/"):
            errors += problems(f"{path}.name", part, names.dns_subdomain(part))
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        text = "must be greater than zero"
        errors.append(invalid(f"{path}.resourceSliceCount", count, text))
    if generation < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.generation", generation, text))
    return errors


def _placement(spec: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    given = []
    name = spec.get("nodeName")
    if name is not None:
        given.append("`nodeName`")
        if not name:
            text = "must be either unset or set to a non-empty string"
            errors.append(invalid("spec.nodeName", name, text))
        else:
            errors += problems("spec.nodeName", name, names.dns_subdomain(name))
    if spec.get("nodeSelector") is not None:
        given.append("`nodeSelector`")
        errors += validate_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        terms = spec["nodeSelector"].get("nodeSelectorTerms") or []
        if len(terms) > 1:
            text = "must have exactly one node selector term"
            errors.append(invalid("spec.nodeSelector.nodeSelectorTerms", terms, text))
    for key in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(key) is not None:
            if spec[key]:
                given.append(f"`{key}`")
            else:
                text = "must be either unset or set to true"
                errors.append(invalid(f"spec.{key}", False, text))
    text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not given:
        errors.append(required("spec", text))
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        errors.append(invalid("spec", shown, f"{text}, but multiple fields are set"))
    return errors


def _device(device: Tree, path: str, placed: bool) -> list[FieldError]:
    name = device.get("name", "")
    errors = problems(f"{path}.name", name, names.dns_label(name))
    for key in sorted(device.get("attributes") or {}):
        errors += _key(key, f"{path}.attributes")
        errors += _attribute(device["attributes"][key], f"{path}.attributes[{key}]")
    for key in sorted(device.get("capacity") or {}):
        errors += _key(key, f"{path}.capacity")
    for taint, spot in entries(device, "taints", path):
        errors += label_name(taint.get("key", ""), f"{spot}.key")
        value = taint.get("value", "")
        if value:
            errors += problems(f"{spot}.value", value, names.label_value(value))
        errors += choice(taint, "effect", spot, ("NoExecute", "NoSchedule", "None"))
    chosen = any(device.get(key) is not None for key in ("nodeName", "nodeSelector", "allNodes"))
    if chosen and not placed:
        text = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "
            "is set to true in the ResourceSlice spec"
        )
        errors.append(invalid(path, None, text))
    return errors


def _key(key: str, path: str) -> list[FieldError]:
    """The name of an attribute or a capacity; what is wrong with it is said of the map."""
    return (
        _attribute_name(key, path) if key else [required(f"{path}[{key}]", "name cannot be empty")]
    )


_ATTRIBUTE = ("Int", "Bool", "String", "Version", "Ints", "Bools", "Strings", "Versions")
_GO = ("IntValue", "BoolValue", "StringValue", "VersionValue", "IntValues", "BoolValues",
       "StringValues", "VersionValues")  # fmt: skip


def _attribute(attribute: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    text, version = attribute.get("string"), attribute.get("version")
    if text is not None and len(text) > MAX_STRING:
        errors.append(too_long(f"{path}.string", MAX_STRING))
    if version is not None:
        if not _SEMVER.fullmatch(version):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            errors.append(invalid(f"{path}.version", version, detail))
        if len(version) > MAX_STRING:
            errors.append(too_long(f"{path}.version", MAX_STRING))
    values = [attribute.get(name.lower()) for name in _ATTRIBUTE]
    given = [value for value in values if value is not None]
    if len(given) != 1:
        shown: Any = dict(zip(_GO, values, strict=True)) if given else ""
        errors.append(invalid(path, shown, "exactly one value must be specified"))
    return errors
