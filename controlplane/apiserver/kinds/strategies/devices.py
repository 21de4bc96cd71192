"""Strategies of devices: claims of them, their templates, and slices of what drivers offer."""

from __future__ import annotations

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.defaulting.pods import each, filled, inside
from controlplane.apiserver.kinds.strategy import Context, Strategy, without, without_labels
from controlplane.apiserver.kinds.validation import common as rules
from controlplane.apiserver.schema.field_errors import FieldError, forbidden

__all__ = ["ClaimTemplateStrategy", "DeviceClaimStrategy", "SliceStrategy"]

_ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def _admin_allowed(ctx: Context, path: str) -> list[FieldError]:
    """Administrator's access, asked for at a path ("" for nowhere), is what the namespace grants."""
    if not path:
        return []
    namespace = ctx.find("", "namespaces", "", ctx.request.namespace)
    labels = (namespace.tree["metadata"].get("labels") or {}) if namespace is not None else {}
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


def _requests(spec: Tree) -> list[Tree]:
    found: list[Tree] = (spec.get("devices") or {}).get("requests") or []
    return found


class DeviceClaimStrategy(Strategy):
    """Claims of devices. Upstream: pkg/registry/resource/resourceclaim/strategy.go."""

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        asked = rules.admin_access(
            _requests(tree.get("spec") or {}), "spec.devices.requests", "exactly"
        )
        return _admin_allowed(ctx, asked) + super().validate(ctx, tree)

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return rules.validate_device_claim_update(new, old, ctx.written("spec"))

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of a status update of this kind."""
        place = "status.allocation.devices.results"
        had = rules.admin_access(_results(old), place)
        asked = "" if had else rules.admin_access(_results(new), place)
        return _admin_allowed(ctx, asked) + rules.validate_device_claim_status(new, old)

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


class ClaimTemplateStrategy(Strategy):
    """Templates of resource claims."""

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        spec = (tree.get("spec") or {}).get("spec") or {}
        asked = rules.admin_access(_requests(spec), "spec.devices.requests", "exactly")
        written = ctx.written("spec", "metadata")
        return _admin_allowed(ctx, asked) + rules.validate_claim_template(tree, written)

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return rules.validate_claim_template_update(new, old, ctx.written("spec"))

    def finish(self, tree: Tree) -> Tree:
        """Return the stored form: without empty labels."""
        return inside(tree, "spec", lambda spec: inside(spec, "metadata", without_labels))


class SliceStrategy(Strategy):
    """Resource slices: taints of devices say since when; what alpha gates bring is dropped."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return _without_disabled(super().prepare_create(ctx, _tainted_now(ctx, tree)), {})

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update with the fields and generation that the server sets; dropped fields count, as upstream."""
        return _without_disabled(super().prepare_update(ctx, _tainted_now(ctx, new), old), old)

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        return super().validate(ctx, _as_written(ctx, tree))

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return super().validate_update(ctx, _as_written(ctx, new), old)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        driver = (tree.get("spec") or {}).get("driver", "")
        if driver == driver.lower():
            return []
        said = f'"{driver}" contains uppercase characters'
        return [f"spec.driver: driver names should be lowercase; {said}"]


def _as_written(ctx: Context, tree: Tree) -> Tree:
    """The slice with those lists that were written without items: they too are given."""
    empty: Tree = {key: [] for key in ("sharedCounters", "devices")
                   if ctx.written("spec", key) == []}  # fmt: skip
    return {**tree, "spec": {**empty, **tree["spec"]}} if empty else tree


_LISTS = ("ints", "bools", "strings", "versions")
"""The fields of feature gate DRAListTypeAttributes."""


_MAPPINGS = "nodeAllocatableResourceMappings"
"""The field of feature gate DRANodeAllocatableResources."""


def _without_disabled(tree: Tree, old: Tree) -> Tree:
    mapped = any(each.get(_MAPPINGS) for each in (old.get("spec") or {}).get("devices") or ())

    def attribute(attribute: Tree) -> Tree:
        for key in _LISTS:
            attribute = without(attribute, key)
        return attribute

    def attributes(named: Tree) -> Tree:
        return {name: attribute(value) for name, value in named.items()}

    def device(device: Tree) -> Tree:
        device = inside(device, "attributes", attributes)
        return device if mapped else without(device, _MAPPINGS)

    return inside(tree, "spec", lambda spec: each(spec, "devices", device))


def _tainted_now(ctx: Context, tree: Tree) -> Tree:
    now = format_time(ctx.now)

    def device(device: Tree) -> Tree:
        return each(device, "taints", lambda taint: filled(taint, {"timeAdded": now}))

    return inside(tree, "spec", lambda spec: each(spec, "devices", device))
