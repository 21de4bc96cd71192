"""Taints and tolerations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from controlplane.api.constraints import Taint, Toleration
from controlplane.api.validation import parse_int64
from controlplane.sharing.memory import by_identity

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

MANY: Final = 64
"""More tolerations than that are looked up by key."""
_PLAIN_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint, *, comparison: bool = False) -> bool:
    """Return whether a toleration covers a taint: an empty effect or key covers any.

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
    """Return whether the taint's number lies above (Gt) or below (Lt) the toleration's."""
    if not (_PLAIN_INTEGER.fullmatch(bound) and _PLAIN_INTEGER.fullmatch(value)):
        return False
    limit, number = parse_int64(bound), parse_int64(value)
    if limit is None or number is None:
        return False
    return number > limit if operator == "Gt" else number < limit


def tolerated(tolerations: Sequence[Toleration], taint: Taint, *, comparison: bool = False) -> bool:
    """Return whether any of the tolerations covers a taint."""
    return first_tolerating(tolerations, taint, comparison=comparison) is not None


def first_tolerating(
    tolerations: Sequence[Toleration], taint: Taint, *, comparison: bool = False
) -> Toleration | None:
    """The first of the tolerations that covers a taint, None if none does.

    Of very many only those are looked at that name the taint's key, or no key: nodes with tens of thousands of taints
    and pods with as many tolerations would be compared for minutes.
    """
    if len(tolerations) > MANY:
        known = _by_key(tolerations)
        tolerations = known.get(taint.key) or known.get("") or ()
    for item in tolerations:
        if tolerates(item, taint, comparison=comparison):
            return item
    return None


@by_identity
def _by_key(tolerations: Sequence[Toleration]) -> dict[str, list[Toleration]]:
    """For each key the tolerations that concern it, and for "" those of all keys; in order, equal ones once."""
    found: dict[str, list[Toleration]] = {}
    general: list[Toleration] = []
    firsts: dict[tuple[str, ...], Toleration] = {}
    for each in tolerations:
        firsts.setdefault((each.key, each.operator, each.value, each.effect), each)
    for each in firsts.values():
        if each.key:
            found.setdefault(each.key, list(general)).append(each)
        else:
            general.append(each)
            for others in found.values():
                others.append(each)
    return {**found, "": general}


def blocks_scheduling(taint: Taint) -> bool:
    """Return whether a taint keeps pods off when not tolerated (NoSchedule or NoExecute)."""
    return taint.effect in (NO_SCHEDULE, NO_EXECUTE)


def untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    counts: Callable[[Taint], bool] = blocks_scheduling,
    *,
    comparison: bool = False,
) -> Taint | None:
    """The first taint among those that count which no toleration covers, None if there is none."""
    for taint in taints:
        if counts(taint) and not tolerated(tolerations, taint, comparison=comparison):
            return taint
    return None
