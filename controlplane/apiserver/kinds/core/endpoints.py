"""Endpoints, which EndpointSlices have replaced. Upstream: pkg/registry/core/endpoint, pkg/apis/core/validation."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, first_few, name_of
from controlplane.apiserver.kinds.checks import entries, problems, when, word
from controlplane.apiserver.kinds.core.services import validate_not_special
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.read_warnings import warnings_of
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.kinds.trees import each
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required

__all__ = ["KIND"]


def _tcp(port: Tree) -> Tree:
    return port if port.get("protocol") else {**port, "protocol": "TCP"}


def default_endpoints(tree: Tree) -> Tree:
    """Ports are TCP."""
    return each(tree, "subsets", lambda subset: each(subset, "ports", _tcp))


def validate_endpoints(tree: Tree) -> list[FieldError]:
    """Endpoints."""
    errors: list[FieldError] = []
    for subset, path in entries(tree, "subsets", ""):
        errors += when(
            not subset.get("addresses") and not subset.get("notReadyAddresses"),
            required,
            path,
            "must specify `addresses` or `notReadyAddresses`",
        )
        for key in ("addresses", "notReadyAddresses"):
            for address, place in entries(subset, key, path):
                errors += _endpoint_address(address, place)
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
        errors += problems(f"{path}.hostname", host, names.dns_label(host))
    node = address.get("nodeName")
    if node is not None:
        errors += problems(f"{path}.nodeName", node, names.dns_subdomain(node))
    if unreadable:  # the check for special addresses reads it once more
        errors.append(invalid(f"{path}.ip", ip, "must be a valid IP address"))
    if not errors or not names.ip_problems(ip):
        if not names.ip_problems(ip):
            errors += validate_not_special(ip, f"{path}.ip")
    return errors


def _endpoint_port(port: Tree, several: bool, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = port.get("name", "")
    if several and not name:
        errors.append(required(f"{path}.name"))
    elif name:
        errors += problems(f"{path}.name", name, names.dns_label(name))
    number = port.get("port", 0)
    errors += problems(f"{path}.port", number, names.port_number(number))
    protocol = port.get("protocol", "")
    errors += word(protocol, f"{path}.protocol", ("SCTP", "TCP", "UDP"))
    app = port.get("appProtocol")
    return errors if app is None else errors + label_name(app, f"{path}.appProtocol")


class EndpointsStrategy(Strategy):
    """Endpoints, which their slices have replaced."""

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        return list(warnings_of("", "endpoints", ctx.earlier))

    def warn_delete(self, ctx: Context, options: DeleteOptions) -> None:
        """Warnings for a deletion of this kind."""
        for text in warnings_of("", "endpoints", ctx.earlier):
            ctx.warn(text)


def _row(tree: Tree, now: int) -> list[Any]:
    found: list[str] = []
    for subset in tree.get("subsets") or ():
        ports = subset.get("ports") or []
        for address in subset.get("addresses") or ():
            if not ports:
                found.append(address.get("ip", ""))
        for port in ports:
            for address in subset.get("addresses") or ():
                ip = address.get("ip", "")
                host = f"[{ip}]" if ":" in ip else ip
                found.append(f"{host}:{port.get('port', 0)}")
    return [name_of(tree), first_few(found) if tree.get("subsets") else "<none>", age_of(tree, now)]


KIND = Kind(
    strategy=EndpointsStrategy(
        default=default_endpoints,
        rule=validate_endpoints,
        has_status=False,
        create_on_update=True,
        meta_steps="UA",
    ),
    row=_row,
)
