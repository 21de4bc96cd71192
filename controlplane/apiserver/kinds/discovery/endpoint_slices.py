"""EndpointSlices. Upstream: pkg/registry/discovery/endpointslice, pkg/apis/discovery."""

from __future__ import annotations

import ipaddress
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, first_few, name_of
from controlplane.apiserver.kinds.checks import entries, immutable, problems, when, word
from controlplane.apiserver.kinds.core.services import validate_not_special
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.metadata import NameRule
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.kinds.strategy import Context, Strategy, without
from controlplane.apiserver.kinds.trees import each, filled
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)

__all__ = ["KIND"]


def default_endpoint_slice(tree: Tree) -> Tree:
    """Default an EndpointSlice: ports are TCP and have a name, be it empty; missing lists are null."""
    named = each(tree, "ports", lambda port: filled(port, {"name": "", "protocol": "TCP"}))
    return {
        **named,
        "endpoints": named.get("endpoints") or None,
        "ports": named.get("ports") or None,
    }


def _full_name(text: str, path: str) -> list[FieldError]:
    """Upstream: IsFullyQualifiedDomainName of apimachinery's pkg/util/validation."""
    if not text:
        return [required(path)]
    text = text.removesuffix(".")
    wrong = names.dns_subdomain(text)
    if wrong:
        return [invalid(path, text, ",".join(wrong))]
    labels = text.split(".")
    if len(labels) < 2:
        problem = "should be a domain with at least two segments separated by dots"
        return [invalid(path, text, problem)]
    return [
        invalid(path, label, ",".join(found))
        for label in labels
        if (found := names.dns_label(label))
    ]


_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_endpoint_slice(tree: Tree) -> list[FieldError]:
    """Return the errors of an endpoint slice."""
    kind = tree.get("addressType", "")
    errors = word(kind, "addressType", _ADDRESS_TYPES)
    seen: dict[str, None] = {}
    for port, path in entries(tree, "ports", ""):
        name = port.get("name") or ""
        if name:
            errors += problems(f"{path}.name", name, names.dns_label(name))
        errors += when(name in seen, duplicate, f"{path}.name", name)
        seen[name] = None
        protocol = port.get("protocol")
        if protocol is None:
            errors.append(required(f"{path}.protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
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
    """Return the errors of a changed endpoint slice; its type of addresses stays."""
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
            texts = names.ip_problems(text)
            if texts:
                errors += problems(place, text, texts)
                continue
            errors += when(
                ipaddress.ip_address(text).version != wanted,
                invalid,
                f"{path}.addresses",
                text,
                f"must be {article} {kind} address",
            )

            errors += validate_not_special(text, place)
    elif kind == "FQDN":
        for index, text in enumerate(addresses):
            errors += _full_name(text, f"{path}.addresses[{index}]")
    node = endpoint.get("nodeName")
    if node is not None:
        errors += problems(f"{path}.nodeName", node, names.dns_subdomain(node))
    for key, value in sorted((endpoint.get("deprecatedTopology") or {}).items()):
        errors += label_name(key, f"{path}.deprecatedTopology[{key}]")
        errors += problems(f"{path}.deprecatedTopology[{key}]", value, names.label_value(value))
    host = endpoint.get("hostname")
    if host is not None:
        errors += problems(f"{path}.hostname", host, names.dns_label(host))
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
            errors += problems(place, name, rule(name))
        seen.add(name)
    return errors


class EndpointSliceStrategy(Strategy):
    """Endpoint slices count every change outside metadata, and label changes."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        tree = each(tree, "endpoints", lambda endpoint: without(endpoint, "deprecatedTopology"))
        return {**tree, "metadata": {**tree["metadata"], "generation": 1}}

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        if old is None and tree.get("addressType") == "FQDN":
            return ["spec.addressType: FQDN endpoints are deprecated"]
        return []

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        meta, was = new["metadata"], old["metadata"]
        changed = any(
            new.get(key) != old.get(key) for key in ("endpoints", "ports", "addressType")
        ) or meta.get("labels") != was.get("labels")
        # Counted before it is dropped, as upstream does.
        if not any("deprecatedTopology" in endpoint for endpoint in old.get("endpoints") or ()):
            new = each(new, "endpoints", lambda endpoint: without(endpoint, "deprecatedTopology"))
        if not changed:
            return new
        return {**new, "metadata": {**meta, "generation": was.get("generation", 0) + 1}}


def _row(tree: Tree, now: int) -> list[Any]:
    ports = []
    for port in tree.get("ports") or ():
        if port.get("name") and port.get("port") is None:
            ports.append(port["name"])
        elif port.get("port") is not None:
            ports.append(str(port["port"]))
    addresses = [
        text for endpoint in tree.get("endpoints") or () for text in endpoint.get("addresses") or ()
    ]
    return [
        name_of(tree),
        tree.get("addressType", ""),
        first_few(ports) or "<unset>",
        first_few(addresses) or "<unset>",
        age_of(tree, now),
    ]


KIND = Kind(
    strategy=EndpointSliceStrategy(
        default=default_endpoint_slice,
        rule=validate_endpoint_slice,
        update_rule=validate_endpoint_slice_update,
        has_status=False,
        meta_steps="A",
    ),
    row=_row,
)
