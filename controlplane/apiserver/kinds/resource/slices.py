"""ResourceSlices. Upstream: pkg/registry/resource/resourceslice, pkg/apis/resource."""

from __future__ import annotations

import re
from typing import Any

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.checks import (
    entries,
    immutable,
    no_longer,
    problems,
    when,
)
from controlplane.apiserver.kinds.core.resources import is_native
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.resource.capacity import validate_request_policy
from controlplane.apiserver.kinds.resource.parts import (
    attribute_name,
    binding_parameters,
    driver_name,
    limited,
    pool_name,
    same_items,
    tainted_now,
    validate_taint,
)
from controlplane.apiserver.kinds.selectors import validate_node_selector
from controlplane.apiserver.kinds.strategy import Context, Strategy, without
from controlplane.apiserver.kinds.trees import each, filled, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_found,
    required,
    too_long,
    too_many,
)
from controlplane.apiserver.schema.internal_form import internal

__all__ = ["KIND"]

LISTED_ATTRIBUTES = "DRAListTypeAttributes"
NODE_RESOURCES = "DRANodeAllocatableResources"
_LISTS = ("ints", "bools", "strings", "versions")
"""The fields of the first gate."""
_MAPPINGS = "nodeAllocatableResourceMappings"
"""The field of the second gate."""

MAX_DEVICES = 128
MAX_ADVANCED_DEVICES = 64
MAX_ATTRIBUTES = 32
MAX_VALUES = 48
MAX_COUNTER_SETS = 8
MAX_COUNTERS = 32
MAX_CONSUMPTIONS = 2
MAX_TAINTS = 16
MAX_STRING = 64
MAX_KEY = 96
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?"
)


def default_resource_slice(tree: Tree) -> Tree:
    """Fill in the multiplier of mappings to the resources of nodes."""

    def device(device: Tree) -> Tree:
        return inside(device, _MAPPINGS, _mapped)

    return inside(tree, "spec", lambda spec: each(spec, "devices", device))


def _mapped(mappings: Tree) -> Tree:
    return {key: filled(value, {"allocationMultiplier": "1"}) for key, value in mappings.items()}


def validate_resource_slice(tree: Tree) -> list[FieldError]:
    """Return the errors of a ResourceSlice."""
    return _slice(tree.get("spec") or {}, None)


