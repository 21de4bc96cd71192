"""ResourceClaims. Upstream: pkg/registry/resource/resourceclaim, pkg/apis/resource."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import entries, problems, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.resource.claim_status import (
    admin_access,
    validate_device_claim_status,
)
from controlplane.apiserver.kinds.resource.device_classes import validate_selectors
from controlplane.apiserver.kinds.resource.parts import (
    configuration,
    limited,
    qualified,
    references,
    request_names,
    same_items,
    validate_toleration,
)
from controlplane.apiserver.kinds.strategy import Context, Strategy, without
from controlplane.apiserver.kinds.trees import each, in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.field_errors import internal as internal_error
from controlplane.apiserver.schema.internal_form import internal
from controlplane.apiserver.schema.raw_extension import RawExtension

__all__ = [
    "KIND",
    "admin_allowed",
    "default_claim_spec",
    "requests_of",
    "validate_claim_spec",
    "validate_spec_kept",
]


def _default_request(request: Tree) -> Tree:
    def exactly(exact: Tree) -> Tree:
        exact = exact if exact.get("allocationMode") else {**exact, "allocationMode": "ExactCount"}
        if exact["allocationMode"] == "ExactCount" and not exact.get("count"):
            exact = {**exact, "count": 1}
        return exact

    return each(inside(request, "exactly", exactly), "firstAvailable", exactly)


def default_claim_spec(spec: Tree) -> Tree:
    """Default the requests of a claim's spec."""
    return inside(spec, "devices", lambda devices: each(devices, "requests", _default_request))


def default_resource_claim(tree: Tree) -> Tree:
    """Default the number of devices of each request of a ResourceClaim."""
    return in_spec(tree, default_claim_spec)


MAX_SUBREQUESTS = 8


def validate_device_claim(tree: Tree) -> list[FieldError]:
    """Return the errors of a ResourceClaim."""
    return validate_claim_spec(tree.get("spec") or {}, "spec")


def validate_device_claim_update(new: Tree, old: Tree, written: Any) -> list[FieldError]:
    """Return the errors of a changed claim; what it asks for stays. `written` is the spec as it was written."""
    spec = internal("ResourceClaimSpec", new.get("spec") or {}, written)
    return validate_spec_kept(spec, internal("ResourceClaimSpec", old.get("spec") or {}))


def validate_spec_kept(spec: Tree, was: Tree) -> list[FieldError]:
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


def validate_claim_spec(spec: Tree, path: str) -> list[FieldError]:
    """Return the errors of a claim's spec."""
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
    return errors + when(exactly is None and not alternatives, required, path, text)


def _wish(wish: Tree, path: str) -> list[FieldError]:
    name, place = wish.get("deviceClassName", ""), f"{path}.deviceClassName"
    errors = problems(place, name, names.dns_subdomain(name)) if name else [required(place)]
    errors += validate_selectors(wish, path)
    mode, count = wish.get("allocationMode", ""), wish.get("count", 0)
    if mode == "All":
        if count:
            text = "must not be specified when allocationMode is 'All'"
            errors.append(invalid(f"{path}.count", count, text))
    elif mode == "ExactCount":
        errors += when(count <= 0, invalid, f"{path}.count", count, "must be greater than zero")
    else:
        errors.append(not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount")))
    for toleration, spot in entries(wish, "tolerations", path):
        errors += validate_toleration(toleration, spot)
    return errors


_ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def admin_allowed(ctx: Context, path: str) -> list[FieldError]:
    """Administrator's access, asked for at a path ("" for nowhere), is what the namespace grants."""
    if not path:
        return []
    namespace = ctx.find("", "namespaces", "", ctx.request.namespace)
    if namespace is None:
        text = (
            "could not retrieve namespace to verify admin access: "
            f'namespaces "{ctx.request.namespace}" not found'
        )
        return [internal_error(path, text)]
    labels = namespace.tree["metadata"].get("labels") or {}
    if labels.get(_ADMIN_LABEL) == "true":
        return []
    text = (
        f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing "
        "namespace"
    )
    return [forbidden(path, text)]


def _results(tree: Tree) -> list[Tree]:
    allocation = (tree.get("status") or {}).get("allocation") or {}
    found: list[Tree] = (allocation.get("devices") or {}).get("results") or []
    return found


def _device(item: Tree) -> tuple[str, str, str]:
    return (item.get("driver", ""), item.get("pool", ""), item.get("device", ""))


def requests_of(spec: Tree) -> list[Tree]:
    """The requests of a claim's spec."""
    found: list[Tree] = (spec.get("devices") or {}).get("requests") or []
    return found


class DeviceClaimStrategy(Strategy):
    """Claims of devices. Upstream: pkg/registry/resource/resourceclaim/strategy.go."""

    def permits(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the error of administrator's access that the namespace does not grant."""
        asked = admin_access(
            requests_of(tree.get("spec") or {}), "spec.devices.requests", "exactly"
        )
        return admin_allowed(ctx, asked)

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return validate_device_claim_update(new, old, ctx.written("spec"))

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of a status update of this kind."""
        place = "status.allocation.devices.results"
        had = admin_access(_results(old), place)
        asked = "" if had else admin_access(_results(new), place)
        return admin_allowed(ctx, asked) + validate_device_claim_status(
            new, old, ctx.written("status", "allocation")
        )

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update of this kind without the state of deallocated devices."""
        new = super().prepare_status_update(ctx, new, old)
        gone = {_device(each) for each in _results(old)} - {_device(each) for each in _results(new)}
        status = new.get("status") or {}
        devices = status.get("devices") or []
        kept = [device for device in devices if _device(device) not in gone]
        if len(kept) == len(devices):
            return new
        status = {**status, "devices": kept} if kept else without(status, "devices")
        return {**new, "status": status}


def _claim_state(tree: Tree) -> str:
    state = part_of(tree, "status")
    words = []
    if tree["metadata"].get("deletionTimestamp"):
        words.append("deleted")
    if state.get("allocation") is None:
        if not words:
            words.append("pending")
    else:
        words.append("allocated")
        if state.get("reservedFor"):
            words.append("reserved")
    return ",".join(words)


KIND = Kind(
    strategy=DeviceClaimStrategy(
        default=default_resource_claim,
        rule=validate_device_claim,
        returns_deleted=True,
        status_keeps_meta=True,
        meta_steps="AU",
    ),
    row=lambda tree, now: [
        name_of(tree),
        _claim_state(tree),
        age_of(tree, now),
    ],
)
