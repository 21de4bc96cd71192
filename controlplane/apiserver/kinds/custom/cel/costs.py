"""Limits of what the rules of a schema may cost: one expression, and all of them together.

Upstream: apiextensions-apiserver pkg/apis/apiextensions/validation/{validation,cel_validation}.go.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field, frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.cel.amounts import UNBOUNDED
from controlplane.apiserver.kinds.custom.cel.declared import REQUEST_SIZE, Declared
from controlplane.apiserver.schema.field_errors import FieldError, forbidden

__all__ = ["RULE_LIMIT", "TOTAL_LIMIT", "Costs", "Place", "cost_of_all", "repeated"]

RULE_LIMIT: Final = 10_000_000
TOTAL_LIMIT: Final = 100_000_000
_NOTEWORTHY = TOTAL_LIMIT // 100
_SHOWN = 4
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where "
    "arrays, maps, and strings are declared)"
)


def repeated(many: int | None, schema: Tree) -> int | None:
    """Return the number of parts within `many` instances of a schema; None if unbounded."""
    kind = schema.get("type")
    if kind == "array":
        most = schema.get("maxItems")
    elif kind == "object" and schema.get("additionalProperties") is not None:
        most = schema.get("maxProperties")
    else:
        return many
    return None if many is None or most is None else min(many * max(int(most), 0), UNBOUNDED)


def cost_of_all(once: int, many: int | None, declared: Declared) -> int:
    """The cost of an expression on all values of a schema in an object.

    Args:
        once: what it costs on one of them.
        many: how many there may be; None without a bound, which is then that of a request.
        declared: what the schema says of them.
    """
    if many is None:
        many = REQUEST_SIZE // (declared.least + 1)
    return min(once * many, UNBOUNDED)


def _too_much(what: str, cost: int, limit: int) -> str:
    factor = float(cost) / float(limit)
    if factor > 100:
        text = "more than 100x"
    else:
        # More digits where one would read as 1.0.
        text = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {text} {_HINT}"


@frozen(eq=False)
class Place:
    """The position of a part in a schema.

    Attributes:
        many: the number of its instances in an object, None if unbounded.
        loose: the path of the enclosing part whose elements have no former state, if there is one.
        declared: the declaration of this part in the enclosing one, None if unknown.
    """

    costs: Costs
    many: int | None = 1
    loose: str = ""
    declared: Declared | None = None


@define
class Costs:
    """The cost of all rules of one schema together."""

    total: int = 0
    dearest: list[tuple[int, str]] = field(factory=list)

    def observed(self, cost: int, path: str, what: str) -> list[FieldError]:
        """Add the cost of an expression; the error if it alone costs too much."""
        self.total = min(self.total + cost, UNBOUNDED)
        if cost >= _NOTEWORTHY:
            self.dearest = sorted([*self.dearest, (cost, path)], key=lambda item: -item[0])[:_SHOWN]
        if cost <= RULE_LIMIT:
            return []
        return [forbidden(path, _too_much(f"estimated {what} cost", cost, RULE_LIMIT))]

    def total_problems(self, path: str) -> list[FieldError]:
        """The errors of the whole schema, at this path, and of its dearest expressions."""
        if self.total <= TOTAL_LIMIT:
            return []
        text = (
            "contributed to estimated rule cost total exceeding cost limit for entire "
            "OpenAPIv3 schema"
        )
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(forbidden(where, text) for _, where in self.dearest),
            forbidden(path, _too_much(what, self.total, TOTAL_LIMIT)),
        ]