def validate_resource_slice_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed slice, which stays with its driver, pool and node."""
    return _slice(new.get("spec") or {}, old.get("spec") or {})


def _slice(spec: Tree, was: Tree | None) -> list[FieldError]:
    errors = driver_name(spec.get("driver", ""), "spec.driver")
    errors += _pool(spec.get("pool") or {}, "spec.pool")
    if was is not None:
        pool, before = ((part.get("pool") or {}).get("name", "") for part in (spec, was))
        errors += immutable(pool, before, "spec.pool.name")
        for key in ("driver", "nodeName"):
            errors += immutable(spec.get(key), was.get(key), f"spec.{key}")
    errors += _placement(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        text = "only one of `sharedCounters` or `devices` is allowed"
        errors.append(invalid("spec", "", text))
    errors += _devices(spec, was)
    crowded = limited(spec, "sharedCounters", "spec", MAX_COUNTER_SETS)
    errors += crowded
    if not crowded:
        for counters, path in entries(spec, "sharedCounters", "spec"):
            errors += _counters(counters, "name", path)
        listed = [counters.get("name", "") for counters in spec.get("sharedCounters") or ()]
        errors += same_items(listed, "spec.sharedCounters")
    return errors


def _devices(spec: Tree, was: Tree | None) -> list[FieldError]:
    devices = spec.get("devices") or []
    advanced = any(_is_advanced(device) for device in devices)
    errors = limited(spec, "devices", "spec", MAX_ADVANCED_DEVICES if advanced else MAX_DEVICES)
    if errors:
        return errors
    earlier: dict[str, Tree] = {}
    for device in (was or {}).get("devices") or ():
        earlier.setdefault(device.get("name", ""), device)
    for device, path in entries(spec, "devices", "spec"):
        placed = bool(spec.get("perDeviceNodeSelection"))
        errors += _device(device, earlier.get(device.get("name", "")), path, placed)
    return errors + same_items([device.get("name", "") for device in devices], "spec.devices")


def _is_advanced(device: Tree) -> bool:
    """Return whether a device uses what halves the number of devices of its slice."""
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return any(
        attribute.get(key)
        for attribute in (device.get("attributes") or {}).values()
        for key in _LISTS
    )


def _pool(pool: Tree, path: str) -> list[FieldError]:
    errors = pool_name(pool.get("name", ""), f"{path}.name")
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
    if name:
        given.append("`nodeName`")
        errors += problems("spec.nodeName", name, names.dns_subdomain(name))
    elif name is not None:
        text = "must be either unset or set to a non-empty string"
        errors.append(invalid("spec.nodeName", name, text))
    if spec.get("nodeSelector") is not None:
        given.append("`nodeSelector`")
        errors += validate_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        terms = spec["nodeSelector"].get("nodeSelectorTerms")
        if len(terms or ()) != 1:
            text = "must have exactly one node selector term"
            shown = terms and [internal("NodeSelectorTerm", term) for term in terms]
            errors.append(invalid("spec.nodeSelector.nodeSelectorTerms", shown, text))
    for key in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(key):
            given.append(f"`{key}`")
        elif spec.get(key) is not None:
            errors.append(invalid(f"spec.{key}", False, "must be either unset or set to true"))
    text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not given:
        errors.append(required("spec", text))
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        errors.append(invalid("spec", shown, f"{text}, but multiple fields are set"))
    return errors


def _device(device: Tree, before: Tree | None, path: str, placed: bool) -> list[FieldError]:
    name = device.get("name", "")
    errors = problems(f"{path}.name", name, names.dns_label(name))
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > MAX_ATTRIBUTES:
        text = f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"
        errors.append(invalid(path, count, text))
    count = sum(_values_of(attribute) for attribute in attributes.values())
    if count > MAX_VALUES:
        text = f"the total number of attribute values must not exceed {MAX_VALUES}"
        errors.append(invalid(path, count, text))
    for key in sorted(attributes):
        errors += attribute_name(key, f"{path}.attributes")
        errors += _attribute(attributes[key], f"{path}.attributes[{_shortened(key)}]")
    shared = bool(device.get("allowMultipleAllocations"))
    for key in sorted(capacity):
        errors += attribute_name(key, f"{path}.capacity")
        errors += _capacity(capacity[key], f"{path}.capacity[{_shortened(key)}]", shared)
    if before is None or before.get("taints") != device.get("taints"):
        errors += _taints(device, path)
    errors += _consumption(device, path)
    errors += _placement_of(device, path) if placed else _placement_elsewhere(device, path)
    errors += binding_parameters(device, path)
    return errors + _node_resources(device, f"{path}.{_MAPPINGS}")


def _values_of(attribute: Tree) -> int:
    """Return the number of values of an attribute; a single one, and none, count once."""
    return sum(len(attribute.get(key) or ()) for key in _LISTS) or 1


def _node_resources(device: Tree, path: str) -> list[FieldError]:
    """Return the errors of mappings of a device to the resources of its node."""
    mappings, capacity = device.get(_MAPPINGS) or {}, device.get("capacity") or {}
    errors: list[FieldError] = []
    for name in sorted(mappings):
        place = f"{path}[{name}]"
        if not is_native(name):
            errors.append(invalid(place, name, "must be a node allocatable resource name"))
        multiplier, key = (
            mappings[name].get(key) for key in ("allocationMultiplier", "capacityKey")
        )
        if multiplier is None and key is None:
            text = "at least one of allocationMultiplier or capacityKey must be set"
            errors.append(invalid(place, "", text))
            continue
        if multiplier is not None and quantity.parse(multiplier).sign() <= 0:
            errors.append(invalid(f"{place}.allocationMultiplier", multiplier, "must be positive"))
        if key == "":
            text = "capacityKey must not be an empty string"
            errors.append(invalid(f"{place}.capacityKey", "", text))
        elif key is not None and key not in capacity:
            errors.append(not_found(f"{place}.capacityKey", key))
    return errors


def _shortened(key: str) -> str:
    """A key as a place shows it: one too long without its middle."""
    if len(key) <= MAX_KEY:
        return key
    left = MAX_KEY - 3
    return f"{key[: (left + 1) // 2]}...{key[len(key) - left // 2 :]}"


def _capacity(capacity: Tree, path: str, shared: bool) -> list[FieldError]:
    policy, place = capacity.get("requestPolicy"), f"{path}.requestPolicy"
    if policy is None:
        return []
    if not shared:
        return [forbidden(place, "allowMultipleAllocations must be true")]
    return validate_request_policy(policy, quantity.parse(capacity.get("value", "0")), place)


def _taints(device: Tree, path: str) -> list[FieldError]:
    errors = limited(device, "taints", path, MAX_TAINTS)
    if errors:
        return errors
    for taint, spot in entries(device, "taints", path):
        errors += validate_taint(taint, None, spot)
    return errors


def _consumption(device: Tree, path: str) -> list[FieldError]:
    errors = limited(device, "consumesCounters", path, MAX_CONSUMPTIONS)
    if errors:
        return errors
    for consumed, spot in entries(device, "consumesCounters", path):
        errors += _counters(consumed, "counterSet", spot)
    listed = [consumed.get("counterSet", "") for consumed in device.get("consumesCounters") or ()]
    return errors + same_items(listed, f"{path}.consumesCounters")


def _counters(owner: Tree, key: str, path: str) -> list[FieldError]:
    """A set of counters, and what it is called."""
    name, place = owner.get(key, ""), f"{path}.{key}"
    errors = problems(place, name, names.dns_label(name)) if name else [required(place)]
    counters, place = owner.get("counters") or {}, f"{path}.counters"
    if not counters:
        return [*errors, required(place)]
    if len(counters) > MAX_COUNTERS:
        return [*errors, too_many(place, len(counters), MAX_COUNTERS)]
    for counter in sorted(counters):
        errors += problems(place, counter, names.dns_label(counter))
    return errors


_ONE_PLACE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)


def _placement_of(device: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    given = []
    name = device.get("nodeName")
    if name:
        given.append("`nodeName`")
        errors += problems(f"{path}.nodeName", name, names.dns_subdomain(name))
    elif name is not None:
        errors.append(invalid(f"{path}.nodeName", name, "must not be empty"))
    if device.get("nodeSelector") is not None:
        given.append("`nodeSelector`")
        errors += validate_node_selector(device["nodeSelector"], f"{path}.nodeSelector")
    if device.get("allNodes"):
        given.append("`allNodes`")
    elif device.get("allNodes") is not None:
        errors.append(invalid(f"{path}.allNodes", False, "must be either unset or set to true"))
    if not given:
        errors.append(required(path, _ONE_PLACE))
    elif len(given) > 1:
        errors.append(invalid(path, f"{{{', '.join(given)}}}", _ONE_PLACE))
    return errors


def _placement_elsewhere(device: Tree, path: str) -> list[FieldError]:
    if all(device.get(key) is None for key in ("nodeName", "nodeSelector", "allNodes")):
        return []
    text = (
        "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is "
        "set to true in the ResourceSlice spec"
    )
    return [invalid(path, None, text)]


_ATTRIBUTE = ("Int", "Bool", "String", "Version", "Ints", "Bools", "Strings", "Versions")
_GO = (
    "IntValue",
    "BoolValue",
    "StringValue",
    "VersionValue",
    "IntValues",
    "BoolValues",
    "StringValues",
    "VersionValues",
)


def _attribute(attribute: Tree, path: str) -> list[FieldError]:
    text, version = attribute.get("string"), attribute.get("version")
    errors = when(
        text is not None and len(text) > MAX_STRING, too_long, f"{path}.string", MAX_STRING
    )
    if version is not None:
        if not _SEMVER.fullmatch(version):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            errors.append(invalid(f"{path}.version", version, detail))
        errors += no_longer(version, f"{path}.version", MAX_STRING)
    values = [attribute.get(name.lower()) for name in _ATTRIBUTE]
    given = [value for value in values if value is not None]
    if len(given) != 1:
        shown: Any = dict(zip(_GO, values, strict=True)) if given else ""
        errors.append(invalid(path, shown, "exactly one value must be specified"))
    return errors


class SliceStrategy(Strategy):
    """Resource slices: taints of devices say since when; what alpha gates bring is dropped."""

    def timed(self, ctx: Context, tree: Tree) -> Tree:
        """Return a slice whose taints all have a time. Defaulting that depends on the clock."""

        def device(device: Tree) -> Tree:
            return each(device, "taints", lambda taint: tainted_now(ctx, taint))

        return inside(tree, "spec", lambda spec: each(spec, "devices", device))

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return _without_disabled(super().prepare_create(ctx, self.timed(ctx, tree)), {}, ctx.gates)

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update with the fields and generation that the server sets; dropped fields count, as upstream."""
        return _without_disabled(
            super().prepare_update(ctx, self.timed(ctx, new), old), old, ctx.gates
        )

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
    written = ctx.written("spec")
    if not isinstance(written, dict):
        return tree
    spec = _emptied(tree["spec"], written, ("sharedCounters", "devices"))
    selector = written.get("nodeSelector")
    if isinstance(selector, dict):
        terms = ("nodeSelectorTerms",)
        spec = inside(spec, "nodeSelector", lambda given: _emptied(given, selector, terms))
    devices, given = spec.get("devices"), written.get("devices")
    if devices and isinstance(given, list) and len(given) == len(devices):
        shown = [
            _emptied(device, one.get("basic") or one, _BINDING) if isinstance(one, dict) else device
            for device, one in zip(devices, given, strict=True)
        ]
        spec = {**spec, "devices": shown}
    return {**tree, "spec": spec}


