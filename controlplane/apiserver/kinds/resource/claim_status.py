"""Validation of the allocation of a device claim. Upstream: pkg/apis/resource/validation."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from controlplane.api.equality import Seen
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import (
    at_most,
    choice,
    entries,
    immutable,
    no_longer,
    present,
    problems,
)
from controlplane.apiserver.kinds.conditions import validate_conditions
from controlplane.apiserver.kinds.resource.parts import (
    binding_parameters,
    configuration,
    driver_name,
    json_object,
    limited,
    pool_name,
    references,
    request_names,
    same_items,
    validate_toleration,
)
from controlplane.apiserver.kinds.selectors import validate_node_selector
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    too_many,
)
from controlplane.apiserver.schema.internal_form import internal

__all__ = ["admin_access", "validate_device_claim_status"]

MAX_CONSUMERS = 256
MAX_RESULTS = 32
MAX_CONFIGURATIONS = 64
MAX_CONDITIONS = 8
MAX_DATA = 10 * 1024
MAX_ADDRESSES = 16
MAX_INTERFACE_NAME = 256
MAX_HARDWARE_ADDRESS = 128
_DASHED = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID = re.compile(rf"(urn:uuid:)?{_DASHED}|\{{{_DASHED}\}}|[0-9a-f]{{32}}")
_UUID_LENGTHS = (32, 36, 38, 45)


def admin_access(requests: list[Tree], path: str, key: str = "") -> str:
    """The field by which a list first asks for administrator's access; "" if none does."""
    for index, item in enumerate(requests):
        if ((item.get(key) or {}) if key else item).get("adminAccess"):
            return f"{path}[{index}].adminAccess"
    return ""


def validate_device_claim_status(new: Tree, old: Tree, written: Any = None) -> list[FieldError]:
    """Return the errors of a claim's status: an allocation that is made stays as it is.

    `written` is the allocation as it came.
    """
    status, was = new.get("status") or {}, old.get("status") or {}
    allocation, before = status.get("allocation"), was.get("allocation")
    errors = _consumers(status, "status")
    allocated = {
        _device_key(result, "device")
        for result in ((allocation or {}).get("devices") or {}).get("results") or ()
    }
    for device, path in entries(status, "devices", "status"):
        errors += _device(device, path, allocated)
    errors += same_items(
        [_device_shown(device) for device, _ in entries(status, "devices", "status")],
        "status.devices",
    )
    consumers, had = status.get("reservedFor") or [], Seen(was.get("reservedFor") or [])
    if consumers and allocation is None:
        text = "may not be specified when `allocated` is not set"
        errors.append(forbidden("status.reservedFor", text))
    elif "deletionTimestamp" in new["metadata"] and any(item not in had for item in consumers):
        text = (
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are "
            "set"
        )
        errors.append(forbidden("status.reservedFor", text))
    if allocation is not None and before is not None:
        shown = internal("AllocationResult", allocation, written)
        errors += immutable(shown, internal("AllocationResult", before), "status.allocation")
    elif allocation is not None:
        known = request_names(((new.get("spec") or {}).get("devices")) or {})
        errors += _allocation(allocation, known, "status.allocation")
    return errors


def _consumers(status: Tree, path: str) -> list[FieldError]:
    errors = limited(status, "reservedFor", path, MAX_CONSUMERS)
    if errors:
        return errors
    for consumer, spot in entries(status, "reservedFor", path):
        for key in ("resource", "name", "uid"):
            errors += present(consumer, key, spot)
    uids = [consumer.get("uid", "") for consumer in status.get("reservedFor") or ()]
    return errors + same_items(uids, f"{path}.reservedFor")


def _device_key(device: Tree, key: str) -> tuple[str, ...]:
    return (
        device.get("driver", ""),
        device.get("pool", ""),
        device.get(key, ""),
        device.get("shareID") or "",
    )


def _device_shown(device: Tree) -> Tree:
    names_of = ("Driver", "Pool", "Device", "ShareID")
    return dict(zip(names_of, _device_key(device, "device"), strict=True))


