"""PriorityLevelConfigurations. Upstream: pkg/registry/flowcontrol/prioritylevelconfiguration, pkg/apis/flowcontrol."""

from __future__ import annotations

import math
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import choice, when
from controlplane.apiserver.kinds.flowcontrol.flow_schemas import validate_flow_status
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.trees import filled, in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = ["KIND"]


def default_priority_level(tree: Tree) -> Tree:
    """Shares and queues of a priority level."""

    def queuing(config: Tree) -> Tree:
        return {
            "queues": 64,
            "handSize": 8,
            "queueLengthLimit": 50,
            **{key: value for key, value in config.items() if value},
        }

    def response(config: Tree) -> Tree:
        return inside(config, "queuing", queuing)

    def limited(config: Tree) -> Tree:
        config = filled(config, {"nominalConcurrencyShares": 30, "lendablePercent": 0})
        return inside(config, "limitResponse", response)

    def exempt(config: Tree) -> Tree:
        return filled(config, {"nominalConcurrencyShares": 0, "lendablePercent": 0})

    def spec(spec: Tree) -> Tree:
        if spec.get("type") == "Exempt" and "exempt" not in spec:
            spec = {**spec, "exempt": {}}
        return inside(inside(spec, "limited", limited), "exempt", exempt)

    return in_spec(tree, spec)


MAX_QUEUES = 10_000_000
MAX_ENTROPY_BITS = 60


def validate_priority_level(tree: Tree) -> list[FieldError]:
    """Return the errors of a PriorityLevelConfiguration."""
    spec = tree.get("spec") or {}
    name, kind = (tree.get("metadata") or {}).get("name", ""), spec.get("type", "")
    errors: list[FieldError] = []
    if (name == "exempt") is not (kind == "Exempt"):
        text = "must be 'Exempt' if and only if `name` is 'exempt'"
        errors.append(invalid("spec.type", kind, text))
    parts = {"Exempt": "exempt", "Limited": "limited"}
    if kind not in parts:
        return [*errors, not_supported("spec.type", kind, parts)]
    for other, key in parts.items():
        if other != kind and spec.get(key) is not None:
            errors.append(
                forbidden(
                    f"spec.{key}",
                    f"must be nil if the type is {'not ' * (key == 'limited')}Limited",
                )
            )
    config, path = spec.get(parts[kind]), f"spec.{parts[kind]}"
    if config is None:
        return [*errors, required(path, "must not be empty when type is Limited")]
    shares = config.get("nominalConcurrencyShares") or 0
    if shares < 0:
        text = "must be a non-negative integer"
        errors.append(invalid(f"{path}.nominalConcurrencyShares", shares, text))
    if kind == "Limited":
        errors += _response(config.get("limitResponse") or {}, f"{path}.limitResponse")
    lendable = config.get("lendablePercent")
    if lendable is not None and not 0 <= lendable <= 100:
        text = "must be between 0 and 100, inclusive"
        errors.append(invalid(f"{path}.lendablePercent", lendable, text))
    borrowing = config.get("borrowingLimitPercent")
    if kind == "Limited" and borrowing is not None and borrowing < 0:
        text = "if specified, must be a non-negative integer"
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowing, text))
    return errors


def _response(response: Tree, path: str) -> list[FieldError]:
    queuing, place = response.get("queuing"), f"{path}.queuing"
    errors = choice({"type": response.get("type") or "?"}, "type", path, ("Queue", "Reject"))
    if errors:
        return [not_supported(f"{path}.type", response.get("type", ""), ("Queue", "Reject"))]
    if response["type"] == "Reject":
        text = "must be nil if limited.limitResponse.type is not Limited"
        return [] if queuing is None else [forbidden(place, text)]
    if queuing is None:
        text = "must not be empty if limited.limitResponse.type is Limited"
        return [required(place, text)]
    return _queuing(queuing, place)


def _queuing(config: Tree, path: str) -> list[FieldError]:
    length, queues, hand = (
        config.get(key, 0) for key in ("queueLengthLimit", "queues", "handSize")
    )
    errors = []
    errors += when(length <= 0, invalid, f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > MAX_QUEUES:
        text = f"must not be greater than {MAX_QUEUES}"
        errors.append(invalid(f"{path}.queues", queues, text))
    elif hand <= 0:
        errors.append(invalid(f"{path}.handSize", hand, "must be positive"))
    elif hand > queues:
        text = f"should not be greater than queues ({queues})"
        errors.append(invalid(f"{path}.handSize", hand, text))
    elif _entropy_bits(queues, hand) > MAX_ENTROPY_BITS:
        text = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be "
            f"greater than {MAX_ENTROPY_BITS}"
        )
        errors.append(invalid(f"{path}.handSize", hand, text))
    return errors


def _entropy_bits(deck: int, hand: int) -> int:
    return math.ceil(math.log2(math.prod(range(deck - hand + 1, deck + 1))))


def _row(tree: Tree, now: int) -> list[Any]:
    spec = part_of(tree, "spec")
    limited = spec.get("limited")
    response = part_of(part_of(spec, "limited"), "limitResponse")
    queuing = response.get("queuing")
    queues = ("queues", "handSize", "queueLengthLimit")
    return [
        name_of(tree),
        spec.get("type", ""),
        "<none>" if limited is None else limited.get("nominalConcurrencyShares"),
        *("<none>" if queuing is None else queuing.get(key, 0) for key in queues),
        age_of(tree, now),
    ]


KIND = Kind(
    strategy=Strategy(
        default=default_priority_level,
        rule=validate_priority_level,
        status_rule=validate_flow_status,
        generation=True,
        status_keeps_meta=True,
        meta_steps="A",
    ),
    row=_row,
)