_BINDING = ("bindingConditions", "bindingFailureConditions")


def _emptied(part: Tree, written: Tree, keys: tuple[str, ...]) -> Tree:
    """Return a part with the lists at some keys that were written without items."""
    empty: Tree = {key: [] for key in keys if written.get(key) == [] and not part.get(key)}
    return {**part, **empty} if empty else part


def _without_disabled(tree: Tree, old: Tree, gates: frozenset[str]) -> Tree:
    """Return a slice without the fields of disabled gates that the old one does not use."""
    before = (old.get("spec") or {}).get("devices") or ()
    mapped = NODE_RESOURCES in gates or any(each.get(_MAPPINGS) for each in before)
    listed = LISTED_ATTRIBUTES in gates or any(
        attribute.get(key) is not None
        for device in before
        for attribute in (device.get("attributes") or {}).values()
        for key in _LISTS
    )

    def attribute(attribute: Tree) -> Tree:
        for key in _LISTS:
            attribute = without(attribute, key)
        return attribute

    def attributes(named: Tree) -> Tree:
        return {name: attribute(value) for name, value in named.items()}

    def device(device: Tree) -> Tree:
        device = device if listed else inside(device, "attributes", attributes)
        return device if mapped else without(device, _MAPPINGS)

    return inside(tree, "spec", lambda spec: each(spec, "devices", device))


KIND = Kind(
    strategy=SliceStrategy(
        timed_defaults=True,
        default=default_resource_slice,
        rule=validate_resource_slice,
        update_rule=validate_resource_slice_update,
        returns_deleted=True,
        has_status=False,
        generation=True,
    ),
    row=plain_row("spec.nodeName", "spec.driver", "spec.pool.name"),
    selectable={"metadata.name": "", "spec.nodeName": "", "spec.driver": ""},
)