def _device(device: Tree, path: str, allocated: set[tuple[str, ...]]) -> list[FieldError]:
    errors = driver_name(device.get("driver", ""), f"{path}.driver")
    errors += pool_name(device.get("pool", ""), f"{path}.pool")
    name = device.get("device", "")
    errors += problems(f"{path}.device", name, names.dns_label(name))
    errors += _share(device, path)
    if _device_key(device, "device") not in allocated:
        text = "must be an allocated device in the claim"
        errors.append(invalid(path, _device_shown(device), text))
    conditions = device.get("conditions") or []
    errors += at_most(conditions, f"{path}.conditions", MAX_CONDITIONS)
    errors += validate_conditions(conditions, f"{path}.conditions")
    if "data" in device:
        errors += json_object(device["data"], f"{path}.data", MAX_DATA)
    return errors + _network(device.get("networkData") or {}, f"{path}.networkData")


def _share(owner: Tree, path: str) -> list[FieldError]:
    text, place = owner.get("shareID"), f"{path}.shareID"
    if text is None:
        return []
    if _UUID.fullmatch(text.lower()) is None:
        form = "UUID format" if len(text) in _UUID_LENGTHS else f"UUID length: {len(text)}"
        return [invalid(place, text, f"error validating uid: invalid {form}")]
    if len(text) == 36 and text == text.lower():
        return []
    detail = (
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with "
        "lowercase hexadecimal characters"
    )
    return [invalid(place, text, detail)]


def _network(data: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, most in (
        ("interfaceName", MAX_INTERFACE_NAME),
        ("hardwareAddress", MAX_HARDWARE_ADDRESS),
    ):
        errors += no_longer(data.get(key, ""), f"{path}.{key}", most)
    addresses = data.get("ips") or []
    if len(addresses) > MAX_ADDRESSES:
        return [*errors, too_many(f"{path}.ips", len(addresses), MAX_ADDRESSES)]
    for index, text in enumerate(addresses):
        errors += _address(text, f"{path}.ips[{index}]")
    return errors + same_items(addresses, f"{path}.ips")


def _without_zeros(text: str) -> str:
    """Return a CIDR without the leading zeros of its decimal parts, which older parsers of Go accept."""
    address, slash, bits = text.partition("/")
    parts = [(part.lstrip("0") or "0") if part.isdecimal() else part for part in address.split(".")]
    return ".".join(parts) + slash + bits


def _address(text: str, path: str) -> list[FieldError]:
    try:
        known = str(ipaddress.ip_interface(_without_zeros(text))) if "/" in text else ""
    except ValueError:
        known = ""
    if not known:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [invalid(path, text, detail)]
    return [] if known == text else [invalid(path, text, f'must be in canonical form ("{known}")')]


def _allocation(allocation: Tree, known: set[str], path: str) -> list[FieldError]:
    devices, place = allocation.get("devices") or {}, f"{path}.devices"
    errors = limited(devices, "results", place, MAX_RESULTS)
    if not errors:
        for result, spot in entries(devices, "results", place):
            errors += _result(result, known, spot)
    crowded = limited(devices, "config", place, MAX_CONFIGURATIONS)
    errors += crowded
    if not crowded:
        for config, spot in entries(devices, "config", place):
            errors += choice(config, "source", spot, ("FromClaim", "FromClass"))
            errors += references(config, known, spot)
            errors += configuration(config, spot)
    if allocation.get("nodeSelector") is not None:
        errors += validate_node_selector(allocation["nodeSelector"], f"{path}.nodeSelector")
    return errors


def _result(result: Tree, known: set[str], path: str) -> list[FieldError]:
    errors = references({"requests": [result.get("request", "")]}, known, path, f"{path}.request")
    errors += driver_name(result.get("driver", ""), f"{path}.driver")
    errors += pool_name(result.get("pool", ""), f"{path}.pool")
    name = result.get("device", "")
    errors += problems(f"{path}.device", name, names.dns_label(name))
    errors += binding_parameters(result, path)
    for toleration, spot in entries(result, "tolerations", path):
        errors += validate_toleration(toleration, spot)
    return errors + _share(result, path)
