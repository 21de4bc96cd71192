"""Label selectors and node selectors. Upstream: apimachinery pkg/apis/meta/v1/validation, pkg/apis/core/validation."""

from __future__ import annotations

from controlplane.api import labels
from controlplane.api.decoding import decode as decode_view
from controlplane.api.meta import LabelSelector
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import entries, problems, when
from controlplane.apiserver.kinds.metadata import validate_labels
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid, required
from controlplane.apiserver.schema.field_order import in_order

__all__ = [
    "label_name",
    "selector_of",
    "selector_shown",
    "template_mismatch",
    "validate_label_selector",
    "validate_node_selector",
    "validate_node_term",
]


def label_name(key: str, path: str) -> list[FieldError]:
    """A label key."""
    return problems(path, key, names.label_key(key))


def requirement_values(req: Tree, path: str, *, unknown_operators: bool = True) -> list[FieldError]:
    """The operator of a requirement against the number of its values."""
    errors: list[FieldError] = []
    operator, values = req.get("operator", ""), req.get("values") or []
    if operator in {"In", "NotIn"}:
        text = "must be specified when `operator` is 'In' or 'NotIn'"
        errors += when(not values, required, f"{path}.values", text)
    elif operator in {"Exists", "DoesNotExist"}:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors += when(values, forbidden, f"{path}.values", text)
    elif not unknown_operators:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return errors


def validate_requirement(
    req: Tree, path: str, *, unknown_operators: bool = False, any_values: bool = False
) -> list[FieldError]:
    """Return the errors of a LabelSelectorRequirement."""
    errors = requirement_values(req, path, unknown_operators=unknown_operators)
    errors += label_name(req.get("key", ""), f"{path}.key")
    if not any_values:
        for value, place in entries(req, "values", path):
            errors += problems(place, value, names.label_value(value))
    return errors


def validate_label_selector(selector: Tree | None, path: str) -> list[FieldError]:
    """Return the errors of a LabelSelector; None is fine."""
    if not selector:
        return []
    errors = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for req, place in entries(selector, "matchExpressions", path):
        errors += validate_requirement(req, place)
    return errors


def _node_requirement(req: Tree, path: str, *, any_values: bool) -> list[FieldError]:
    operator, values = req.get("operator", ""), req.get("values") or []
    if operator in {"Gt", "Lt"}:
        errors: list[FieldError] = []
        text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        errors += when(len(values) != 1, required, f"{path}.values", text)
        errors += label_name(req.get("key", ""), f"{path}.key")
        for index, value in enumerate(() if any_values else values):
            errors += problems(f"{path}.values[{index}]", value, names.label_value(value))
        return errors
    return validate_requirement(req, path, any_values=any_values)


def _field_requirement(req: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = req.get("operator", ""), req.get("values") or []
    if operator in {"In", "NotIn"}:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors += when(len(values) != 1, required, f"{path}.values", text)
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = req.get("key", "")
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return errors
    for index, value in enumerate(values):
        errors += problems(f"{path}.values[{index}]", value, names.dns_subdomain(value))
    return errors


def validate_node_term(term: Tree, path: str, *, any_values: bool = False) -> list[FieldError]:
    """Return the errors of a term of a node selector."""
    errors: list[FieldError] = []
    for req, place in entries(term, "matchExpressions", path):
        errors += _node_requirement(req, place, any_values=any_values)
    for req, spot in entries(term, "matchFields", path):
        errors += _field_requirement(req, spot)
    return errors


def validate_node_selector(selector: Tree, path: str) -> list[FieldError]:
    """Return the errors of a NodeSelector, which needs at least one term."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        errors += validate_node_term(term, f"{path}.nodeSelectorTerms[{index}]")
    return errors


_MISMATCH = "`selector` does not match template `labels`"
_SELECTOR = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"


def selector_shown(selector: Tree | None) -> Tree | None:
    """A label selector as messages quote it: fields in the order of the type."""
    return None if selector is None else in_order(_SELECTOR, selector)


def selector_of(selector: Tree | None) -> labels.Selector | None:
    """The selector, or None if it is malformed."""
    try:
        return labels.from_label_selector(
            None if selector is None else decode_view(LabelSelector, selector)
        )
    except labels.SelectorError:
        return None


def _labels_of(template: Tree) -> Tree:
    found: Tree = (template.get("metadata") or {}).get("labels") or {}
    return found


def template_mismatch(selector: labels.Selector, template: Tree, path: str) -> list[FieldError]:
    """The template's pods are selected."""
    if selector.matches(_labels_of(template)):
        return []
    shown = (template.get("metadata") or {}).get("labels")
    return [invalid(f"{path}.metadata.labels", shown, _MISMATCH)]
