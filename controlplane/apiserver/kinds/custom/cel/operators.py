"""Operators: equality, order and arithmetic.

Upstream: cel-go common/types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from controlplane.api.go_integers import divide
from controlplane.apiserver.kinds.custom.cel.maps import ABSENT, Complete, find, items_of
from controlplane.apiserver.kinds.custom.cel.tree import CelError, Unsigned
from controlplane.apiserver.kinds.custom.cel.values import Keyed, Optional, Unordered

__all__ = [
    "OPERATORS",
    "OVERLOAD",
    "arithmetic",
    "compare",
    "contained",
    "equal",
    "failed",
    "is_number",
]

OVERLOAD: Final = "no such overload"
_EQUAL_OWN: Final = frozenset(("Semver", "Quantity", "Address", "Network", "Url", "NamedFormat"))
"""Types whose values refuse to be compared with those of other types (upstream: apiserver pkg/cel)."""
_COMPARABLE: Final = (bool, int, float, str, bytes, datetime, timedelta)
_OPERANDS: Final = {
    "+": (int, float, str, bytes, list, datetime, timedelta),
    "-": (int, float, datetime, timedelta),
    "*": (int, float),
    "/": (int, float),
    "%": (int,),
}
"""Types that may stand before an operator (upstream: the traits of cel-go common/types)."""


def failed(text: str) -> CelError:
    """An evaluation that failed."""
    return CelError(text)


def is_number(value: Any) -> bool:
    """True for numbers, of which truth values are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(a: Any, b: Any) -> bool:
    """Return whether two values are equal; true is not 1, and sets have no order."""
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return False
        if isinstance(a, (Unordered, Keyed)) or isinstance(b, (Unordered, Keyed)):
            return all(contained(item, b) for item in a)
        return all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(
            (other := find(b, key)) is not ABSENT and equal(value, other)
            for key, value in items_of(a)
        )
    if isinstance(a, Optional) and isinstance(b, Optional):
        return a.present is b.present and (not a.present or equal(a.value, b.value))
    return bool(a == b)


def contained(item: Any, where: Iterable[Any]) -> bool:
    """Return whether one of the values equals the item."""
    return any(equal(item, other) for other in where)


def compare(sign: str, a: Any, b: Any) -> bool:
    """A relation of two values. CelError."""
    if sign == "==":
        if type(a).__name__ in _EQUAL_OWN and b is not None and type(a) is not type(b):
            raise failed(OVERLOAD)
        return equal(a, b)
    if sign == "!=":
        return not equal(a, b)
    if sign == "in":
        if isinstance(b, Complete):
            return a in b if isinstance(a, str) else False
        return find(b, a) is not ABSENT if isinstance(b, dict) else contained(a, b)
    if not isinstance(a, _COMPARABLE):
        raise failed(f"{OVERLOAD}: _{sign}_")
    if not ((is_number(a) and is_number(b)) or type(a) is type(b)):
        raise failed(OVERLOAD)
    try:
        if sign == "<":
            return bool(a < b)
        if sign == "<=":
            return bool(a <= b)
        return bool(a > b) if sign == ">" else bool(a >= b)
    except TypeError:
        raise failed(OVERLOAD) from None


def _check_operand(sign: str, value: Any) -> None:
    """Raise CelError for a value that the operator may not follow."""
    if isinstance(value, bool) or not isinstance(value, _OPERANDS[sign]):
        raise failed(f"{OVERLOAD}: _{sign}_")


def arithmetic(sign: str, a: Any, b: Any) -> Any:
    """Of two values their sum, difference, product, quotient or remainder. CelError."""
    _check_operand(sign, a)
    times = isinstance(a, (datetime, timedelta)) and isinstance(b, (datetime, timedelta))
    lists = isinstance(a, list) and isinstance(b, list)
    if times and sign in "+-":
        try:
            return a + b if sign == "+" else a - b
        except TypeError:
            raise failed(OVERLOAD) from None
        except OverflowError:
            raise failed("timestamp overflow") from None
    if (
        isinstance(a, bool)
        or isinstance(b, bool)
        or not (lists or type(a) is type(b) or (is_number(a) and is_number(b)))
    ):
        raise failed(OVERLOAD)
    if not is_number(a) and not (sign == "+" and isinstance(a, (str, bytes, list))):
        raise failed(OVERLOAD)
    if sign == "+":
        result = _joined(a, b) if lists else a + b
    elif sign == "-":
        result = a - b
    elif sign == "*":
        result = a * b
    elif isinstance(a, float) or isinstance(b, float):
        if sign == "%":
            raise failed(OVERLOAD)
        result = a / b if b else (float("nan") if not a else float("inf") * (1 if a > 0 else -1))
    elif not b:
        raise failed("division by zero" if sign == "/" else "modulus by zero")
    else:
        whole = divide(a, b)
        result = whole if sign == "/" else a - whole * b
    if isinstance(result, int):
        if isinstance(a, Unsigned) and isinstance(b, Unsigned):
            if not 0 <= result < 2**64:
                raise failed("unsigned integer overflow")
            return Unsigned(result)
        if not -(2**63) <= result < 2**63:
            raise failed("integer overflow")
    return result


def _joined(a: list[Any], b: list[Any]) -> list[Any]:
    """Two lists as one; a set takes only what it does not have."""
    if isinstance(a, Unordered):
        return Unordered([*a, *(item for item in b if not contained(item, a))])
    return [*a, *b]


def _negative(value: Any) -> Any:
    if isinstance(value, bool | Unsigned) or not isinstance(value, int | float):
        raise failed(OVERLOAD)
    return -value if isinstance(value, float) else arithmetic("-", 0, value)


def _not(value: Any) -> bool:
    if not isinstance(value, bool):
        raise failed(OVERLOAD)
    return not value


OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    **{
        f"_{sign}_": (lambda a, b, sign=sign: compare(sign, a, b))
        for sign in ("==", "!=", "<", "<=", ">", ">=")
    },
    "@in": lambda a, b: compare("in", a, b),
    **{f"_{sign}_": (lambda a, b, sign=sign: arithmetic(sign, a, b)) for sign in "+-*/%"},
    "!_": _not,
    "-_": _negative,
    "@not_strictly_false": lambda value: value is not False,
}
"""Operators that are computed from their operands' values."""
