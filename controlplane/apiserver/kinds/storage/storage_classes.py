"""StorageClasses. Upstream: pkg/registry/storage/storageclass, pkg/apis/storage."""

from __future__ import annotations

from collections import Counter

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of
from controlplane.apiserver.kinds.checks import entries, immutable, needed_one_of, problems, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.trees import filled
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from controlplane.apiserver.schema.work import spend

__all__ = ["KIND"]


def default_storage_class(tree: Tree) -> Tree:
    """Reclaim policy and binding mode."""
    return filled(tree, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def validate_parameters(parameters: Tree, path: str) -> list[FieldError]:
    """Return the errors of the parameters of a storage class or of a class of attributes."""
    if len(parameters) > MAX_PARAMETERS:
        return [too_long(path, MAX_PARAMETERS)]
    errors = when("" in parameters, invalid, path, "", "field can not be empty.")
    size = sum(len(k.encode()) + len(v.encode()) for k, v in parameters.items())
    return errors + when(size > MAX_PARAMETER_BYTES, too_long, path, MAX_PARAMETER_BYTES)


MAX_PARAMETERS = 512
MAX_PARAMETER_BYTES = 256 * 1024


def validate_storage_class(tree: Tree) -> list[FieldError]:
    """Return the errors of a storage class."""
    errors: list[FieldError] = []
    provisioner = tree.get("provisioner", "")
    if not provisioner:
        errors.append(required("provisioner"))
    else:
        lower = provisioner.lower()
        errors += problems("provisioner", lower, names.qualified_name(lower))
    errors += validate_parameters(tree.get("parameters") or {}, "parameters")
    policy = tree.get("reclaimPolicy")
    errors += when(
        policy and policy not in ("Delete", "Retain"),
        not_supported,
        "reclaimPolicy",
        policy,
        ("Delete", "Retain"),
    )
    mode = tree.get("volumeBindingMode")
    errors += needed_one_of(mode, "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))
    terms = tree.get("allowedTopologies") or ()
    known: Counter[frozenset[tuple[str, frozenset[str]]]] = Counter({frozenset(): len(terms)})
    for index, term in enumerate(terms):
        errors += _topology_term(term, f"allowedTopologies[{index}]")
        required_values = {
            each.get("key", ""): frozenset(each.get("values") or ())
            for each in term.get("matchLabelExpressions") or ()
        }
        place = f"allowedTopologies[{index}].matchLabelExpressions"
        asked = frozenset(required_values.items())
        spend(known[asked])
        errors += [duplicate(place, "")] * known[asked]  # as often as upstream
        known[asked] += 1
    return errors


def _topology_term(term: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for req, place in entries(term, "matchLabelExpressions", path):
        values = req.get("values") or []
        errors += when(not values, required, f"{place}.values")
        listed: dict[str, None] = {}
        for number, value in enumerate(values):
            errors += when(value in listed, duplicate, f"{place}.values[{number}]", value)
            listed[value] = None
        key = req.get("key", "")
        errors += label_name(key, f"{place}.key")
        errors += when(key in seen, duplicate, f"{place}.key", key)
        seen[key] = None
    return errors


def validate_storage_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed storage class; almost nothing may change."""
    errors = validate_storage_class(new)
    errors += immutable(new.get("parameters"), old.get("parameters"), "parameters")
    for key in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
        errors += immutable(new.get(key), old.get(key), key)
    return errors


def _class_name(tree: Tree) -> str:
    marks = tree["metadata"].get("annotations") or {}
    keys = (
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    )
    suffix = " (default)" if any(marks.get(key) == "true" for key in keys) else ""
    return name_of(tree) + suffix


KIND = Kind(
    strategy=Strategy(
        default=default_storage_class,
        rule=validate_storage_class,
        update_rule=validate_storage_class_update,
        has_status=False,
        returns_deleted=True,
        meta_steps="AU",
    ),
    row=lambda tree, now: [
        _class_name(tree),
        tree.get("provisioner", ""),
        tree.get("reclaimPolicy") or "Delete",
        tree.get("volumeBindingMode") or "Immediate",
        bool(tree.get("allowVolumeExpansion")),
        age_of(tree, now),
    ],
)
