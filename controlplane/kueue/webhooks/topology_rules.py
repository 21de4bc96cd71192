"""Annotations of pod templates that ask for a topology. Follows `pkg/controller/jobframework/tas_validation.go`."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64
from controlplane.apiserver.kinds.checks import when
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    Raw,
    duplicate,
    forbidden,
    invalid,
    required,
)
from controlplane.kubelet.cm.go_text import GoTextError, parse_bool
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.topology_annotations import (
    CONSTRAINTS,
    GROUP,
    LAYER_COUNT,
    MOST_LAYERS,
    PREFERRED,
    REQUIRED,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    UNCONSTRAINED,
    constraints_of,
)

__all__ = ["validate_slice_bound", "validate_topology"]

Errors = list[FieldError]

_INT32: Final = 1 << 31


def _int32(text: str) -> int | None:
    number = parse_int64(text)
    return number if number is not None and -_INT32 <= number < _INT32 else None


def validate_topology(annotations: Tree, path: str, gates: Gates) -> Errors:
    """Return the errors of a template's annotations; `path` is that of its metadata."""
    at = f"{path}.annotations"
    errors: Errors = []
    chosen = [name for name in (REQUIRED, PREFERRED, UNCONSTRAINED) if name in annotations]
    if len(chosen) > 1:
        text = (
            f'must not contain more than one topology annotation: ["{REQUIRED}", "{PREFERRED}",'
            f' "{UNCONSTRAINED}"]'
        )
        errors.append(FieldError("FieldValueInvalid", at, Raw(""), text))
    for name in (REQUIRED, PREFERRED, SLICE_TOPOLOGY):
        if name in annotations:
            errors += label_name(annotations[name], f"{at}[{name}]")
    errors += _group(annotations, at)
    if UNCONSTRAINED in annotations:
        try:
            parse_bool(annotations[UNCONSTRAINED])
        except GoTextError:
            path = f"{at}[{UNCONSTRAINED}]"
            errors.append(invalid(path, annotations[UNCONSTRAINED], "must be a boolean value"))
    errors += _slice_size(annotations, at)
    topology, size = SLICE_TOPOLOGY in annotations, SLICE_SIZE in annotations
    path = f"{at}[{SLICE_SIZE}]"
    text = f"must be set when '{SLICE_TOPOLOGY}' is specified"
    errors += when(topology and not size, required, path, text)
    text = f"may not be set when '{SLICE_TOPOLOGY}' is not specified"
    errors += when(size and not topology, forbidden, path, text)
    return errors + _constraints(annotations, at, gates)


def _group(annotations: Tree, at: str) -> Errors:
    if GROUP not in annotations:
        return []
    name, path = annotations[GROUP], f"{at}[{GROUP}]"
    number = name.isascii() and name.isdigit() and int(name) < 1 << 64
    errors = when(number, invalid, path, name, "must not be a number")
    for other in (SLICE_SIZE, SLICE_TOPOLOGY):
        text = f"may not be set when '{other}' is specified"
        errors += when(other in annotations, forbidden, path, text)
    neither = PREFERRED not in annotations and REQUIRED not in annotations
    text = f"may not be set when neither '{PREFERRED}' nor '{REQUIRED}' is specified"
    return errors + when(neither, forbidden, path, text)


def _slice_size(annotations: Tree, at: str) -> Errors:
    if SLICE_SIZE not in annotations:
        return []
    text, path = annotations[SLICE_SIZE], f"{at}[{SLICE_SIZE}]"
    size = _int32(text)
    if size is None:
        return [invalid(path, text, "must be a numeric value")]
    return when(size < 1, invalid, path, text, "must be greater than or equal to 1")


def _constraints(annotations: Tree, at: str, gates: Gates) -> Errors:
    if CONSTRAINTS not in annotations:
        return []
    text, path = annotations[CONSTRAINTS], f"{at}[{CONSTRAINTS}]"
    if not gates.enabled("TASMultiLayerTopology"):
        needed = "the TASMultiLayerTopology feature gate must be enabled to use this annotation"
        return [forbidden(path, needed)]
    errors: Errors = []
    for other in (SLICE_TOPOLOGY, SLICE_SIZE):
        said = f"may not be set when '{other}' is specified"
        errors += when(other in annotations, forbidden, path, said)
    said = f"may not be set when '{CONSTRAINTS}' is specified"
    errors += when(GROUP in annotations, forbidden, f"{at}[{GROUP}]", said)
    try:
        layers = constraints_of(text)
    except ValueError as error:
        return [*errors, invalid(path, text, f"must be a valid JSON array: {error}")]
    if not 1 <= len(layers) <= MOST_LAYERS:
        return [*errors, invalid(path, text, LAYER_COUNT)]
    return errors + _layers(layers, path)


def _layers(layers: list[Tree], path: str) -> Errors:
    errors: Errors = []
    seen: dict[str, int] = {}
    for index, layer in enumerate(layers):
        errors += label_name(layer.get("topology", ""), f"{path}[{index}].topology")
        size = layer.get("size") or 0
        text = "must be greater than or equal to 1"
        errors += when(size < 1, invalid, f"{path}[{index}].size", size, text)
    for index, layer in enumerate(layers):
        topology = layer.get("topology", "")
        if topology in seen:
            text = f"{topology} (also at index {seen[topology]})"
            errors.append(duplicate(f"{path}[{index}].topology", text))
        else:
            seen[topology] = index
    for index, (outer, inner) in enumerate(pairwise(layers), 1):
        size, parent = inner.get("size") or 0, outer.get("size") or 0
        text = f"must evenly divide the parent layer size {parent}"
        errors += when(size > 0 and parent % size, invalid, f"{path}[{index}].size", size, text)
    return errors


def validate_slice_bound(annotations: Tree, path: str, count: int) -> Errors:
    """Return the errors of slices larger than the number of pods."""
    at = f"{path}.annotations"
    text = f"must not be greater than pod set count {count}"
    errors: Errors = []
    if SLICE_SIZE in annotations:
        size = _int32(annotations[SLICE_SIZE])
        where = f"{at}[{SLICE_SIZE}]"
        if size is None:
            return [invalid(where, annotations[SLICE_SIZE], "must be a numeric value")]
        errors += when(size > count, invalid, where, annotations[SLICE_SIZE], text)
    if CONSTRAINTS in annotations:
        try:
            layers = constraints_of(annotations[CONSTRAINTS])
        except ValueError:
            layers = []
        size = (layers[0].get("size") or 0) if layers else 0
        errors += when(size > count, invalid, f"{at}[{CONSTRAINTS}]", size, text)
    return errors
