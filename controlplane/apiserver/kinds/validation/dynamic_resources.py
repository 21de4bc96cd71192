"""Device claims, their templates and classes. Upstream: pkg/apis/resource/validation."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.custom.cel import CelError, compile_rule
from controlplane.apiserver.kinds.custom.rules import location
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.kinds.validation.checks import entries, problems
from controlplane.apiserver.kinds.validation.device_parts import (
    configuration,
    limited,
    qualified,
    references,
    request_names,
    same_items,
    validate_toleration,
)
from controlplane.apiserver.kinds.validation.resources import is_extended
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from controlplane.apiserver.schema.internal_form import internal
from controlplane.apiserver.schema.raw_extension import RawExtension

__all__ = [
    "validate_claim_template", "validate_claim_template_update", "validate_device_class",
    "validate_device_claim", "validate_device_claim_update",
]  # fmt: skip

MAX_SUBREQUESTS = 8
MAX_EXPRESSION = 10 * 1024
_DEVICE = frozenset(("device",))


# -- claims --------------------------------------------------------------------------------------


def validate_device_claim(tree: Tree) -> list[FieldError]:
    """A ResourceClaim."""
    return _claim(tree.get("spec") or {}, "spec")


def validate_device_claim_update(new: Tree, old: Tree, written: Any) -> list[FieldError]:
    """A changed claim; what it asks for stays. `written` is the spec as it was written."""
    spec = internal("ResourceClaimSpec", new.get("spec") or {}, written)
    return _kept(spec, internal("ResourceClaimSpec", old.get("spec") or {}))


def _kept(spec: Tree, was: Tree) -> list[FieldError]:
    """Nothing changed; a list without items is as good as none."""
    return [] if _bare(spec) == _bare(was) else [invalid("spec", spec, "field is immutable")]


def _bare(shown: Any) -> Any:
    if isinstance(shown, RawExtension):
        return shown
    if isinstance(shown, list):
        return [_bare(item) for item in shown] or None
    if isinstance(shown, dict):
        return {key: _bare(value) for key, value in shown.items()} or None
    return shown


def validate_claim_template(tree: Tree, written: Any = None) -> list[FieldError]:
    """A ResourceClaimTemplate. `written` is the template's metadata as it was written."""
    spec = tree.get("spec") or {}
    meta = spec.get("metadata") or {}
    given = written if isinstance(written, dict) else {}
    errors: list[FieldError] = []
    for key in (
        "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    ):  # fmt: skip
        if meta.get(key):
            errors.append(forbidden(f"spec.metadata.{key}", "cannot be set"))
    for key in ("ownerReferences", "finalizers", "managedFields"):
        if meta.get(key) is not None or given.get(key) == []:
            errors.append(forbidden(f"spec.metadata.{key}", "cannot be set"))
    errors += validate_labels(meta.get("labels") or {}, "spec.metadata.labels")
    errors += validate_annotations(meta.get("annotations") or {}, "spec.metadata.annotations")
    return errors + _claim(spec.get("spec") or {}, "spec.spec")


def validate_claim_template_update(new: Tree, old: Tree, written: Any) -> list[FieldError]:
    """A changed template: nothing of it may change. `written` is the spec as it was written."""
    given = written if isinstance(written, dict) else {}
    errors = validate_claim_template(new, given.get("metadata"))
    return errors + _kept(_template_shown(new, given.get("spec")), _template_shown(old, None))


def _template_shown(tree: Tree, written: Any) -> Tree:
    spec = tree.get("spec") or {}
    inner = internal("ResourceClaimSpec", spec.get("spec") or {}, written)
    kept = {key: value for key, value in (spec.get("metadata") or {}).items() if value}
    return {**kept, "Spec": inner}


def _claim(spec: Tree, path: str) -> list[FieldError]:
    devices, place = spec.get("devices") or {}, f"{path}.devices"
    known = request_names(devices)
    errors = limited(devices, "requests", place)
    if not errors:
        for request, spot in entries(devices, "requests", place):
            errors += _request(request, spot)
        errors += same_items(
            [request.get("name", "") for request in devices.get("requests") or ()],
            f"{place}.requests",
        )
    crowded = limited(devices, "constraints", place)
    errors += crowded
    if not crowded:
        for constraint, spot in entries(devices, "constraints", place):
            errors += _constraint(constraint, known, spot)
    crowded = limited(devices, "config", place)
    errors += crowded
    if not crowded:
        for config, spot in entries(devices, "config", place):
            errors += references(config, known, spot)
            errors += configuration(config, spot)
    return errors


def _constraint(constraint: Tree, known: set[str], path: str) -> list[FieldError]:
    errors = references(constraint, known, path)
    for key in ("matchAttribute", "distinctAttribute"):
        if constraint.get(key) is not None:
            return errors + qualified(constraint[key], f"{path}.{key}")
    text = (
        'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields '
        "are set"
    )
    return [*errors, required(path, text)]


def _request(request: Tree, path: str) -> list[FieldError]:
    name = request.get("name", "")
    errors = problems(f"{path}.name", name, names.dns_label(name))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    text = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is not None and alternatives:
        return [*errors, invalid(path, None, f"{text}, but multiple fields are set")]
    if alternatives:
        crowded = limited(request, "firstAvailable", path, MAX_SUBREQUESTS)
        if crowded:
            return errors + crowded
        for sub, spot in entries(request, "firstAvailable", path):
            inner = sub.get("name", "")
            errors += problems(f"{spot}.name", inner, names.dns_label(inner))
            errors += _wish(sub, spot)
        errors += same_items(
            [sub.get("name", "") for sub in alternatives], f"{path}.firstAvailable"
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
        errors += validate_toleration(toleration, spot)
    return errors


def _selectors(owner: Tree, path: str) -> list[FieldError]:
    errors = limited(owner, "selectors", path)
    if errors:
        return errors
    for selector, spot in entries(owner, "selectors", path):
        cel = selector.get("cel")
        if cel is None:
            errors.append(required(f"{spot}.cel"))
            continue
        source = cel.get("expression", "")
        if len(source) > MAX_EXPRESSION:
            errors.append(too_long(f"{spot}.cel.expression", MAX_EXPRESSION))
            continue
        try:
            compile_rule(source, _DEVICE)
        except CelError as error:
            text = f"compilation failed: {location(source, error)}"
            errors.append(invalid(f"{spot}.cel.expression", source, text))
    return errors


# -- classes -------------------------------------------------------------------------------------


def validate_device_class(tree: Tree) -> list[FieldError]:
    """A DeviceClass."""
    spec = tree.get("spec") or {}
    errors = _selectors(spec, "spec")
    crowded = limited(spec, "config", "spec")
    errors += crowded
    if not crowded:
        for config, path in entries(spec, "config", "spec"):
            errors += configuration(config, path)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        text = "must be a valid extended resource name"
        errors.append(invalid("spec.extendedResourceName", name, text))
    return errors
