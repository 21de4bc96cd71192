"""IngressClasses. Upstream: pkg/registry/networking/ingressclass, pkg/apis/networking."""

from __future__ import annotations

import re

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import immutable, name_at, problems, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.trees import filled, in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

__all__ = ["KIND"]


def default_ingress_class(tree: Tree) -> Tree:
    """Parameters are cluster-wide."""

    def parameters(ref: Tree) -> Tree:
        return filled(ref, {"scope": "Cluster"})

    return in_spec(tree, lambda spec: inside(spec, "parameters", parameters))


_CLASS_SCOPES = ("Cluster", "Namespace")


def validate_ingress_class(tree: Tree) -> list[FieldError]:
    """Return the errors of an ingress class."""
    spec = tree.get("spec") or {}
    controller = spec.get("controller", "")
    if not controller:
        errors = [required("spec.controller")]
    elif len(controller) > 250:
        errors = [too_long("spec.controller", 250)]
    else:
        errors = _domain_path(controller, "spec.controller")
    reference = spec.get("parameters")
    if reference is None:
        return errors
    path = "spec.parameters"
    group = reference.get("apiGroup")
    if group is not None:
        errors += problems(f"{path}.apiGroup", group, names.dns_subdomain(group))
    for key in ("kind", "name"):
        value = reference.get(key, "")
        errors += name_at(value, f"{path}.{key}", names.path_segment)
    scope, namespace = reference.get("scope"), reference.get("namespace")
    if scope is None:
        errors.append(required(f"{path}.scope"))
    elif scope not in _CLASS_SCOPES:
        errors.append(not_supported(f"{path}.scope", scope, _CLASS_SCOPES))
    elif scope == "Cluster" and namespace is not None:
        text = "`parameters.scope` is set to 'Cluster'"
        errors.append(forbidden(f"{path}.namespace", text))
    elif scope == "Namespace":
        if namespace is None:
            text = "`parameters.scope` is set to 'Namespace'"
            errors.append(required(f"{path}.namespace", text))
        else:
            errors += problems(f"{path}.namespace", namespace, names.dns_label(namespace))
    return errors


def _domain_path(text: str, path: str) -> list[FieldError]:
    """A domain, a slash and a path."""
    domain, _, rest = text.partition("/")
    if not domain or not rest:
        return [invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, domain, problem) for problem in names.dns_subdomain(domain)]
    return errors + when(not _PATH_FORM.fullmatch(rest), invalid, path, rest, _PATH_TEXT)


_PATH_CHARACTERS = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PATH_FORM = re.compile(_PATH_CHARACTERS)
_PATH_TEXT = f"Invalid path (e.g. 'foo/bar', regex used for validation is '{_PATH_CHARACTERS}')"


def validate_ingress_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed ingress class; its controller stays."""
    name, was = ((tree.get("spec") or {}).get("controller", "") for tree in (new, old))
    return immutable(name, was, "spec.controller") + validate_ingress_class(new)


def _parameters(ref: Tree | None) -> str:
    if not ref:
        return "<none>"
    kind = ref.get("kind", "")
    if ref.get("apiGroup"):
        kind = f"{kind}.{ref['apiGroup']}"
    return f"{kind}/{ref.get('name', '')}"


KIND = Kind(
    strategy=Strategy(
        default=default_ingress_class,
        rule=validate_ingress_class,
        update_rule=validate_ingress_class_update,
        has_status=False,
        generation=True,
        meta_steps="UA",
    ),
    row=lambda tree, now: [
        name_of(tree),
        part_of(tree, "spec").get("controller", ""),
        _parameters(part_of(tree, "spec").get("parameters")),
        age_of(tree, now),
    ],
)
