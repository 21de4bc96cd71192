"""FlowSchemas. Upstream: pkg/registry/flowcontrol/flowschema, pkg/apis/flowcontrol."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import entries, exclusive_star, present, problems, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.trees import in_spec
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = ["KIND", "validate_flow_status"]


def default_flow_schema(tree: Tree) -> Tree:
    """Precedence of a flow schema."""

    def spec(spec: Tree) -> Tree:
        return spec if spec.get("matchingPrecedence") else {**spec, "matchingPrecedence": 1000}

    return in_spec(tree, spec)


MAX_PRECEDENCE = 10_000
_DISTINGUISHERS = ("ByNamespace", "ByUser")
_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
)


_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_NAMESPACE_INTRO = "each member of this list must be '*' or a DNS-1123 label; "


def validate_flow_schema(tree: Tree) -> list[FieldError]:
    """Return the errors of a FlowSchema."""
    spec = tree.get("spec") or {}
    name = (tree.get("metadata") or {}).get("name", "")
    precedence, place = spec.get("matchingPrecedence", 0), "spec.matchingPrecedence"
    errors = when(precedence <= 0, invalid, place, precedence, "must be a positive value")
    problem = f"must not be greater than {MAX_PRECEDENCE}"
    errors += when(precedence > MAX_PRECEDENCE, invalid, place, precedence, problem)
    if precedence == 1 and name != "exempt":
        text = "only the schema named 'exempt' may have matchingPrecedence 1"
        errors.append(invalid(place, precedence, text))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _DISTINGUISHERS:
        shown = {"Type": method.get("type", "")}
        errors.append(not_supported("spec.distinguisherMethod.type", shown, _DISTINGUISHERS))
    level = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
    place = "spec.priorityLevelConfiguration.name"
    if level:
        errors += problems(place, level, names.dns_subdomain(level))
    else:
        errors.append(required(place, "must reference a priority level"))
    for rule, path in entries(spec, "rules", "spec"):
        errors += _rule(rule, path)
    return errors


def validate_flow_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Conditions of a flow schema or a priority level: each has a type, and each type is there once."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for condition, path in entries(new.get("status") or {}, "conditions", "status"):
        kind = condition.get("type", "")
        errors += when(kind in seen, duplicate, f"{path}.type", kind)
        seen.add(kind)
        errors += present(condition, "type", path)
    return errors


def _rule(rule: Tree, path: str) -> list[FieldError]:
    errors = present(rule, "subjects", path, "subjects must contain at least one value")
    for subject, place in entries(rule, "subjects", path):
        errors += _subject(subject, place)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(path, text))
    for each, place in entries(rule, "resourceRules", path):
        errors += _resource_rule(each, place)
    for each, place in entries(rule, "nonResourceRules", path):
        errors += _verbs(each, place)
        errors += _paths(each, place)
    return errors


def _subject(subject: Tree, path: str) -> list[FieldError]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        return [not_supported(f"{path}.kind", kind, _SUBJECTS)]
    own = _SUBJECTS[kind]
    named, place = subject.get(own), f"{path}.{own}"
    if named is None:
        errors = [required(place, f"{own} is required when subject kind is '{kind}'")]
    elif own == "serviceAccount":
        errors = _account(named, place)
    else:
        errors = present(named, "name", place)
    for other, key in _SUBJECTS.items():
        if key != own and subject.get(key) is not None:
            text = f"{key} is forbidden when subject kind is not '{other}'"
            errors.append(forbidden(f"{path}.{key}", text))
    return errors


def _account(account: Tree, path: str) -> list[FieldError]:
    name, namespace = account.get("name", ""), account.get("namespace", "")
    errors = present(account, "name", path)
    if name and name != "*":
        errors = problems(f"{path}.name", name, names.dns_subdomain(name))
    if namespace:
        return errors + problems(f"{path}.namespace", namespace, names.dns_label(namespace))
    return [*errors, required(f"{path}.namespace", "must specify namespace for service account")]


def _verbs(rule: Tree, path: str) -> list[FieldError]:
    verbs, place = rule.get("verbs") or [], f"{path}.verbs"
    if not verbs:
        return [required(place, "verbs must contain at least one value")]
    if "*" in verbs:
        return exclusive_star(verbs, place, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [not_supported(place, verbs, _VERBS)]


def _starred(rule: Tree, key: str, path: str, needed: str, others: str) -> list[FieldError]:
    text = f"resource rules must supply at least one {needed}"
    return present(rule, key, path, text) or exclusive_star(rule[key], f"{path}.{key}", others)


def _resource_rule(rule: Tree, path: str) -> list[FieldError]:
    errors = _verbs(rule, path)
    errors += _starred(rule, "apiGroups", path, "api group", "api groups")
    errors += _starred(rule, "resources", path, "resource", "resources")
    namespaces, place = rule.get("namespaces") or [], f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(required(place, text))
    elif "*" in namespaces:
        errors += exclusive_star(namespaces, place, "namespaces")
    else:
        for index, namespace in enumerate(namespaces):
            texts = (_NAMESPACE_INTRO + text for text in names.dns_label(namespace))
            errors += problems(f"{place}[{index}]", namespace, texts)
    return errors


def _paths(rule: Tree, path: str) -> list[FieldError]:
    urls, place = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs"
    if not urls:
        return [required(place, "nonResourceURLs must contain at least one value")]
    if "*" in urls:
        return exclusive_star(urls, place, "non-resource URLs")
    errors: list[FieldError] = []
    for index, url in enumerate(urls):
        problem = _path_problem(url)
        errors += when(problem, invalid, f"{place}[{index}]", url, problem)
    return errors


def _path_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    if stars > 1 or (stars == 1 and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def _row(tree: Tree, now: int) -> list[Any]:
    spec = part_of(tree, "spec")
    dangling = (
        each.get("status", "")
        for each in part_of(tree, "status").get("conditions") or ()
        if each.get("type") == "Dangling"
    )
    method = spec.get("distinguisherMethod")
    return [
        name_of(tree),
        part_of(spec, "priorityLevelConfiguration").get("name", ""),
        spec.get("matchingPrecedence", 0),
        "<none>" if method is None else method.get("type", ""),
        age_of(tree, now),
        next(dangling, "?"),
    ]


KIND = Kind(
    strategy=Strategy(
        default=default_flow_schema,
        rule=validate_flow_schema,
        status_rule=validate_flow_status,
        generation=True,
        status_keeps_meta=True,
        meta_steps="A",
    ),
    row=_row,
)
