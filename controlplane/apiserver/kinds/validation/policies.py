"""Validation of policy, networking, scheduling, node, coordination and RBAC kinds."""

from __future__ import annotations

import re

from controlplane.api.equality import Seen
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.validation.conditions import validate_conditions
from controlplane.apiserver.kinds.validation.containers import port_or_name
from controlplane.apiserver.kinds.validation.resources import validate_requirements
from controlplane.apiserver.kinds.validation.selectors import (
    label_name,
    selector_of,
    toleration_shown,
    validate_label_selector,
    validate_tolerations,
)
from controlplane.apiserver.kinds.validation.services import validate_ingress_points
from controlplane.apiserver.kinds.validation.shared import (
    at_most_full,
    cidr_problems,
    immutable,
    int_or_percent,
    interface,
    non_negative_field,
)
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

_RBAC = "rbac.authorization.k8s.io"


# -- disruption budgets --------------------------------------------------------------------------

_EVICTION = ("AlwaysAllow", "IfHealthyBudget")


def validate_budget(tree: Tree) -> list[FieldError]:
    """A pod disruption budget."""
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        shown = {"MinAvailable": low, "Selector": spec.get("selector"), "MaxUnavailable": high,
                 "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy")}  # fmt: skip
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for key, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            errors += int_or_percent(value, f"spec.{key}")
            errors += at_most_full(value, f"spec.{key}")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION))
    return errors


def validate_budget_status(new: Tree, _old: Tree) -> list[FieldError]:
    """A budget's counts and conditions."""
    status = new.get("status") or {}
    errors = validate_conditions(status.get("conditions"), "status.conditions")
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        errors += non_negative_field(status, key, "status")
    return errors


# -- priority classes, leases, runtime classes ---------------------------------------------------

_SYSTEM = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_HIGHEST = 1_000_000_000


def validate_priority_class(tree: Tree) -> list[FieldError]:
    """A priority class."""
    errors: list[FieldError] = []
    name, value = tree["metadata"].get("name", ""), tree.get("value", 0)
    if name.startswith("system-"):
        known = _SYSTEM.get(name)
        if known is None:
            problem = f"{name} is not a known system priority class"
        elif known != value:
            problem = f"value of {name} PriorityClass must be {known}"
        else:
            problem = ""
        if problem:
            errors.append(forbidden("metadata.name", (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {problem}"
            )))  # fmt: skip
    elif value > _HIGHEST:
        errors.append(forbidden("value", f"maximum allowed value of a user defined priority is "
                                         f"{_HIGHEST}"))  # fmt: skip
    policy = tree.get("preemptionPolicy")
    choices = ("PreemptLowerPriority", "Never")
    if policy is not None and policy not in choices:
        errors.append(not_supported("preemptionPolicy", policy, choices, sort=False)
                      if policy else required("preemptionPolicy"))  # fmt: skip
    return errors


def validate_priority_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed priority class; its value stays."""
    errors: list[FieldError] = []
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + immutable(
        new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy"
    )


def validate_lease(tree: Tree) -> list[FieldError]:
    """A lease."""
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions,
                              "must be greater than or equal to 0"))  # fmt: skip
    return errors


def validate_runtime_class(tree: Tree) -> list[FieldError]:
    """A runtime class."""
    handler = tree.get("handler", "")
    errors: list[FieldError] = []
    if not handler:
        errors.append(required("handler"))
    else:
        errors += [invalid("handler", handler, problem) for problem in names.dns_label(handler)]
    overhead = tree.get("overhead")
    if overhead is not None:
        errors += validate_requirements({"limits": overhead.get("podFixed") or {}}, "overhead")
    scheduling = tree.get("scheduling")
    if scheduling is not None:
        from controlplane.apiserver.kinds.metadata import validate_labels

        errors += validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or []
        seen = Seen()
        for index, toleration in enumerate(tolerations):
            errors += validate_tolerations([toleration], "scheduling.tolerations", index)
            if seen.again(toleration):
                shown = toleration_shown(toleration)
                errors.append(duplicate(f"scheduling.tolerations[{index}]", shown))
    return errors


def validate_runtime_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed runtime class; its handler stays."""
    return validate_runtime_class(new) + immutable(
        new.get("handler"), old.get("handler"), "handler"
    )


# -- networking ----------------------------------------------------------------------------------


def validate_network_policy(tree: Tree) -> list[FieldError]:
    """A network policy."""
    spec = tree.get("spec") or {}
    errors = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
    for key, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(key) or ()):
            path = f"spec.{key}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                errors += _policy_port(port, f"{path}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                errors += _peer(peer, f"{path}.{peers}[{number}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        return [*errors, invalid("spec.policyTypes", kinds,
                                 "may not specify more than two policyTypes")]  # fmt: skip
    for index, kind in enumerate(kinds):
        if kind not in ("Ingress", "Egress"):
            errors.append(not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"),
                                        sort=False))  # fmt: skip
    return errors


