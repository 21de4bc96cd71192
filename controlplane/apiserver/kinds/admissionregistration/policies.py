"""Admission policies and their bindings. Upstream: pkg/{registry,apis}/admissionregistration."""

from __future__ import annotations

from controlplane.api.equality import Seen
from controlplane.api.jsonpath import JSONPathError
from controlplane.api.jsonpath import parse as parse_json_path
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.admissionregistration.matching import (
    FAILURE,
    OPERATIONS,
    REINVOCATION,
    default_match_resources,
    validate_match_conditions,
    validate_match_resources,
)
from controlplane.apiserver.kinds.admissionregistration.rows import binding_row, policy_row
from controlplane.apiserver.kinds.checks import (
    choice,
    entries,
    named,
    needed_one_of,
    one_of,
    present,
    problems,
    when,
)
from controlplane.apiserver.kinds.conditions import validate_conditions
from controlplane.apiserver.kinds.custom.cel.types import Type
from controlplane.apiserver.kinds.custom.expressions import (
    expression_problems,
    policy_types,
    variable_type,
)
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import validate_label_selector
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.trees import filled, in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = ["MUTATING_BINDINGS", "MUTATING_POLICIES", "VALIDATING_BINDINGS", "VALIDATING_POLICIES"]


def default_admission_policy(tree: Tree) -> Tree:
    """Failure policy and what is matched."""
    return in_spec(
        tree,
        lambda spec: inside(
            filled(spec, {"failurePolicy": "Fail"}), "matchConstraints", default_match_resources
        ),
    )


def default_policy_binding(tree: Tree) -> Tree:
    """Default the matched resources of a policy binding."""
    return in_spec(tree, lambda spec: inside(spec, "matchResources", default_match_resources))


_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
MAX_ANNOTATIONS = 20


