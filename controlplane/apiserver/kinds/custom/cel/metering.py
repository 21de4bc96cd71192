"""What an expression costs while it is computed, and the end of those that cost too much.

Steps count; texts cost by their length. Upstream: cel-go interpreter/runtimecost.go, apiserver
pkg/cel/library/cost.go. Macros that stop early cost the turns that they made.
"""

from __future__ import annotations

import math
from typing import Any, Final

from attrs import define, field

from controlplane.apiserver.kinds.custom.cel.evaluation import Eval, Scope, Watch
from controlplane.apiserver.kinds.custom.cel.syntax import CelError, Expr
from controlplane.apiserver.schema.work import spend

__all__ = ["METER", "Meter", "metered"]

METER: Final = "@meter"
"""The name of the meter among the variables: no expression can speak of it."""
_TRAVERSAL, _REGEX = 0.1, 0.25
_LIST, _MAP, _STRUCT = 10, 30, 40
_FREE = frozenset(("_&&_", "_||_", "_?_:_", "!_"))
_COMPARED = frozenset(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"))
_WHOLE_TEXT = frozenset((
    "startsWith", "endsWith", "lowerAscii", "upperAscii", "trim", "substring", "split", "replace",
    "charAt", "bytes", "strings.quote", "format", "url", "isURL", "ip", "isIP", "cidr", "isCIDR",
    "ip.isCanonical", "quantity", "isQuantity", "semver", "isSemver", "validate",
))  # fmt: skip
_WHOLE_LIST = frozenset((
    "isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "join", "reverse", "flatten",
    "slice", "sort",
))  # fmt: skip
_TURN = {"all": 3, "exists": 4, "exists_one": 2, "existsOne": 2, "filter": 12, "map": 12,
         "transformList": 12, "transformMap": 12, "sortBy": 12}  # fmt: skip
"""What a macro adds in each turn: it looks at its result so far, and some of them write to it."""


@define(eq=False)
class Meter:
    """How much one expression has cost so far. With more than `limit` it ends: CelError."""

    limit: int
    spent: int = 0
    values: dict[int, Any] = field(factory=dict)
    """What parts came to when they were last computed, by identity of the part."""

    def spend(self, cost: int) -> None:
        """Count so many steps."""
        self.spent += cost
        spend(2 + (cost >> 4))  # long texts cost more than they take
        if self.spent > self.limit:
            raise CelError("operation cancelled: actual cost limit exceeded")


def metered() -> Watch:
    """Counts what the parts of one expression cost, on the meter among its variables."""
    turns: dict[int, int] = {}

    def watch(expr: Expr, run: Eval) -> Eval:
        if expr.op == "macro" and expr.name in _TURN:
            turns.update((id(body), _TURN[expr.name]) for body in expr.args[1:])
        mark = id(expr)

        def counted(scope: Scope) -> Any:
            value = run(scope)
            meter: Meter | None = scope.get(METER)
            if meter is None:  # nobody asks what it costs
                return value
            meter.spend(_cost(expr, meter.values) + turns.get(mark, 0))
            meter.values[mark] = value
            return value

        return counted

    return watch


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, list, dict)) else 1


def _part(size: float, factor: float) -> int:
    return math.ceil(size * factor)


def _cost(expr: Expr, values: dict[int, Any]) -> int:
    op = expr.op
    if op in ("ident", "select", "optselect", "macro"):
        return 1
    if op in ("const", "has"):
        return 0
    if op == "list":
        return 0 if all(part.op == "const" for part in expr.args) else _LIST
    if op == "map":
        return _MAP
    if op == "struct":
        return _STRUCT
    if expr.name in _FREE:
        return 1 if expr.name == "!_" else 0
    sizes = [_size(values.get(id(part))) for part in expr.args]
    return _call_cost(expr.name, sizes, [values.get(id(part)) for part in expr.args])


def _call_cost(name: str, sizes: list[int], given: list[Any]) -> int:
    if name in _COMPARED:
        return max(1, _part(min(sizes), _TRAVERSAL))
    if name == "@in":
        return 1 if isinstance(given[1], dict) else sizes[1]
    if name == "_+_":
        textual = isinstance(given[0], (str, bytes))
        return _part(sum(sizes), _TRAVERSAL) if textual else 1
    if name == "contains":
        return _part(sizes[0], _TRAVERSAL) * _part(sizes[1], _TRAVERSAL)
    if name in ("matches", "find", "findAll"):
        return _part(1 + sizes[0], _TRAVERSAL) * _part(sizes[1], _REGEX)
    if name in _WHOLE_LIST and isinstance(given[0], list):
        return sum(1 + _part(_size(item), _TRAVERSAL) * isinstance(item, str) for item in given[0])
    if name == "distinct":
        return sizes[0] * sizes[0]
    if name in _WHOLE_TEXT and sizes:
        return max(1, _part(sizes[0], _TRAVERSAL))
    if name == "check":  # a question to the authorizer
        return 350_000
    return 1
