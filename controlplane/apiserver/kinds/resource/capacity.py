"""Limits of the capacity of a device that one claim may request. Upstream: validateRequestPolicy."""

from __future__ import annotations

from controlplane.api import quantity
from controlplane.api.quantity import Quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
)

__all__ = ["validate_request_policy"]

MAX_OPTIONS = 10


def validate_request_policy(policy: Tree, capacity: Quantity, path: str) -> list[FieldError]:
    """Either some values or a range of them, with one that is taken when none is asked for."""
    values, ranged = policy.get("validValues") or [], policy.get("validRange")
    if values and ranged is not None:
        text = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time"
        )
        return [forbidden(path, text)]
    key = "validValues" if values else "validRange"
    if not values and ranged is None:
        return []
    if policy.get("default") is None:
        return [required(f"{path}.default", f"required when {key} is defined")]
    default = quantity.parse(policy["default"])
    if values:
        return _values(
            [quantity.parse(text) for text in values], default, capacity, f"{path}.{key}"
        )
    return _range(ranged or {}, default, capacity, f"{path}.{key}")


def _values(
    values: list[Quantity], default: Quantity, capacity: Quantity, path: str
) -> list[FieldError]:
    errors = [
        invalid(f"{path}[{index}]", str(value), "values must be sorted in ascending order")
        for index, value in enumerate(values)
        if index and values[index - 1] > value
    ]
    if len(values) > MAX_OPTIONS:
        errors.append(too_many(path, len(values), MAX_OPTIONS))
    else:
        for index, value in enumerate(values):
            if value > capacity:
                text = f"option is larger than capacity value: {capacity}"
                errors.append(invalid(f"{path}[{index}]", str(value), text))
        seen: set[int] = set()
        for index, value in enumerate(values):
            if value.value() in seen:
                errors.append(duplicate(f"{path}[{index}]", str(value.value())))
            seen.add(value.value())
    if len(values) > MAX_OPTIONS or default not in values:
        text = "default value is not valid according to the requestPolicy"
        errors.append(invalid(path, str(default), text))
    return errors


def _range(ranged: Tree, default: Quantity, capacity: Quantity, path: str) -> list[FieldError]:
    low, high, step = (
        None if ranged.get(key) is None else quantity.parse(ranged[key])
        for key in ("min", "max", "step")
    )
    if low is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    found: list[tuple[str, Quantity, str]] = []
    if low > capacity:
        found.append(("min", low, f"min is larger than capacity value: {capacity}"))
    if default < low:
        found.append(("min", default, f"default is less than min: {low}"))
    if high is not None:
        if low > high:
            found.append(("max", low, f"min is larger than max: {high}"))
        if high > capacity:
            found.append(("max", high, f"max is larger than capacity value: {capacity}"))
        if default > high:
            found.append(("max", default, f"default is more than max: {high}"))
    if step is not None:
        found += _steps(step, low, (default, high), capacity)
    return [invalid(f"{path}.{key}", str(value), text) for key, value, text in found]


def _steps(
    step: Quantity, low: Quantity, reached: tuple[Quantity | None, ...], capacity: Quantity
) -> list[tuple[str, Quantity, str]]:
    """Return the errors of values that whole steps from the lowest do not reach."""
    if step.sign() <= 0:
        return [("step", step, "must be greater than zero")]
    found = []
    first = low + step
    if first > capacity:
        text = f"one step {first} is larger than capacity value: {capacity}"
        found.append(("step", step, text))
    for value in reached:
        if value is not None and (value.value() - low.value()) % step.value():
            text = f"value is not a multiple of a given step ({step}) from ({low})"
            found.append(("step", value, text))
    return found
