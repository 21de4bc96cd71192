"""Rules of affinity, tolerations and topology spread. Upstream: pkg/apis/core/validation."""

from __future__ import annotations

from collections import Counter

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import entries, one_of, optional_one_of, problems, when
from controlplane.apiserver.kinds.selectors import (
    label_name,
    validate_label_selector,
    validate_node_selector,
    validate_node_term,
)
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = [
    "toleration_shown",
    "validate_affinity",
    "validate_taint_effect",
    "validate_tolerations",
    "validate_topology_spread",
]

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _weight(entry: Tree, path: str) -> list[FieldError]:
    weight = entry.get("weight", 0)
    if 1 <= weight <= 100:
        return []
    return [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _node_affinity(affinity: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    needed = affinity.get(_REQUIRED)
    if needed is not None:
        errors += validate_node_selector(needed, f"{path}.{_REQUIRED}")
    for entry, place in entries(affinity, _PREFERRED, path):
        errors += _weight(entry, place)
        # What is only preferred may ask for values that no label can have.
        preference = entry.get("preference") or {}
        errors += validate_node_term(preference, f"{place}.preference", any_values=True)
    return errors


def _pod_term(term: Tree, path: str) -> list[FieldError]:
    selector = term.get("labelSelector")
    errors = validate_label_selector(selector, f"{path}.labelSelector")
    errors += validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        errors += problems(f"{path}.namespace", name, names.dns_label(name))
    errors += _term_keys(term, path)
    key = term.get("topologyKey", "")
    errors += when(not key, required, f"{path}.topologyKey", "can not be empty")
    return errors + label_name(key, f"{path}.topologyKey")


def _term_keys(term: Tree, path: str) -> list[FieldError]:
    keys, mismatched = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    errors: list[FieldError] = []
    if not keys and not mismatched:
        return errors
    known = frozenset(mismatched)
    both = [
        invalid(
            f"{path}.matchLabelKeys[{index}]",
            key,
            "exists in both matchLabelKeys and mismatchLabelKeys",
        )
        for index, key in enumerate(keys)
        if key in known
    ]
    if term.get("labelSelector") is None:
        text = "must not be specified when labelSelector is not set"
        errors += when(keys, forbidden, f"{path}.matchLabelKeys", text)
        errors += when(mismatched, forbidden, f"{path}.mismatchLabelKeys", text)
        return errors + both
    for name, listed in (("matchLabelKeys", keys), ("mismatchLabelKeys", mismatched)):
        for index, key in enumerate(listed):
            errors += label_name(key, f"{path}.{name}[{index}]")
    errors += _selected_twice(keys, term.get("labelSelector"), path)
    return errors + both


def _selected_twice(keys: list[str], selector: Tree | None, path: str) -> list[FieldError]:
    """A label whose value is taken from the pod is not selected besides.

    What the server itself adds for such a key is its first requirement; the place is upstream's.
    """
    places = {key: index for index, key in enumerate(keys)}
    seen = set((selector or {}).get("matchLabels") or ())
    errors: list[FieldError] = []
    for req in (selector or {}).get("matchExpressions") or ():
        key = req.get("key", "")
        if key in places and key in seen:
            text = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(f"{path}[{places[key]}]", key, text))
        seen.add(key)
    return errors


def _pod_affinity(affinity: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for term, spot in entries(affinity, _REQUIRED, path):
        errors += _pod_term(term, spot)
    for entry, place in entries(affinity, _PREFERRED, path):
        errors += _weight(entry, place)
        errors += _pod_term(entry.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")
    return errors


def validate_affinity(affinity: Tree, path: str) -> list[FieldError]:
    """Node affinity, pod affinity and anti-affinity."""
    errors: list[FieldError] = []
    if affinity.get("nodeAffinity") is not None:
        errors += _node_affinity(affinity["nodeAffinity"], f"{path}.nodeAffinity")
    for key in ("podAffinity", "podAntiAffinity"):
        if affinity.get(key) is not None:
            errors += _pod_affinity(affinity[key], f"{path}.{key}")
    return errors


def validate_taint_effect(effect: str, path: str) -> list[FieldError]:
    """One of the three effects."""
    if effect in _TAINT_EFFECTS:
        return []
    return [not_supported(path, effect, _TAINT_EFFECTS, sort=False)]


# The two that DefaultTolerationSeconds adds to every pod; they need no second look.
_ORDINARY = ("Exists", "NoExecute")


def validate_tolerations(tolerations: list[Tree], path: str, first: int = 0) -> list[FieldError]:
    """Tolerations of a pod. `first` is the place of the first one."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations, first):
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        effect, value = toleration.get("effect", ""), toleration.get("value", "")
        if (operator, effect) == _ORDINARY and not value and key and not names.label_key(key):
            continue
        place = f"{path}[{index}]"
        if key:
            errors += label_name(key, f"{place}.key")
        elif operator != "Exists":
            errors.append(
                invalid(
                    f"{place}.operator",
                    operator,
                    (
                        'operator must be Exists when `key` is empty, which means "match all values and '
                        'all keys"'
                    ),
                )
            )
        errors += when(
            "tolerationSeconds" in toleration and effect != "NoExecute",
            invalid,
            f"{place}.effect",
            effect,
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        )
        if operator in {"Equal", ""}:
            problems = names.label_value(value)
            if problems:
                errors.append(invalid(f"{place}.operator", value, ";".join(problems)))
        elif operator == "Exists":
            text = "value must be empty when `operator` is 'Exists'"
            errors += when(value, invalid, f"{place}.operator", value, text)
        else:
            known = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else _OPERATORS
            errors.append(not_supported(f"{place}.operator", operator, known, sort=False))
        if effect:
            errors += validate_taint_effect(effect, f"{place}.effect")
    return errors


_OPERATORS = ("Equal", "Exists")


def toleration_shown(toleration: Tree) -> Tree:
    """A toleration as upstream's internal type prints."""
    return {
        "Key": toleration.get("key", ""),
        "Operator": toleration.get("operator", ""),
        "Value": toleration.get("value", ""),
        "Effect": toleration.get("effect", ""),
        "TolerationSeconds": toleration.get("tolerationSeconds"),
    }


_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")


def validate_topology_spread(constraints: list[Tree], path: str) -> list[FieldError]:
    """Topology spread constraints of a pod."""
    errors: list[FieldError] = []
    left = Counter(
        (each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")) for each in constraints
    )
    for index, constraint in enumerate(constraints):
        place = f"{path}[{index}]"
        skew, key = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        action = constraint.get("whenUnsatisfiable", "")
        errors += when(skew <= 0, invalid, f"{place}.maxSkew", skew, "must be greater than zero")
        errors += when(not key, required, f"{place}.topologyKey", "can not be empty")
        errors += one_of(action, f"{place}.whenUnsatisfiable", _UNSATISFIABLE)
        left[key, action] -= 1
        errors += when(
            left[key, action],
            duplicate,
            f"{place}.{{topologyKey, whenUnsatisfiable}}",
            f"{{{key}, {action}}}",
        )
        minimum = constraint.get("minDomains")
        if minimum is not None:
            errors += when(
                minimum <= 0, invalid, f"{place}.minDomains", minimum, "must be greater than zero"
            )
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors += when(action != "DoNotSchedule", invalid, f"{place}.minDomains", minimum, text)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(name)
            errors += optional_one_of(policy, f"{place}.{name}", _INCLUSION)
        keys = constraint.get("matchLabelKeys") or []
        selector = constraint.get("labelSelector")
        if keys:
            if selector is None:
                text = "must not be specified when labelSelector is not set"
                errors.append(forbidden(f"{place}.matchLabelKeys", text))
            else:
                for number, name in enumerate(keys):
                    errors += label_name(name, f"{place}.matchLabelKeys[{number}]")
        errors += validate_label_selector(selector, f"{place}.labelSelector")
    return errors
