"""The requests that a webhook or a policy looks at. Upstream: pkg/apis/admissionregistration/validation."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import (
    at_most,
    choice,
    entries,
    exclusive_star,
    named,
    needed_one_of,
    one_of,
    present,
    problems,
    repeated,
    when,
)
from controlplane.apiserver.kinds.custom.expressions import expression_problems, policy_types
from controlplane.apiserver.kinds.selectors import validate_label_selector
from controlplane.apiserver.kinds.trees import each, filled
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    required,
)

__all__ = [
    "FAILURE",
    "MATCH",
    "OPERATIONS",
    "REINVOCATION",
    "default_match_resources",
    "default_rule",
    "validate_match_conditions",
    "validate_match_resources",
    "validate_rule",
]


def default_rule(rule: Tree) -> Tree:
    """Default the scope of a rule."""
    return filled(rule, {"scope": "*"})


def default_match_resources(match: Tree) -> Tree:
    """Default the selectors and the scopes of the matched resources."""
    match = filled(
        match, {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    )
    return each(each(match, "resourceRules", default_rule), "excludeResourceRules", default_rule)


FAILURE = ("Fail", "Ignore")
MATCH = ("Equivalent", "Exact")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
REINVOCATION = ("IfNeeded", "Never")
MAX_CONDITIONS = 64


def validate_rule(rule: Tree, path: str) -> list[FieldError]:
    """Return the errors of a rule: operations, groups, versions and resources."""
    operations = rule.get("operations") or []
    errors = present(rule, "operations", path)
    errors += exclusive_star(operations, f"{path}.operations", "operations")
    for index, operation in enumerate(operations):
        errors += one_of(operation, f"{path}.operations[{index}]", OPERATIONS)
    errors += present(rule, "apiGroups", path)
    errors += exclusive_star(rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    errors += present(rule, "apiVersions", path)
    errors += exclusive_star(versions, f"{path}.apiVersions", "API versions")
    errors += [
        required(f"{path}.apiVersions[{index}]")
        for index, version in enumerate(versions)
        if not version
    ]
    errors += _resources(rule.get("resources") or [], f"{path}.resources")
    return errors + choice(rule, "scope", path, _SCOPES, needed=False)


def _resources(resources: list[str], path: str) -> list[FieldError]:
    if not resources:
        return [required(path)]
    errors: list[FieldError] = []
    whole: set[str] = set()
    everywhere: set[str] = set()
    for index, text in enumerate(resources):
        place = f"{path}[{index}]"
        if not text:
            errors.append(required(place))
            continue
        resource, slash, sub = text.partition("/")
        if not slash:
            continue
        if resource in whole:
            detail = f"if '{resource}/*' is present, must not specify {text}"
            errors.append(invalid(place, text, detail))
        if sub in everywhere:
            detail = f"if '*/{sub}' is present, must not specify {text}"
            errors.append(invalid(place, text, detail))
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        errors.append(invalid(path, resources, detail))
    plain = [text for text in resources if text and "/" not in text]
    if "*" in plain and plain[-1] != "*":
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, detail))
    return errors


def validate_match_conditions(owner: Tree, path: str, *, params: bool = False) -> list[FieldError]:
    """Return the errors of the match conditions of a webhook or a policy."""
    place = f"{path}.matchConditions"
    conditions = owner.get("matchConditions") or []
    errors = at_most(conditions, place, MAX_CONDITIONS)
    seen: set[str] = set()
    for condition, spot in entries(owner, "matchConditions", path):
        expression, name = condition.get("expression", "").strip(), condition.get("name", "")
        if not expression:
            errors.append(required(f"{spot}.expression"))
        else:
            types = policy_types(params=params)
            errors += expression_problems(expression, f"{spot}.expression", types, ("bool",))
        errors += named(condition, "name", spot, names.qualified_name)
        errors += when(name and name in seen, duplicate, f"{spot}.name", name)
        seen.add(name)
    return errors


def validate_match_resources(match: Tree, path: str) -> list[FieldError]:
    """Return the errors of the matched resources of a policy or a binding."""
    errors = needed_one_of(match.get("matchPolicy"), f"{path}.matchPolicy", MATCH)
    for key in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(match.get(key), f"{path}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for rule, place in entries(match, key, path):
            listed = [
                (name, f"{place}.resourceNames[{index}]")
                for index, name in enumerate(rule.get("resourceNames") or ())
            ]
            for name, spot in listed:
                errors += problems(spot, name, names.path_segment(name))
            errors += repeated(listed)
            errors += validate_rule(rule, place)
    return errors
