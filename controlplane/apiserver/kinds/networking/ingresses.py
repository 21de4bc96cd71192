"""Ingresses. Upstream: pkg/registry/networking/ingress, pkg/apis/networking."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import entries, name_at, problems, when
from controlplane.apiserver.kinds.core.services import validate_ingress_points
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.schema.field_errors import FieldError, invalid, not_supported, required

__all__ = ["KIND"]

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def validate_ingress(tree: Tree, missing: list[Tree] | None = None) -> list[FieldError]:
    """Return the errors of an ingress. `missing` are the invalid rules as they were written."""
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        text = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid("spec", rules or missing, text))
    if backend is not None:
        errors += _backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        errors += _ingress_rule(rule, f"spec.rules[{index}]")
    for tls, spot in entries(spec, "tls", "spec"):
        for host, where in entries(tls, "hosts", spot):
            errors += _host(host, where, ip_check=False)
        secret = tls.get("secretName", "")
        if secret:
            place = f"{spot}.secretName"
            errors += problems(place, secret, names.dns_subdomain(secret))
    name = spec.get("ingressClassName")
    if name is not None:
        errors += problems("spec.ingressClassName", name, names.dns_subdomain(name))
    return errors


def _host(host: str, path: str, *, ip_check: bool = True) -> list[FieldError]:
    errors = when(
        ip_check and not names.ip_problems(host),
        invalid,
        path,
        host,
        "must be a DNS name, not an IP address",
    )
    texts = names.wildcard_subdomain(host) if "*" in host else names.dns_subdomain(host)
    return errors + problems(path, host, texts)


def _ingress_rule(rule: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if rule.get("host"):
        errors += _host(rule["host"], f"{path}.host")
    http = rule.get("http")
    if http is None:
        return errors
    paths = http.get("paths") or []
    errors += when(not paths, required, f"{path}.http.paths")
    for index, entry in enumerate(paths):
        errors += _http_path(entry, f"{path}.http.paths[{index}]")
    return errors


_INVALID_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_INVALID_SUFFIXES = ("/..", "/.")


def _http_path(entry: Tree, path: str) -> list[FieldError]:
    kind = entry.get("pathType")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    text = entry.get("path", "")
    if kind in {"Exact", "Prefix"}:
        errors += when(
            not text.startswith("/"), invalid, f"{path}.path", text, "must be an absolute path"
        )
        if text:
            errors += [
                invalid(f"{path}.path", text, f"must not contain '{part}'")
                for part in _INVALID_SEQUENCES
                if part in text
            ]
            errors += [
                invalid(f"{path}.path", text, f"cannot end with '{part}'")
                for part in _INVALID_SUFFIXES
                if text.endswith(part)
            ]
    elif kind == "ImplementationSpecific":
        problem = "must be an absolute path"
        errors += when(text and not text.startswith("/"), invalid, f"{path}.path", text, problem)
    else:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    return errors + _backend(entry.get("backend") or {}, f"{path}.backend")


def _backend(backend: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        group, place = resource.get("apiGroup"), f"{path}.resource.apiGroup"
        if group is not None:
            errors += problems(place, group, names.dns_subdomain(group))
        for key in ("kind", "name"):
            errors += name_at(resource.get(key, ""), f"{path}.resource.{key}", names.path_segment)
        return errors
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name = service.get("name", "")
    errors += name_at(name, f"{path}.service.name", names.dns_label)
    port = service.get("port") or {}
    named, number = port.get("name", ""), port.get("number", 0)
    if named and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif named:
        errors += problems(f"{path}.service.port.name", named, names.port_name(named))
    elif number:
        errors += problems(f"{path}.service.port.number", number, names.port_number(number))
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def validate_ingress_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Addresses of an ingress."""
    points = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return validate_ingress_points(points, True, "status.loadBalancer")


_INGRESS_CLASS = "kubernetes.io/ingress.class"


class IngressStrategy(Strategy):
    """Ingresses; messages about invalid rules show them as they were written."""

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        errors = self._spec_errors(ctx, tree)
        said = _ingress_class(tree)
        named = (tree.get("spec") or {}).get("ingressClassName")
        if said is not None and named is not None and said != named:
            text = "must match `ingressClassName` when both are specified"
            errors.append(invalid(f"annotations.{_INGRESS_CLASS}", said, text))
        return errors

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind; annotation and field may come to differ."""
        return self._spec_errors(ctx, new)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind: a new one should name its class in the spec."""
        named = (tree.get("spec") or {}).get("ingressClassName")
        if old is not None or named is not None or _ingress_class(tree) is None:
            return []
        return [
            f'annotation "{_INGRESS_CLASS}" is deprecated, '
            "please use 'spec.ingressClassName' instead"
        ]

    def _spec_errors(self, ctx: Context, tree: Tree) -> list[FieldError]:
        given = ctx.written("spec", "rules")
        return validate_ingress(tree, given if given == [] else None)


def _ingress_class(tree: Tree) -> str | None:
    """The class that the annotation names, which came before the field."""
    return (tree["metadata"].get("annotations") or {}).get(_INGRESS_CLASS)


def _row(tree: Tree, now: int) -> list[Any]:
    spec = part_of(tree, "spec")
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    listed = ",".join(hosts[:3]) or "*"
    if len(hosts) > 3:
        listed += f" + {len(hosts) - 3} more..."
    points = part_of(part_of(tree, "status"), "loadBalancer").get("ingress") or []
    address = ",".join(p.get("ip") or p.get("hostname") or "" for p in points)
    ports = "80, 443" if spec.get("tls") else "80"
    return [
        name_of(tree),
        spec.get("ingressClassName") or "<none>",
        listed,
        address,
        ports,
        age_of(tree, now),
    ]


KIND = Kind(
    strategy=IngressStrategy(
        status_rule=validate_ingress_status,
        generation=True,
        empty_status={"loadBalancer": {}},
        meta_steps="UA",
    ),
    row=_row,
)
