"""NetworkPolicies. Upstream: pkg/registry/networking/networkpolicy, pkg/apis/networking."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of, selector_text
from controlplane.apiserver.kinds.checks import (
    cidr_problems,
    entries,
    interface,
    one_of,
    problems,
    when,
)
from controlplane.apiserver.kinds.counted import CountedAsWritten
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import validate_label_selector
from controlplane.apiserver.kinds.trees import each, filled, in_spec
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = ["KIND"]


def default_network_policy(tree: Tree) -> Tree:
    """Ports are TCP; the types follow the rules."""

    def rule(rule: Tree) -> Tree:
        return each(rule, "ports", lambda port: filled(port, {"protocol": "TCP"}))

    def spec(spec: Tree) -> Tree:
        spec = each(each(spec, "ingress", rule), "egress", rule)
        if not spec.get("policyTypes"):
            kinds = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
            spec = {**spec, "policyTypes": kinds}
        return spec

    return in_spec(tree, spec)


def validate_network_policy(tree: Tree) -> list[FieldError]:
    """Return the errors of a network policy."""
    spec = tree.get("spec") or {}
    errors = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
    for key, peers in (("ingress", "from"), ("egress", "to")):
        for rule, path in entries(spec, key, "spec"):
            for port, place in entries(rule, "ports", path):
                errors += _policy_port(port, place)
            for peer, spot in entries(rule, peers, path):
                errors += _peer(peer, spot)
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        return [
            *errors,
            invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes"),
        ]
    for index, kind in enumerate(kinds):
        errors += one_of(kind, f"spec.policyTypes[{index}]", ("Ingress", "Egress"), sort=False)
    return errors


def _policy_port(port: Tree, path: str) -> list[FieldError]:
    protocol = port.get("protocol")
    errors = when(
        protocol is not None and protocol not in ("SCTP", "TCP", "UDP"),
        not_supported,
        f"{path}.protocol",
        protocol,
        ("TCP", "UDP", "SCTP"),
        sort=False,
    )
    number, end = port.get("port"), port.get("endPort")
    if number is not None:
        if isinstance(number, int):
            errors += problems(f"{path}.port", number, names.port_number(number))
            if end is not None:
                text = "must be greater than or equal to `port`"
                errors += when(end < number, invalid, f"{path}.endPort", number, text)
                errors += problems(f"{path}.endPort", end, names.port_number(end))
        else:
            text = "may not be specified when `port` is non-numeric"
            errors += when(end is not None, invalid, f"{path}.endPort", end, text)
            errors += problems(f"{path}.port", number, names.port_name(number))
    elif end is not None:
        text = "may not be specified when `port` is not specified"
        errors.append(invalid(f"{path}.endPort", end, text))
    return errors


def _peer(peer: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    count = 0
    for key in ("podSelector", "namespaceSelector"):
        if peer.get(key) is not None:
            count += 1
            errors += validate_label_selector(peer[key], f"{path}.{key}")
    block = peer.get("ipBlock")
    if block is not None:
        count += 1
        errors += _ip_block(block, f"{path}.ipBlock")
        errors += when(count > 1, forbidden, path, "may not specify both ipBlock and another peer")
    return errors + when(not count, required, path, "must specify a peer")


def _ip_block(block: Tree, path: str) -> list[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{path}.cidr")]
    texts = cidr_problems(cidr)
    if texts:
        return problems(f"{path}.cidr", cidr, texts)
    errors: list[FieldError] = []
    whole = interface(cidr).network
    for text, place in entries(block, "except", path):
        texts = cidr_problems(text)
        if texts:
            errors += problems(place, text, texts)
            continue
        part = interface(text).network
        if part.version != whole.version or part == whole or not part.subnet_of(whole):  # type: ignore[arg-type]
            errors.append(invalid(place, text, "must be a strict subset of `cidr`"))
    return errors


KIND = Kind(
    strategy=CountedAsWritten(
        default=default_network_policy,
        rule=validate_network_policy,
        has_status=False,
        generation=True,
    ),
    row=lambda tree, now: [
        name_of(tree),
        selector_text(part_of(tree, "spec").get("podSelector") or {}),
        age_of(tree, now),
    ],
)