def _policy(spec: Tree, variables: dict[str, Type], *, mutating: bool = False) -> list[FieldError]:
    """Return the errors of the parts that both kinds of policies have, and record the types of their variables."""
    errors = needed_one_of(spec.get("failurePolicy"), "spec.failurePolicy", FAILURE)
    if spec.get("paramKind") is not None:
        errors += _param_kind(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += validate_match_resources(match, "spec.matchConstraints")
        errors += present(match, "resourceRules", "spec.matchConstraints")
        if mutating:
            errors += _mutable(match, "spec.matchConstraints")
    params = spec.get("paramKind") is not None
    errors += validate_match_conditions(spec, "spec", params=params)
    for variable, path in entries(spec, "variables", "spec"):
        types = policy_types(variables, params=params)
        errors += _variable(variable, path, types)
        source = variable.get("expression", "")
        variables[variable.get("name", "")] = variable_type(source, types)
    return errors


def _param_kind(kind: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    text = kind.get("apiVersion", "")
    place = f"{path}.apiVersion"
    group, _, version = text.rpartition("/")
    if not text:
        errors.append(required(place))
    elif text.count("/") > 1:
        errors.append(invalid(place, text, f"unexpected GroupVersion string: {text}"))
    else:
        found = names.dns_subdomain(group) if group else ()
        if found:
            errors.append(invalid(place, group, ",".join(found)))
        if not version:
            errors.append(invalid(place, text, "version must be specified"))
        else:
            found = names.dns_1035_label(version)
            if found:
                errors.append(invalid(place, version, ",".join(found)))
    name = kind.get("kind", "")
    if not name:
        errors.append(required(f"{path}.kind"))
    else:
        found = names.dns_1035_label(name.lower())
        if found:
            detail = f"may have mixed case, but should otherwise match: {','.join(found)}"
            errors.append(invalid(f"{path}.kind", name, detail))
    return errors


def _mutable(match: Tree, path: str) -> list[FieldError]:
    """Return errors for mutations of deletions; the path lacks the operation's index, as upstream."""
    allowed = tuple(name for name in OPERATIONS if name != "DELETE")
    return [
        not_supported(f"{path}.resourceRules.operations", operation, allowed)
        for rule in match.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in allowed
    ]


def _variable(variable: Tree, path: str, types: dict[str, Type]) -> list[FieldError]:
    errors: list[FieldError] = []
    name, expression = variable.get("name", ""), variable.get("expression", "")
    if not name.strip():
        errors.append(required(f"{path}.name", "name is not specified"))
    elif not (name.isascii() and name.isidentifier()):
        errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if not expression.strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
    else:
        errors += expression_problems(expression, f"{path}.expression", types)
    return errors


def validate_validating_policy(tree: Tree) -> list[FieldError]:
    """Return the errors of a ValidatingAdmissionPolicy."""
    spec = tree.get("spec") or {}
    variables: dict[str, Type] = {}
    errors = _policy(spec, variables)
    params = spec.get("paramKind") is not None
    types = policy_types(variables, params=params)
    plain = policy_types(variables, params=params, authorizer=False)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        errors += [required(f"spec.{key}", text) for key in ("validations", "auditAnnotations")]
    for validation, path in entries(spec, "validations", "spec"):
        errors += _validation(validation, path, types, plain)
    annotations = spec.get("auditAnnotations") or []
    if len(annotations) > MAX_ANNOTATIONS:
        text = f"must not have more than {MAX_ANNOTATIONS} auditAnnotations"
        errors.append(invalid("spec.auditAnnotations", annotations, text))
    owner = (tree.get("metadata") or {}).get("name", "")
    seen: set[str] = set()
    for annotation, path in entries(spec, "auditAnnotations", "spec"):
        key = annotation.get("key", "")
        errors += [
            invalid(f"{path}.key", f"{owner}/{key}", text)
            for text in names.qualified_name(f"{owner}/{key}")
        ]
        value = annotation.get("valueExpression", "").strip()
        if not value:
            errors.append(required(f"{path}.valueExpression", "valueExpression is not specified"))
        else:
            gives = ("string", "null")
            errors += expression_problems(value, f"{path}.valueExpression", types, gives)
        errors += when(key in seen, duplicate, f"{path}.key", key)
        seen.add(key)
    return errors


def validate_validating_policy_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Return the errors of a policy's type checking results and conditions."""
    status = new.get("status") or {}
    checked, errors = status.get("typeChecking") or {}, []
    for warning, path in entries(checked, "expressionWarnings", "status.typeChecking"):
        errors += present(warning, "warning", path)
        errors += _field_ref_problems(warning.get("fieldRef", "").strip(), f"{path}.fieldRef")
    return errors + validate_conditions(status.get("conditions"), "status.conditions")


def _field_ref_problems(field_ref: str, path: str) -> list[FieldError]:
    if not field_ref:
        return [required(path)]
    try:
        parse_json_path(f"{{{field_ref}}}")
    except JSONPathError as error:
        return [invalid(path, field_ref, f"invalid JSONPath: {error}")]
    return []


def _validation(
    validation: Tree, path: str, types: dict[str, Type], plain: dict[str, Type]
) -> list[FieldError]:
    errors: list[FieldError] = []
    expression = validation.get("expression", "").strip()
    message, derived = validation.get("message", ""), validation.get("messageExpression", "")
    if not expression:
        errors.append(required(f"{path}.expression", "expression is not specified"))
    else:
        errors += expression_problems(expression, f"{path}.expression", types, ("bool",))
    if derived and not derived.strip():
        problem = "must be non-empty if specified"
        errors.append(invalid(f"{path}.messageExpression", derived, problem))
    elif derived:
        where = f"{path}.messageExpression"
        errors += expression_problems(derived, where, plain, ("string",))
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "message must be non-empty if specified"))
    elif "\n" in message.strip():
        errors.append(invalid(f"{path}.message", message, "message must not contain line breaks"))
    elif "\n" in expression and not message:
        text = "message must be specified if expression contains line breaks"
        errors.append(required(f"{path}.message", text))
    return errors + choice(validation, "reason", path, _REASONS, needed=False)


def validate_mutating_policy(tree: Tree) -> list[FieldError]:
    """Return the errors of a MutatingAdmissionPolicy."""
    spec = tree.get("spec") or {}
    variables: dict[str, Type] = {}
    errors = _policy(spec, variables, mutating=True)
    types = policy_types(variables, params=spec.get("paramKind") is not None, patches=True)
    errors += present(spec, "mutations", "spec", "mutations must contain at least one item")
    for mutation, path in entries(spec, "mutations", "spec"):
        errors += _mutation(mutation, path, types)
    return errors + choice(spec, "reinvocationPolicy", "spec", REINVOCATION)


_PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_PATCH_TYPES = {"ApplyConfiguration": ("Object",), "JSONPatch": ("list(JSONPatch)",)}


