"""Taints and tolerations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from controlplane.api.constraints import Taint, Toleration
from controlplane.api.validation import parse_int64

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

_PLAIN_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint, *, comparison: bool = False) -> bool:
    """Whether a toleration covers a taint: an empty effect or key covers any.

    `comparison` switches on the operators Gt and Lt (gate TaintTolerationComparisonOperators).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator in ("", "Equal"):
        return toleration.value == taint.value
    if operator == "Exists":
        return True
    if comparison and operator in ("Gt", "Lt"):
        return _compare(operator, toleration.value, taint.value)
    return False


def _compare(operator: str, bound: str, value: str) -> bool:
    """Whether the taint's number lies above (Gt) or below (Lt) the toleration's."""
    if not (_PLAIN_INTEGER.fullmatch(bound) and _PLAIN_INTEGER.fullmatch(value)):
        return False
    limit, number = parse_int64(bound), parse_int64(value)
    if limit is None or number is None:
        return False
    return number > limit if operator == "Gt" else number < limit


def tolerated(tolerations: Iterable[Toleration], taint: Taint, *, comparison: bool = False) -> bool:
    """Whether any of the tolerations covers a taint."""
    return any(tolerates(item, taint, comparison=comparison) for item in tolerations)


def blocks_scheduling(taint: Taint) -> bool:
    """Whether a taint keeps pods off when not tolerated (NoSchedule or NoExecute)."""
    return taint.effect in (NO_SCHEDULE, NO_EXECUTE)


def untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    counts: Callable[[Taint], bool] = blocks_scheduling,
    *,
    comparison: bool = False,
) -> Taint | None:
    """The first taint among those that count which no toleration covers, None if there is none."""
    for taint in taints:
        if counts(taint) and not tolerated(tolerations, taint, comparison=comparison):
            return taint
    return None
