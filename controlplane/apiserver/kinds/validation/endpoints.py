"""Validation of endpoints and endpoint slices. Upstream: pkg/apis/{core,discovery}/validation."""

from __future__ import annotations

import ipaddress

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.metadata import NameRule
from controlplane.apiserver.kinds.validation.selectors import label_name
from controlplane.apiserver.kinds.validation.shared import immutable
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)

__all__ = ["validate_endpoint_slice", "validate_endpoint_slice_update", "validate_endpoints"]


# -- endpoints -----------------------------------------------------------------------------------


def validate_endpoints(tree: Tree) -> list[FieldError]:
    """Endpoints."""
    errors: list[FieldError] = []
    for index, subset in enumerate(tree.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for key in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(key) or ()):
                errors += _endpoint_address(address, f"{path}.{key}[{number}]")
        ports = subset.get("ports") or []
        for number, port in enumerate(ports):
            errors += _endpoint_port(port, len(ports) > 1, f"{path}.ports[{number}]")
    return errors


def _endpoint_address(address: Tree, path: str) -> list[FieldError]:
    ip = address.get("ip", "")
    errors = [invalid(f"{path}.ip", ip, problem) for problem in names.ip_problems(ip)]
    unreadable = bool(errors)
    host = address.get("hostname", "")
    if host:
        errors += [invalid(f"{path}.hostname", host, p) for p in names.dns_label(host)]
    node = address.get("nodeName")
    if node is not None:
        errors += [invalid(f"{path}.nodeName", node, p) for p in names.dns_subdomain(node)]
    if unreadable:  # the check for special addresses reads it once more
        errors.append(invalid(f"{path}.ip", ip, "must be a valid IP address"))
    if not errors or not names.ip_problems(ip):
        from controlplane.apiserver.kinds.validation.services import _not_special

        if not names.ip_problems(ip):
            errors += _not_special(ip, f"{path}.ip")
    return errors


def _endpoint_port(port: Tree, several: bool, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = port.get("name", "")
    if several and not name:
        errors.append(required(f"{path}.name"))
    elif name:
        errors += [invalid(f"{path}.name", name, problem) for problem in names.dns_label(name)]
    number = port.get("port", 0)
    errors += [invalid(f"{path}.port", number, problem) for problem in names.port_number(number)]
    protocol = port.get("protocol", "")
    if not protocol:
        errors.append(required(f"{path}.protocol"))
    elif protocol not in ("SCTP", "TCP", "UDP"):
        errors.append(not_supported(f"{path}.protocol", protocol, ("SCTP", "TCP", "UDP")))
    return errors


_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def validate_endpoint_slice(tree: Tree) -> list[FieldError]:
    """An endpoint slice."""
    kind = tree.get("addressType", "")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        errors.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    seen: dict[str, None] = {}
    for index, port in enumerate(tree.get("ports") or ()):
        path = f"ports[{index}]"
        name = port.get("name") or ""
        if name:
            errors += [invalid(f"{path}.name", name, problem) for problem in names.dns_label(name)]
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen[name] = None
        protocol = port.get("protocol") or ""
        if not protocol:
            errors.append(required(f"{path}.protocol"))
        elif protocol not in ("SCTP", "TCP", "UDP"):
            errors.append(not_supported(f"{path}.protocol", protocol, ("SCTP", "TCP", "UDP")))
        app = port.get("appProtocol")
        if app is not None:
            errors += label_name(app, f"{path}.appProtocol")
    endpoints = tree.get("endpoints") or []
    if len(endpoints) > 1000:
        errors.append(too_many("endpoints", len(endpoints), 1000))
        return errors
    for index, endpoint in enumerate(endpoints):
        errors += _slice_endpoint(endpoint, kind, f"endpoints[{index}]")
    return errors


def validate_endpoint_slice_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed endpoint slice; its type of addresses stays."""
    kind, was = new.get("addressType", ""), old.get("addressType", "")
    return validate_endpoint_slice(new) + immutable(kind, was, "addressType")


def _slice_endpoint(endpoint: Tree, kind: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    addresses = endpoint.get("addresses") or []
    if not addresses:
        errors.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > 100:
        errors.append(too_many(f"{path}.addresses", len(addresses), 100))
    if kind in {"IPv4", "IPv6"}:
        wanted = 4 if kind == "IPv4" else 6
        article = "an" if kind[0] in "aeiouI" else "a"
        for index, text in enumerate(addresses):
            place = f"{path}.addresses[{index}]"
            problems = names.ip_problems(text)
            if problems:
                errors += [invalid(place, text, problem) for problem in problems]
                continue
            if ipaddress.ip_address(text).version != wanted:
                errors.append(invalid(f"{path}.addresses", text,
                                      f"must be {article} {kind} address"))  # fmt: skip
            from controlplane.apiserver.kinds.validation.services import _not_special

            errors += _not_special(text, place)
    elif kind == "FQDN":
        for index, text in enumerate(addresses):
            errors += [
                invalid(f"{path}.addresses[{index}]", text, p) for p in names.dns_subdomain(text)
            ]
    node = endpoint.get("nodeName")
    if node is not None:
        errors += [invalid(f"{path}.nodeName", node, p) for p in names.dns_subdomain(node)]
    for key, value in sorted((endpoint.get("deprecatedTopology") or {}).items()):
        errors += label_name(key, f"{path}.deprecatedTopology[{key}]")
        errors += [invalid(f"{path}.deprecatedTopology[{key}]", value, p)
                   for p in names.label_value(value)]  # fmt: skip
    host = endpoint.get("hostname")
    if host is not None:
        errors += [invalid(f"{path}.hostname", host, p) for p in names.dns_label(host)]
    hints = endpoint.get("hints") or {}
    for key, rule in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        errors += _hints(hints.get(key) or [], rule, f"{path}.hints.{key}")
    return errors


MAX_HINTS = 8


def _hints(hints: list[Tree], rule: NameRule, path: str) -> list[FieldError]:
    if len(hints) > MAX_HINTS:
        return [too_many(path, len(hints), MAX_HINTS)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, hint in enumerate(hints):
        name, place = hint.get("name", ""), f"{path}[{index}].name"
        if name in seen:
            errors.append(duplicate(place, name))
        else:
            errors += [invalid(place, name, problem) for problem in rule(name)]
        seen.add(name)
    return errors
