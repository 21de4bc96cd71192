"""Comparison of two values of a filter. Upstream: third_party/forked/golang/template/funcs.go."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from controlplane.api.jsonpath.nodes import Byte, JSONPathError

__all__ = ["holds"]

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, ">": operator.gt, "==": operator.eq,
    "!=": operator.ne, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_BAD_TYPE: Final = "invalid type for comparison"


def holds(symbol: str, left: Any, right: Any) -> bool:
    """Return whether a comparison holds.

    Raises:
        JSONPathError: an unknown operator, values of different types, or a type without (that) order.
    """
    compare = _OPERATORS.get(symbol)
    if compare is None:
        raise JSONPathError(f"unrecognized filter operator {symbol}")
    kinds = {_kind(left), _kind(right)}
    if len(kinds) > 1 and kinds != {"int", "uint"}:
        raise JSONPathError("incompatible types for comparison")
    if kinds == {"bool"} and symbol not in ("==", "!="):
        raise JSONPathError(_BAD_TYPE)
    return compare(left, right)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Byte):
        return "uint"
    for kind, name in ((int, "int"), (float, "float"), (str, "string")):
        if isinstance(value, kind):
            return name
    raise JSONPathError(_BAD_TYPE)