def _policy_port(port: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    protocol = port.get("protocol")
    if protocol is not None and protocol not in ("SCTP", "TCP", "UDP"):
        errors.append(
            not_supported(f"{path}.protocol", protocol, ("TCP", "UDP", "SCTP"), sort=False)
        )
    number, end = port.get("port"), port.get("endPort")
    if number is not None:
        if isinstance(number, int):
            errors += [invalid(f"{path}.port", number, p) for p in names.port_number(number)]
            if end is not None:
                if end < number:
                    errors.append(invalid(f"{path}.endPort", number,
                                          "must be greater than or equal to `port`"
                                          ))  # fmt: skip
                errors += [invalid(f"{path}.endPort", end, p) for p in names.port_number(end)]
        else:
            if end is not None:
                errors.append(invalid(f"{path}.endPort", end,
                                      "may not be specified when `port` is non-numeric"
                                      ))  # fmt: skip
            errors += [invalid(f"{path}.port", number, p) for p in names.port_name(number)]
    elif end is not None:
        errors.append(invalid(f"{path}.endPort", end,
                              "may not be specified when `port` is not specified"))  # fmt: skip
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
        if count > 1:
            errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    if not count:
        errors.append(required(path, "must specify a peer"))
    return errors


def _ip_block(block: Tree, path: str) -> list[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{path}.cidr")]
    problems = cidr_problems(cidr)
    if problems:
        return [invalid(f"{path}.cidr", cidr, problem) for problem in problems]
    errors: list[FieldError] = []
    whole = interface(cidr).network
    for index, text in enumerate(block.get("except") or ()):
        place = f"{path}.except[{index}]"
        problems = cidr_problems(text)
        if problems:
            errors += [invalid(place, text, problem) for problem in problems]
            continue
        part = interface(text).network
        if part.version != whole.version or part == whole or not part.subnet_of(whole):  # type: ignore[arg-type]
            errors.append(invalid(place, text, "must be a strict subset of `cidr`"))
    return errors


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def validate_ingress(tree: Tree, missing: list[Tree] | None = None) -> list[FieldError]:
    """Return the errors of an ingress. `missing` are the invalid rules as they were written."""
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        errors.append(invalid("spec", rules or missing,
                              "either `defaultBackend` or `rules` must be specified"
                              ))  # fmt: skip
    if backend is not None:
        errors += _backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        errors += _ingress_rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            errors += _host(host, f"spec.tls[{index}].hosts[{number}]", ip_check=False)
        secret = tls.get("secretName", "")
        if secret:
            place = f"spec.tls[{index}].secretName"
            errors += [invalid(place, secret, p) for p in names.dns_subdomain(secret)]
    name = spec.get("ingressClassName")
    if name is not None:
        errors += [invalid("spec.ingressClassName", name, p) for p in names.dns_subdomain(name)]
    return errors


def _host(host: str, path: str, *, ip_check: bool = True) -> list[FieldError]:
    errors: list[FieldError] = []
    if ip_check and not names.ip_problems(host):
        errors.append(invalid(path, host, "must be a DNS name, not an IP address"))
    problems = names.wildcard_subdomain(host) if "*" in host else names.dns_subdomain(host)
    return errors + [invalid(path, host, problem) for problem in problems]


def _ingress_rule(rule: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if rule.get("host"):
        errors += _host(rule["host"], f"{path}.host")
    http = rule.get("http")
    if http is None:
        return errors
    paths = http.get("paths") or []
    if not paths:
        errors.append(required(f"{path}.http.paths"))
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
        if not text.startswith("/"):
            errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
        if text:
            errors += [invalid(f"{path}.path", text, f"must not contain '{part}'")
                       for part in _INVALID_SEQUENCES if part in text]  # fmt: skip
            errors += [invalid(f"{path}.path", text, f"cannot end with '{part}'")
                       for part in _INVALID_SUFFIXES if text.endswith(part)]  # fmt: skip
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
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
        if group:
            errors += [invalid(place, group, p) for p in names.dns_subdomain(group)]
        for key in ("kind", "name"):
            if not resource.get(key):
                errors.append(required(f"{path}.resource.{key}"))
        return errors
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name = service.get("name", "")
    if not name:
        errors.append(required(f"{path}.service.name"))
    else:
        errors += [invalid(f"{path}.service.name", name, p) for p in names.dns_label(name)]
    port = service.get("port") or {}
    named, number = port.get("name", ""), port.get("number", 0)
    if named and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif named:
        errors += [invalid(f"{path}.service.port.name", named, p) for p in names.port_name(named)]
    elif number:
        errors += [
            invalid(f"{path}.service.port.number", number, p) for p in names.port_number(number)
        ]
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def validate_ingress_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Addresses of an ingress."""
    points = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return validate_ingress_points(points, True, "status.loadBalancer")


_CLASS_SCOPES = ("Cluster", "Namespace")


def validate_ingress_class(tree: Tree) -> list[FieldError]:
    """An ingress class."""
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
        errors += [invalid(f"{path}.apiGroup", group, p) for p in names.dns_subdomain(group)]
    for key in ("kind", "name"):
        value = reference.get(key, "")
        if not value:
            errors.append(required(f"{path}.{key}"))
        else:
            errors += [invalid(f"{path}.{key}", value, p) for p in names.path_segment(value)]
    scope, namespace = reference.get("scope"), reference.get("namespace")
    if not scope:
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
            errors += [
                invalid(f"{path}.namespace", namespace, p) for p in names.dns_label(namespace)
            ]
    return errors


def _domain_path(text: str, path: str) -> list[FieldError]:
    """A domain, a slash and a path."""
    domain, _, rest = text.partition("/")
    if not domain or not rest:
        return [invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, domain, problem) for problem in names.dns_subdomain(domain)]
    if not _PATH_FORM.fullmatch(rest):
        errors.append(invalid(path, rest, _PATH_TEXT))
    return errors


_PATH_CHARACTERS = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PATH_FORM = re.compile(_PATH_CHARACTERS)
_PATH_TEXT = f"Invalid path (e.g. 'foo/bar', regex used for validation is '{_PATH_CHARACTERS}')"


def validate_ingress_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed ingress class; its controller stays."""
    name, was = ((tree.get("spec") or {}).get("controller", "") for tree in (new, old))
    return immutable(name, was, "spec.controller") + validate_ingress_class(new)


# -- RBAC ----------------------------------------------------------------------------------------


def validate_role(tree: Tree) -> list[FieldError]:
    """A role or cluster role."""
    errors: list[FieldError] = []
    namespaced = tree.get("kind") == "Role"
    for index, rule in enumerate(tree.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if namespaced:
                errors.append(invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"],
                                      "namespaced rules cannot apply to non-resource URLs"
                                      ))  # fmt: skip
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                errors.append(invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], (
                    "rules cannot apply to both regular resources and non-resource URLs"
                )))  # fmt: skip
            continue
        if not rule.get("apiGroups"):
            errors.append(required(f"{path}.apiGroups",
                                   "resource rules must supply at least one api group"
                                   ))  # fmt: skip
        if not rule.get("resources"):
            errors.append(required(f"{path}.resources",
                                   "resource rules must supply at least one resource"
                                   ))  # fmt: skip
    aggregation = tree.get("aggregationRule")
    if aggregation is not None:
        selectors = aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            errors.append(required("aggregationRule.clusterRoleSelectors",
                                   "at least one clusterRoleSelector required if "
                                   "aggregationRule is non-nil"))  # fmt: skip
        for index, selector in enumerate(selectors):
            place = f"aggregationRule.clusterRoleSelectors[{index}]"
            errors += validate_label_selector(selector, place)
            if selector_of(selector) is None:
                errors.append(invalid(place, None, "invalid label selector."))
    return errors


def _role_binding(tree: Tree, roles: tuple[str, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    ref = tree.get("roleRef") or {}
    if ref.get("apiGroup") != _RBAC:
        errors.append(not_supported("roleRef.apiGroup", ref.get("apiGroup", ""), (_RBAC,)))
    if ref.get("kind") not in roles:
        errors.append(not_supported("roleRef.kind", ref.get("kind", ""), roles, sort=False))
    if not ref.get("name"):
        errors.append(required("roleRef.name"))
    else:
        errors += [invalid("roleRef.name", ref["name"], p) for p in names.path_segment(ref["name"])]
    for index, subject in enumerate(tree.get("subjects") or ()):
        errors += _subject(subject, len(roles) > 1, f"subjects[{index}]")
    return errors


def _subject(subject: Tree, namespaced: bool, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not subject.get("name"):
        errors.append(required(f"{path}.name"))
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    if kind == "ServiceAccount":
        name = subject.get("name", "")
        if name:
            errors += [invalid(f"{path}.name", name, p) for p in names.dns_subdomain(name)]
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in {"User", "Group"}:
        if group != _RBAC:
            errors.append(not_supported(f"{path}.apiGroup", group, (_RBAC,)))
    else:
        errors.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"),
                                    sort=False))  # fmt: skip
    return errors


def validate_role_binding(tree: Tree) -> list[FieldError]:
    """A role binding."""
    return _role_binding(tree, ("Role", "ClusterRole"))


def validate_cluster_role_binding(tree: Tree) -> list[FieldError]:
    """A cluster role binding."""
    return _role_binding(tree, ("ClusterRole",))


def validate_role_binding_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed binding; the role it gives stays."""
    rule = validate_role_binding if new.get("kind") == "RoleBinding" else (
        validate_cluster_role_binding)  # fmt: skip
    errors = rule(new)
    if new.get("roleRef") != old.get("roleRef"):
        ref = new.get("roleRef") or {}
        shown = {"APIGroup": ref.get("apiGroup", ""), "Kind": ref.get("kind", ""),
                 "Name": ref.get("name", "")}  # fmt: skip
        errors.append(invalid("roleRef", shown, "cannot change roleRef"))
    return errors


__all__ = [
    "label_name", "port_or_name", "validate_budget", "validate_budget_status",
    "validate_cluster_role_binding", "validate_ingress", "validate_ingress_class", "validate_ingress_class_update",
    "validate_ingress_status",
    "validate_lease", "validate_network_policy", "validate_priority_class",
    "validate_priority_class_update", "validate_role", "validate_role_binding",
    "validate_role_binding_update", "validate_runtime_class", "validate_runtime_class_update",
]  # fmt: skip