def _mutation(mutation: Tree, path: str, types: dict[str, Type]) -> list[FieldError]:
    kind = mutation.get("patchType") or ""
    if kind not in _PATCHES:
        return choice(mutation, "patchType", path, tuple(_PATCHES))
    errors: list[FieldError] = []
    key = _PATCHES[kind]
    patch = mutation.get(key)
    if patch is None:
        errors.append(required(f"{path}.{key}", f"must be specified when patchType is {kind}"))
    elif not patch.get("expression", "").strip():
        errors.append(required(f"{path}.{key}.expression"))
    else:
        errors += expression_problems(
            patch["expression"].strip(), f"{path}.{key}.expression", types, _PATCH_TYPES[kind]
        )
    other = next(name for name in _PATCHES.values() if name != key)
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {kind}"
        errors.append(invalid(f"{path}.{other}", f"{{{other}}}", text))
    return errors


def _binding(spec: Tree) -> list[FieldError]:
    errors = named(spec, "policyName", "spec")
    reference = spec.get("paramRef")
    if reference is not None:
        errors += _param_ref(reference, "spec.paramRef")
    if spec.get("matchResources") is not None:
        errors += validate_match_resources(spec["matchResources"], "spec.matchResources")
    return errors


def _param_ref(reference: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name, selector = reference.get("name", ""), reference.get("selector")
    text = "name and selector are mutually exclusive"
    if name:
        errors += problems(f"{path}.name", name, names.path_segment(name))
        errors += when(selector is not None, forbidden, f"{path}.name", text)
    if selector is not None:
        errors += validate_label_selector(selector, f"{path}.selector")
        errors += when(name, forbidden, f"{path}.selector", text)
    errors += when(
        not name and selector is None, required, path, "one of name or selector must be specified"
    )
    return errors + _not_found_action(reference, path)


def _not_found_action(reference: Tree, path: str) -> list[FieldError]:
    action, place = reference.get("parameterNotFoundAction"), f"{path}.parameterNotFoundAction"
    if not action:
        return [required(place)]
    if action in ("Allow", "Deny"):
        return []
    return [not_supported(place, action, ("Deny", "Allow"), sort=False)]


def validate_mutating_policy_binding(tree: Tree) -> list[FieldError]:
    """Return the errors of a MutatingAdmissionPolicyBinding."""
    spec = tree.get("spec") or {}
    return _binding(spec) + _mutable(spec.get("matchResources") or {}, "spec.matchResources")


def validate_validating_policy_binding(tree: Tree) -> list[FieldError]:
    """Return the errors of a ValidatingAdmissionPolicyBinding."""
    spec = tree.get("spec") or {}
    errors, place = _binding(spec), "spec.validationActions"
    actions = spec.get("validationActions") or []
    seen = Seen()
    for index, action in enumerate(actions):
        errors += one_of(action, f"{place}[{index}]", ("Audit", "Deny", "Warn"))
        errors += when(seen.again(action), duplicate, f"{place}[{index}]", action)
    if "Deny" in actions and "Warn" in actions:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        errors.append(invalid(place, actions, text))
    return errors + when(not actions, required, place, "at least one validation action is required")


VALIDATING_POLICIES = Kind(
    strategy=Strategy(
        default=default_admission_policy,
        rule=validate_validating_policy,
        status_rule=validate_validating_policy_status,
        generation=True,
        unconditional_update=False,
        status_keeps_meta=True,
        meta_steps="A",
        standard_finalizers=False,
    ),
    row=policy_row("validations"),
)

MUTATING_POLICIES = Kind(
    strategy=Strategy(
        default=default_admission_policy,
        rule=validate_mutating_policy,
        has_status=False,
        generation=True,
        unconditional_update=False,
        meta_steps="A",
        standard_finalizers=False,
    ),
    row=policy_row("mutations"),
)

VALIDATING_BINDINGS = Kind(
    strategy=Strategy(
        default=default_policy_binding,
        rule=validate_validating_policy_binding,
        has_status=False,
        generation=True,
        unconditional_update=False,
        meta_steps="A",
        standard_finalizers=False,
    ),
    row=binding_row,
)

MUTATING_BINDINGS = Kind(
    strategy=Strategy(
        default=default_policy_binding,
        rule=validate_mutating_policy_binding,
        has_status=False,
        generation=True,
        unconditional_update=False,
        meta_steps="A",
        standard_finalizers=False,
    ),
    row=binding_row,
)
